"""How far a schedule is, and how long it will take yet."""

from __future__ import annotations

import time
from collections import Counter, defaultdict

from ..running.units import Unit, UnitReport
from .contract import Advance
from .schedule import Schedule


class Clock:
    """Counts what is computed.

    Args:
        schedule: What is to be done.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._start = self._told = time.monotonic()
        self._documents: Counter[str] = Counter()
        """Of units that were computed, by stage."""
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def count(self, unit: Unit, report: UnitReport) -> None:
        """Count a unit that was computed."""
        self._documents[unit.stage] += unit.counted
        self._seconds[unit.stage] += report.seconds

    def has_beaten(self, seconds: float) -> bool:
        """Return whether so many seconds passed since this was last so."""
        if time.monotonic() - self._told < seconds:
            return False
        self._told = time.monotonic()
        return True

    def advance(self, workers: int) -> Advance:
        """Return how far the schedule is, with so many workers."""
        outcome = self._schedule.outcome
        return Advance(
            done=len(outcome.units),
            units=len(self._schedule.units),
            found=outcome.found,
            documents=self._documents.total(),
            seconds=time.monotonic() - self._start,
            left=self._seconds_left(workers),
        )

    def _seconds_left(self, workers: int) -> float | None:
        if not self._documents.total():
            return None
        mean = sum(self._seconds.values()) / self._documents.total()
        left = sum(
            documents * (self._seconds[stage] / self._documents[stage] if self._documents[stage] else mean)
            for stage, documents in self._schedule.documents_left.items()
        )
        return left / max(workers, 1)
