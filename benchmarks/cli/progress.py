"""Progress bars: after two seconds, on a terminal only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...progress import Progress, Reporter

if TYPE_CHECKING:
    from tqdm import tqdm

_DELAY_SECONDS = 2.0


def bars() -> Progress:
    """Return a maker of reporters, a bar a step; the step that was told of last has the line.

    What is done of all that is known so far need not be the end: engines and shards learn of more as they go on, and
    take a step up again after another.
    """
    from tqdm import tqdm

    # A process in which a thread runs is not forked, and does all work alone.
    tqdm.monitor_interval = 0
    shown: tqdm | None = None

    def start(step: str) -> Reporter:
        began = time.monotonic()
        own: tqdm | None = None

        def report(done: int, total: int) -> None:
            nonlocal own, shown
            if own is None or own is not shown:
                if shown is not None:
                    shown.close()
                delay = max(_DELAY_SECONDS - (time.monotonic() - began), 0)
                own = shown = tqdm(
                    desc=step, delay=delay, disable=None, leave=False, unit="", initial=done, total=total
                )
            own.total = total
            own.update(done - own.n)
            if done >= total:
                own.clear()

        return report

    return start
