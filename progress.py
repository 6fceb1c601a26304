"""Progress of work: reporters of steps, and bars that show them."""

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

Reporter = Callable[[int, int], object]
"""Called with the progress of one step: (done, total)."""

Progress = Callable[[str], Reporter]
"""Returns the reporter of a step of that name."""

_DELAY_SECONDS = 2.0
"""Shorter steps show no bar."""


def unheard(done: int, total: int) -> None:
    """Report nothing."""


def silent(step: str) -> Reporter:
    """Return a reporter that reports nothing."""
    return unheard


def numbered(progress: Progress, steps: Sequence[str], before: str = "") -> Progress:
    """Return a progress that numbers steps: ``step 2 of 5: cider``.

    Args:
        progress: Returns the reporters.
        steps: The steps to come, in order; another one has no number.
        before: Prefix of each name.
    """
    places = {step: f"step {place} of {len(steps)}: " for place, step in enumerate(steps, 1)}
    return lambda step: progress(f"{before}{places.get(step, '')}{step}")


class ShardProgress:
    """Reports a step of several shards as one.

    Args:
        progress: Returns the reporter of a step.
        total: How many items there will be, where that is known.
    """

    def __init__(self, progress: Progress, total: int = 0) -> None:
        self._progress, self._total = progress, total
        self._known: dict[str, tuple[Reporter, int]] = {}

    def __call__(self, step: str) -> Reporter:
        """Return a reporter of the next shard's share of a step."""
        report, before = self._known.get(step) or (self._progress(step), 0)
        self._known[step] = report, before

        def of_shard(done: int, total: int) -> None:
            report(before + done, max(self._total, before + total))
            if done == total:
                self._known[step] = report, before + total

        return of_shard


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and "IPKernelApp" in shell.config


def by_place() -> Progress:
    """Return bars in a notebook, and silent progress elsewhere."""
    return bars() if in_notebook() else silent


def bars() -> Progress:
    """Return progress with a bar a step; the step that was reported last has the line.

    Bars are shown on a terminal and in notebooks, after two seconds. A full bar need not be the end: shards add to the
    total, and may return to a step after another one.
    """
    with warnings.catch_warnings():
        # In a notebook without ipywidgets bars are of text.
        warnings.simplefilter("ignore")
        from tqdm.autonotebook import tqdm
    # None: disabled where stderr is no terminal.
    disable = False if in_notebook() else None
    # A process in which a thread runs is not forked, and does all work alone.
    tqdm.monitor_interval = 0
    shown: Any = None

    def start(step: str) -> Reporter:
        began = time.monotonic()
        own: Any = None

        def report(done: int, total: int) -> None:
            nonlocal own, shown
            if own is None or own is not shown:
                if shown is not None:
                    shown.close()
                delay = max(_DELAY_SECONDS - (time.monotonic() - began), 0)
                own = shown = tqdm(
                    desc=step, delay=delay, disable=disable, leave=False, unit="", initial=done, total=total
                )
            own.total = total
            own.update(done - own.n)
            if done >= total:
                own.clear()

        return report

    return start
