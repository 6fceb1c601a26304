"""Carries out the units of a small run in this process and in some that are forked from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from ....forks import Fork, cores_to_share
from ....progress import silent
from ...protocols.job import Job
from ...store.store import Store
from ..plan import PlannedRun
from ..units import Unit, UnitReport
from .carrying_out import InProcess
from .placing import is_of_all
from .shelf import MemoryShelf, Value

_WORTH_SHARING = 2_000
"""Documents from which on a further process saves more than it costs."""

_Made = tuple[Mapping[str, Value], UnitReport]


@dataclass(frozen=True)
class Forked(InProcess):
    """Shares the units that score, and need no model, with forked processes.

    Attributes:
        shelf: Where units find what they are given.
        processes: How many there are, this one among them.
    """

    shelf: MemoryShelf
    processes: int

    def carry_out(self, units: Iterable[Unit], step: str = "units") -> list[Unit]:
        """Carry out each unit as it comes, here where all processes are at work."""
        done: list[Unit] = []
        away: dict[str, tuple[Unit, Fork[_Made]]] = {}
        try:
            for unit in units:
                for key in unit.needs:
                    self._take(away, key)
                if unit.stage == "score" and unit.pool == "cpu" and len(away) < self.processes - 1:
                    away[unit.key] = unit, Fork(partial(self._make, unit))
                else:
                    self.work.run_unit(unit)
                done.append(unit)
            for unit in done:
                self._take(away, unit.key)
        finally:
            for _, fork in away.values():
                fork.end()
        return done

    def _make(self, unit: Unit) -> _Made:
        """Carry out a unit in a forked process, which cannot use what its parent has open."""
        cache, known = self.work.cache, self.shelf.keys()
        own = Store(cache.path) if isinstance(cache, Store) else cache
        report = replace(self.work, cache=own, progress=silent).run_unit(unit)
        return {key: self.shelf.get(key) for key in self.shelf.keys() - known}, report

    def _take(self, away: dict[str, tuple[Unit, Fork[_Made]]], key: str) -> None:
        """Put on the shelf what a forked process made; a unit that it could not is carried out here."""
        if key not in away:
            return
        unit, fork = away.pop(key)
        try:
            made = fork.made()
        finally:
            fork.end()
        if made is None:
            self.work.run_unit(unit)
            return
        values, report = made
        for name, value in values.items():
            self.shelf.put(name, value)
        if isinstance(cache := self.work.cache, Store):
            cache.hits, cache.computed = cache.hits + report.found, cache.computed + report.computed


def processes_for(plan: PlannedRun, job: Job) -> int:
    """Return how many processes share what is less than a shard; 1 where they would not save anything."""
    needs_model = bool(plan.captioner) or plan.protocol.needs_encoder
    metrics = [one.metric for one in plan.metrics]
    shared = bool(metrics) and all(one.is_plain for one in metrics) and not any(map(is_of_all, metrics))
    if needs_model or not shared or len(job.documents.rows) < _WORTH_SHARING:
        return 1
    return cores_to_share()
