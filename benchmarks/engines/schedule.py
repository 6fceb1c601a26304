"""What of a run's units is done, what can be placed now, and what becomes of units that fail."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from ...errors import EngineError
from ..running.units import Unit, UnitReport, Work
from .contract import LeftOut, Outcome, UnitOutcome
from .faults import Fault
from .search import Search

ATTEMPTS = 3
"""Of a unit, before it is taken apart; of each, after that, before all is given up."""


@dataclass(eq=False)
class Task:
    """What a worker is given.

    Attributes:
        unit: What it runs.
        asked: Key of the unit that was asked for.
        failed_on: Workers that it failed on.
        search: The search that it is a probe of; None: its result counts.
    """

    unit: Unit
    asked: str
    failed_on: list[str] = field(default_factory=list)
    search: Search | None = None


class Schedule:
    """The units of a run, by what is to be done with them. It knows no process and no machine.

    Args:
        units: In the order in which they are wanted; a key that occurs again is the same unit.
        coming: More, which are taken up as they can be placed; each comes after those that it needs.

    Raises:
        ValueError: A unit needs one that is not among them, or they need each other.
    """

    def __init__(self, units: Iterable[Unit] = (), coming: Iterable[Unit] = ()) -> None:
        self.units: dict[str, Unit] = {}
        self.outcome = Outcome()
        self.learned: set[str] = set()
        """Units of which another driver told that they are done."""
        self.failures: list[tuple[Task, str, Fault]] = []
        """Each attempt that failed, with its worker."""
        self._fresh: dict[str, deque[Task]] = {}
        """By pool, what was never placed."""
        self._unasked: deque[Task] = deque()
        """Of which nobody asked yet whether it is done."""
        self._again: list[Task] = []
        """What failed, and probes: placed before the others."""
        self._final: dict[str, Unit] = {}
        """Units that were carried out in place of those that were asked for."""
        self._searched: dict[str, list[str]] = {}
        """Units that were taken apart, and the workers that they failed on."""
        self._left: Counter[str] = Counter()
        """Units of each pool that are not done."""
        self.documents_left: Counter[str] = Counter()
        """Documents of units that are not done, by stage."""
        self.stages: dict[str, list[int]] = {}
        """Units that are done, and units in all, of each stage."""
        self._missing: dict[str, set[str]] = {}
        """What units need that is not done."""
        self._needed_by: defaultdict[str, list[str]] = defaultdict(list)
        self._coming: Iterator[Unit] | None = iter(coming)
        given = {unit.key: unit for unit in units}
        _check(given)
        for unit in given.values():
            self._add(unit)

    @classmethod
    def of(cls, units: Iterable[Unit]) -> Schedule:
        """Return the schedule of units; those that are not all there yet are placed as they come.

        Raises:
            ValueError: As of the class.
        """
        return cls(units) if isinstance(units, Collection) else cls(coming=units)

    def take_up(self, ahead: int) -> bool:
        """Take up a unit of those that come, unless so many wait to be placed; return whether more may come at once."""
        waiting = len(self._unasked) + sum(map(len, self._fresh.values()))
        if self._coming is None or waiting >= ahead:
            return False
        unit = next(self._coming, None)
        if unit is None:
            self._coming = None
        elif unit.key not in self.units:
            _check({unit.key: unit}, self.units)
            self._add(unit)
        return unit is not None

    def _add(self, unit: Unit) -> None:
        self.units[unit.key] = unit
        self._left[unit.pool] += 1
        self.documents_left[unit.stage] += unit.counted
        self.stages.setdefault(unit.stage, [0, 0])[1] += 1
        if missing := set(unit.needs) - self.outcome.units.keys():
            self._missing[unit.key] = missing
            for need in missing:
                self._needed_by[need].append(unit.key)
        else:
            self._admit(unit.key)

    @property
    def is_coming(self) -> bool:
        """Whether further units may come."""
        return self._coming is not None

    @property
    def is_finished(self) -> bool:
        """Whether every unit is done."""
        return not self.is_coming and len(self.outcome.units) == len(self.units)

    def in_order(self) -> Outcome:
        """Return the outcome in the order in which units were asked for, whoever was first."""
        units = {key: self.outcome.units[key] for key in self.units if key in self.outcome.units}
        places = {key: number for number, key in enumerate(units)}
        return Outcome(units, sorted(self.outcome.left_out, key=lambda one: places[one.unit.key]))

    @property
    def pools(self) -> list[str]:
        """The pools that have something to place now, those with work that failed first."""
        return list(dict.fromkeys([*(task.unit.pool for task in self._again), *self._fresh]))

    def has_left(self, pool: str) -> bool:
        """Return whether a pool has units that are not done."""
        return self._left[pool] > 0

    def count(self, pool: str) -> int:
        """Return how many tasks of a pool can be placed now."""
        return len(self._fresh.get(pool, ())) + sum(task.unit.pool == pool for task in self._again)

    def head(self, pool: str, may_take: Callable[[Task], bool]) -> Task | None:
        """Return what is to be placed next of a pool; of what failed before, only what a worker may take."""
        for task in self._again:
            if task.unit.pool == pool and may_take(task):
                return task
        return self._fresh[pool][0] if pool in self._fresh else None

    def sift(self, work: Work, seconds: float) -> bool:
        """Ask for a time whether units whose needs are done are done themselves; return whether all are asked for."""
        end = time.monotonic() + seconds
        while self._unasked and time.monotonic() < end:
            task = self._unasked.popleft()
            if work.is_done(task.unit):
                self.is_done(task)
            else:
                self._let(task)
        return not self._unasked

    def _let(self, task: Task) -> None:
        """Let a task be placed."""
        self._fresh.setdefault(task.unit.pool, deque()).append(task)

    def take(self, task: Task) -> None:
        """Note that a head is placed."""
        pool = task.unit.pool
        if task in self._again:
            self._again.remove(task)
            return
        self._fresh[pool].popleft()
        if not self._fresh[pool]:
            del self._fresh[pool]

    def put_back(self, task: Task) -> None:
        """Note that a task was taken, and not begun."""
        self._fresh.setdefault(task.unit.pool, deque()).appendleft(task)

    def is_done(self, task: Task, worker: str = "", report: UnitReport | None = None) -> None:
        """Note that a task is done; without a report, that its result was there."""
        if task.search is not None:
            self._go_on(task, task.search, task.search.passed(task.unit))
            return
        attempts = len(task.failed_on) + (report is not None)
        self.outcome.units[task.asked] = UnitOutcome(task.unit, report, attempts, worker)
        if task.unit.key != task.asked:
            self._final[task.asked] = task.unit
        self._left[task.unit.pool] -= 1
        self.stages[task.unit.stage][0] += 1
        self.documents_left[task.unit.stage] -= self.units[task.asked].counted
        for key in self._needed_by.pop(task.asked, ()):
            self._missing[key].discard(task.asked)
            if not self._missing[key]:
                del self._missing[key]
                self._admit(key)

    def has_failed(self, task: Task, worker: str, fault: Fault) -> None:
        """Note that a task failed, and plan what follows from it.

        Args:
            task: The task.
            worker: Where.
            fault: How.

        Raises:
            BenchError: The fault is the user's to mend.
            EngineError: The unit cannot be done.
        """
        self.failures.append((task, worker, fault))
        task.failed_on.append(worker)
        if fault.is_bench and not (fault.is_of_the_place and len(task.failed_on) < ATTEMPTS):
            raise fault.as_error() from fault.error
        if task.search is not None:
            if task.search.wants_again(task.unit, len(task.failed_on)):
                self._again.append(task)
            else:
                self._go_on(task, task.search, task.search.failed(task.unit, fault))
        elif len(task.failed_on) % ATTEMPTS:
            self._again.append(task)
        elif task.asked in self._searched:
            raise EngineError(
                f"{task.unit} fails as a whole, though each of its documents can be done: {fault.in_one_line}",
                fault.trace or "A worker may have too little memory for it.",
            ) from fault.error
        else:
            self._searched[task.asked] = task.failed_on
            search = Search(task.unit, fault)
            self._go_on(task, search, search.begin())

    def _go_on(self, task: Task, search: Search, probes: list[Unit]) -> None:
        """Place further probes of a search before all others, or what it found."""
        self._again[:0] = [Task(unit, task.asked, search=search) for unit in probes]
        if not search.is_over:
            return
        if search.documents:
            documents = tuple(sorted(search.documents))
            self.outcome.left_out.append(LeftOut(self.units[task.asked], documents, search.fault))
        left = search.unit.leaving_out(tuple(search.documents)) if search.documents else search.unit
        self._unasked.appendleft(Task(left, task.asked, self._searched[task.asked]))

    def _admit(self, key: str) -> None:
        """Let a unit be placed whose needs are done."""
        self._unasked.append(Task(self.units[key].needing(self._final), key))


def _check(units: Mapping[str, Unit], others: Container[str] = ()) -> None:
    """Raise if units need what is neither among them nor among others, or need each other."""
    for unit in units.values():
        if missing := [need for need in unit.needs if need not in units and need not in others]:
            raise ValueError(f"unit {unit.key} needs {', '.join(sorted(missing))}, which is not among them")
    try:
        TopologicalSorter({key: unit.needs for key, unit in units.items()}).prepare()
    except CycleError as error:
        raise ValueError(f"units need each other: {error.args[1]}") from error
