"""Drives units through workers: what is ready goes to a worker that is free, until all is done."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ...errors import BenchError, EngineError
from ..running.units import Unit, UnitReport, Work
from .advance import Clock
from .contract import CPU, Advance, Outcome, Pool
from .faults import Fault
from .run_folder import Journal
from .schedule import Schedule, Task

Shape = tuple[float, float, int]
_BEAT_SECONDS = 1.0
_SIFT_SECONDS = 0.1
_AHEAD = 8
"""Units that wait to be placed, at least, before no further one is taken up."""
PATIENCE_SECONDS = 600.0
"""In which workers may come back that a cluster has lost."""
_OPENINGS = 3
"""Workers that may fail to open their work, one after the other, before no more are started."""


@dataclass(frozen=True)
class Event:
    """What a worker tells.

    Attributes:
        worker: Its name.
        what: It has ``opened`` its work; it ``answered``; it ``died``, perhaps as it could not open its work.
        answer: The report or the fault of its unit; why it died.
    """

    worker: str
    what: Literal["opened", "answered", "died"]
    answer: UnitReport | Fault | None = None


class Hands(Protocol):
    """The workers of an engine.

    Attributes:
        queue_orders: Whether a worker that is at work can be given a unit, which it begins as soon as it has answered.
    """

    queue_orders: bool

    def hire(self, shape: Shape) -> str | None:
        """Start a worker, which will tell when it has opened its work; return its name, or None: there is no room."""
        ...

    def give(self, worker: str, unit: Unit, release: Sequence[str]) -> None:
        """Let a worker let go of the models of some pools, and run a unit: one that is idle, unless orders queue."""
        ...

    def events(self, seconds: float) -> list[Event]:
        """Wait for what workers tell, for so many seconds at most."""
        ...

    def dismiss(self, worker: str) -> None:
        """End a worker that is idle."""
        ...


@dataclass
class _Place:
    """A worker, as its driver sees it.

    Attributes:
        shape: What it takes of its machine.
        is_open: Whether it has opened its work.
        task: What it runs.
        following: What it runs next.
        pools: Whose models it has.
    """

    shape: Shape
    is_open: bool = False
    task: Task | None = None
    following: Task | None = None
    pools: list[str] = field(default_factory=list)


class Driver:
    """Carries out a schedule with the hands of an engine.

    Args:
        schedule: What is to be done.
        hands: Who does it.
        pools: The pools that its units may ask for, by name; one that is not among them is a mistake.
        work: What the driver asks whether a unit is done.
        report: Is told how far it is.
        journal: Is told what is done, and what failed.
    """

    def __init__(
        self,
        schedule: Schedule,
        hands: Hands,
        pools: Mapping[str, Pool],
        work: Work,
        report: Callable[[Advance], object],
        journal: Journal,
    ) -> None:
        self._schedule = schedule
        self._hands = hands
        self._pools = pools
        self._work = work
        self._places: dict[str, _Place] = {}
        self._faults: defaultdict[Shape, list[Fault]] = defaultdict(list)
        """Of workers of each shape that could not open their work, since one could."""
        self._is_opened = False
        self._stuck_since = time.monotonic()
        self._full: set[Shape] = set()
        """Shapes of which no further worker can be had now."""
        self._bound: Counter[str] = Counter()
        """On how many workers the model of a pool is."""
        self._clock = Clock(schedule)
        self._report = report
        self._journal = journal

    def drive(self) -> Outcome:
        """Return what became of the units.

        Raises:
            BenchError: See :meth:`~.contract.Engine.carry_out`.
        """
        end = "interrupted"
        try:
            while not self._schedule.is_finished:
                is_coming = self._schedule.take_up(max(_AHEAD, 2 * len(self._places)))
                is_sifted = self._schedule.sift(self._work, _SIFT_SECONDS)
                self._hire()
                self._place()
                for event in self._hands.events(_BEAT_SECONDS if is_sifted and not is_coming else 0):
                    self._hear(event)
                self._lose_patience()
                if self._clock.has_beaten(_BEAT_SECONDS):
                    self._tell()
            end = "done"
            return self._schedule.in_order()
        except BenchError as error:
            end = error.in_one_line
            raise
        finally:
            self._tell(end)

    def _tell(self, end: str = "") -> None:
        advance = self._clock.advance(len(self._places))
        self._report(advance)
        in_hand = {name: one.task.unit for name, one in self._places.items() if one.task}
        self._journal.write(self._schedule, advance, in_hand, end)

    def _hear(self, event: Event) -> None:
        place = self._places[event.worker]
        task, place.task, following = place.task, None, place.following
        if event.what == "opened":
            place.is_open = self._is_opened = True
            self._faults[place.shape].clear()
        elif event.what == "died":
            del self._places[event.worker]
            self._bound.subtract(place.pools)
            if following:
                self._schedule.put_back(following)
        else:
            place.task, place.following = following, None
        if isinstance(event.answer, Fault) and not place.is_open:
            self._could_not_open(place.shape, event.answer)
        elif task is not None and isinstance(event.answer, UnitReport):
            self._clock.count(task.unit, event.answer)
            self._schedule.is_done(task, event.worker, event.answer)
        elif task is not None and isinstance(event.answer, Fault):
            self._schedule.has_failed(task, event.worker, event.answer)
            if event.answer.is_bench and not (self._others(task) or self._hire_one(place.shape)):
                raise event.answer.as_error() from event.answer.error

    def _could_not_open(self, shape: Shape, fault: Fault) -> None:
        faults = self._faults[shape]
        faults.append(fault)
        if fault.is_bench and not self._is_opened:
            raise fault.as_error() from fault.error
        if len(faults) >= _OPENINGS and not any(one.shape == shape for one in self._places.values()):
            raise EngineError(
                f"no worker could open its work: {fault.in_one_line}", fault.trace
            ) from fault.error

    def _hire(self) -> None:
        """Start workers for what is ready and has nobody to take it."""
        waiting: Counter[Shape] = Counter()
        for pool in self._schedule.pools:
            waiting[self._pools[pool].shape] += int(min(self._schedule.count(pool), self._room(pool)))
        self._full.clear()
        for shape, tasks in waiting.items():
            takers = sum(
                one.shape == shape and one.task is None and not self._live(one)
                for one in self._places.values()
            )
            if not all(self._hire_one(shape) for _ in range(tasks - takers)):
                self._full.add(shape)
        for shape in self._full:
            if not any(one.shape == shape for one in self._places.values()):
                self._make_room()

    def _hire_one(self, shape: Shape) -> bool:
        """Start a worker; return whether there was room."""
        name = self._hands.hire(shape) if len(self._faults[shape]) < _OPENINGS else None
        if name is not None:
            self._places[name] = _Place(shape)
        return name is not None

    def _lose_patience(self) -> None:
        """Raise where nothing runs and nothing opens for a long time, though there is something to do."""
        now = time.monotonic()
        if any(one.task or not one.is_open for one in self._places.values()) or not self._schedule.pools:
            self._stuck_since = now
        elif now - self._stuck_since > PATIENCE_SECONDS:
            pool = self._schedule.pools[0]
            raise EngineError(
                f"nobody could take units of pool '{pool}' for {PATIENCE_SECONDS:.0f} seconds: there is no room for a "
                f"worker with {self._pools[pool].in_words}",
                "Start nodes that have it; what is done is kept.",
            )

    def _make_room(self) -> None:
        """End workers of other shapes that have nothing to do."""
        idle = [name for name, one in self._places.items() if one.is_open and one.task is None]
        for name in idle:
            if not any(self._suits(pool, name) for pool in self._schedule.pools):
                self._hands.dismiss(name)
                self._bound.subtract(self._places.pop(name).pools)

    def _place(self) -> None:
        """Give each worker that is free what it is best at: units of the models that it has, before others."""
        for name, place in self._places.items():
            if not place.is_open or place.task is not None:
                continue
            pools = [pool for pool in self._schedule.pools if self._suits(pool, name)]
            for pool in sorted(
                pools, key=lambda pool: (pool not in place.pools, pool == CPU, self._bound[pool])
            ):
                if task := self._schedule.head(
                    pool, lambda task, name=name: name not in task.failed_on or not self._others(task)
                ):
                    self._give(name, place, task)
                    break
        if self._hands.queue_orders:
            self._place_ahead()

    def _place_ahead(self) -> None:
        """Give workers without a model what follows, so that none waits while further units are made here.

        Only while there is more than all of them could take: what waits for one, no other can have.
        """
        for name, place in self._places.items():
            if self._schedule.count(CPU) <= len(self._places):
                return
            if place.task and not place.following and not place.pools and self._suits(CPU, name):
                # What failed before is placed by itself.
                place.following = self._schedule.head(CPU, lambda task: False)
                if place.following:
                    self._schedule.take(place.following)
                    self._hands.give(name, place.following.unit, [])

    def _give(self, name: str, place: _Place, task: Task) -> None:
        self._schedule.take(task)
        pools, place.task = place.pools, task
        self._bound.subtract(pools)
        # What needs no model is no reason to let one go for which units may still come.
        is_kept = task.unit.pool == CPU and self._schedule.is_coming
        kept = pools if is_kept else self._live(place)
        place.pools = list(dict.fromkeys([*kept, *({task.unit.pool} - {CPU})]))
        self._bound.update(place.pools)
        self._hands.give(name, task.unit, [pool for pool in pools if pool not in place.pools])

    def _suits(self, pool: str, name: str) -> bool:
        """Return whether a worker may take units of a pool now."""
        place, wanted = self._places[name], self._pools[pool]
        if pool == CPU:
            # Where a GPU is, the GPU's own units come first; but where there is no room for others, it does all.
            is_only_one = not any(one.shape == wanted.shape for one in self._places.values())
            return place.shape == wanted.shape or is_only_one
        if place.shape != wanted.shape:
            return False
        if pool in place.pools:
            return True
        # A second model beside one that is still needed, where nobody else can take it.
        has_none = not self._bound[pool] and wanted.shape in self._full
        return self._room(pool) > 0 and (not self._live(place) or has_none)

    def _room(self, pool: str) -> float:
        """Return on how many further workers the model of a pool may be loaded."""
        replicas = None if pool == CPU else self._pools[pool].replicas
        return math.inf if replicas is None else replicas - self._bound[pool]

    def _live(self, place: _Place) -> list[str]:
        """Return the pools of which a worker has the model and units are left."""
        return [pool for pool in place.pools if self._schedule.has_left(pool)]

    def _others(self, task: Task) -> bool:
        """Return whether there is a worker that could take a task and on which it did not fail."""
        return any(name not in task.failed_on and self._suits(task.unit.pool, name) for name in self._places)
