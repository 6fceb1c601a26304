"""Carries out units at once, in this process."""

from __future__ import annotations

from ....progress import Progress, Reporter
from ..units import Unit
from .work import RunWork


class InProcess:
    """Carries out units at once, in this process."""

    def __init__(self, work: RunWork) -> None:
        self._work = work

    def submit(self, unit: Unit) -> None:
        """Carry out a unit."""
        self._work.run_unit(unit)

    def finished(self, unit: Unit) -> Unit:
        """Return the unit, which is done."""
        return unit


class ShardProgress:
    """Reports steps that start anew with each shard as one.

    Args:
        progress: Gives a reporter for a step.
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
