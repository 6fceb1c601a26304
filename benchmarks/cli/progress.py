"""Progress bars: after two seconds, on a terminal only."""

from __future__ import annotations

from ...progress import Progress, Reporter

_DELAY_SECONDS = 2.0


def bars() -> Progress:
    """Return a maker of reporters, a bar a step; a new step ends the bar before it."""
    from tqdm import tqdm

    # A process in which a thread runs is not forked, and does all work alone.
    tqdm.monitor_interval = 0
    open_bars: list[tqdm] = []

    def start(step: str) -> Reporter:
        for bar in open_bars:
            bar.close()
        open_bars.clear()
        bar = tqdm(desc=step, delay=_DELAY_SECONDS, disable=None, leave=False, unit="", total=0)
        open_bars.append(bar)

        def report(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)
            if done >= total:
                bar.close()

        return report

    return start
