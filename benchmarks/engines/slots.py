"""Slots of a queue: processes on any machine that share the units of a run by files alone."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import BenchError, EngineError
from ..running.units import Unit, Work
from .contract import Advance, LeftOut, Outcome, Pool, unheard
from .driving import Driver
from .faults import Fault
from .run_folder import CLAIMS, DONE, SLOTS, STOPPED, Journal, lines_of, read_run, whole_lines
from .schedule import Schedule, Task
from .workers.processes import Processes
from .workers.worker import cores

LOST_AFTER_SECONDS = 120.0
"""In which a slot that says nothing is taken for lost."""
_MAX_CLAIMS = 5
"""Slots that may be lost while they have one unit in hand."""


def work_slot(
    folder: Path,
    slot: int,
    of: int = 1,
    *,
    pools: Collection[str] = (),
    processes: int = 1,
    lost_after: float = LOST_AFTER_SECONDS,
    report: Callable[[Advance], object] = unheard,
) -> Outcome:
    """Carry out units of a run until none is left, beside other slots.

    The slot takes its share first (unit ``i`` where ``i % of == slot % of``), then what others have not begun.

    Args:
        folder: The run; see :mod:`.run_folder`. All slots see it.
        slot: Number of this slot.
        of: How many there are.
        pools: Whose units it takes; all unless given.
        processes: Units at a time, each in a worker process.
        lost_after: Seconds in which a slot that says nothing is taken for lost, and its unit taken over.
        report: Is told how far the run is.

    Raises:
        BenchError: See :meth:`~.contract.Engine.carry_out`; what ends one slot ends all.
    """
    spec, units = read_run(folder)
    (folder / CLAIMS).mkdir(exist_ok=True)
    own = folder / SLOTS / str(slot)
    own.mkdir(parents=True, exist_ok=True)
    claims = Claims(folder / CLAIMS, slot, lost_after)
    schedule = SharedSchedule(units, folder, claims, (slot % of, of), pools, processes)
    hands = Processes(spec, processes, max(cores() // processes, 1))
    places = {unit.pool: Pool(unit.pool) for unit in units}
    try:
        driver = Driver(schedule, hands, places, spec.open(), report, Journal(own, f"slot {slot}"))
        return driver.drive()
    except BenchError as error:
        with suppress(FileExistsError), (folder / STOPPED).open("x", encoding="utf-8") as stream:
            stream.write(f"{json.dumps(Fault.of(error).to_values())}\n")
        raise
    finally:
        hands.close()
        claims.leave()


class Claims:
    """Which unit is in whose hands: files that are made where there is none, and told to be alive by their time.

    ``KEY.1`` is the first slot that took a unit, ``KEY.2`` the one that took it over. No claim is ever replaced, so no
    two slots make the same one; and two that run the same unit do no harm, as one result is committed.

    Args:
        folder: Where they are.
        slot: Whose they are.
        lost_after: Seconds in which a claim that is not told to be alive is void.
    """

    def __init__(self, folder: Path, slot: int, lost_after: float) -> None:
        self._folder = folder
        self._clock = folder / f".slot-{slot}"
        self._text = json.dumps({"slot": slot, "host": socket.gethostname(), "process": os.getpid()})
        self.lost_after = lost_after
        self._mine: dict[str, Path] = {}
        self._told = 0.0
        self.beat()

    def beat(self) -> None:
        """Tell that this slot is alive, where it is time to."""
        if time.monotonic() - self._told < self.lost_after / 5:
            return
        self._told = time.monotonic()
        for file in (self._clock, *self._mine.values()):
            file.touch()

    def take(self, key: str) -> bool:
        """Claim a unit, where nobody has it who is alive.

        Raises:
            EngineError: Too many slots were lost while they had it.
        """
        for number in range(1, _MAX_CLAIMS + 1):
            file = self._folder / f"{key}.{number}"
            with suppress(FileNotFoundError):
                # The times are those of the file system: machines need not agree on theirs.
                if self._now() - file.stat().st_mtime < self.lost_after:
                    return False
                continue
            try:
                with file.open("x", encoding="utf-8") as stream:
                    stream.write(self._text)
            except FileExistsError:
                return False
            self._mine[key] = file
            return True
        raise EngineError(
            f"{_MAX_CLAIMS} slots were lost while they had the same unit in hand",
            f"{self._folder}/{key}.* say which; a node may have too little memory. Remove them to try again.",
        )

    def drop(self, key: str) -> None:
        """Hold a claim no longer, as its unit is done."""
        self._mine.pop(key, None)

    def leave(self) -> None:
        """Give back what is not done, for others to take at once."""
        for file in (self._clock, *self._mine.values()):
            file.unlink(missing_ok=True)

    def _now(self) -> float:
        self._clock.touch()
        return self._clock.stat().st_mtime


class SharedSchedule(Schedule):
    """The units of a run, of which a slot sees those that it claimed; what others did is learned from their files.

    Args:
        units: All of the run.
        folder: The run.
        claims: Those of the slot; None: it only looks.
        share: ``(n, of)``: unit ``i`` is taken first where ``i % of == n``.
        pools: Whose units the slot takes; all unless given.
        limit: Units that it has at a time.
    """

    def __init__(
        self,
        units: Iterable[Unit],
        folder: Path,
        claims: Claims | None,
        share: tuple[int, int] = (0, 1),
        pools: Collection[str] = (),
        limit: int = 1,
    ) -> None:
        super().__init__(units)
        self._folder = folder
        self._claims = claims
        number, of = share
        self._rank = {key: ((i - number) % of > 0, i) for i, key in enumerate(self.units)}
        self._takes = set(pools) or {unit.pool for unit in self.units.values()}
        self._limit = limit
        self._open: list[Task] = []
        """What can be placed, and is not claimed by this slot."""
        self._not_before: dict[str, float] = {}
        """When to look again at a unit that another slot has."""
        self._mine: set[str] = set()
        self._told: dict[str, dict[str, Any]] = {}
        self._read: dict[Path, int] = {}

    @property
    def is_finished(self) -> bool:
        """Whether every unit that this slot takes is done."""
        return not any(self.has_left(pool) for pool in self._takes)

    def sift(self, work: Work, seconds: float) -> bool:
        """Learn what others did, ask what is done, and claim what can be placed."""
        for stopped in lines_of(self._folder / STOPPED):
            raise Fault.from_values(stopped).as_error()
        self._learn()
        is_sifted = super().sift(work, seconds)
        if self._claims is not None:
            self._claims.beat()
            self._claim(self._claims, work)
        return is_sifted

    def _let(self, task: Task) -> None:
        if task.asked in self._mine:
            super()._let(task)
        else:
            self._open.append(task)

    def _claim(self, claims: Claims, work: Work) -> None:
        for key in [key for key in self._mine if key in self.outcome.units]:
            self._mine.remove(key)
            claims.drop(key)
        self._open.sort(key=lambda task: self._rank[task.asked], reverse=True)
        now, kept = time.monotonic(), []
        while self._open and len(self._mine) < self._limit:
            task = self._open.pop()
            if task.unit.pool not in self._takes or self._not_before.get(task.asked, now) > now:
                kept.append(task)
            elif not claims.take(task.asked):
                self._not_before[task.asked] = now + claims.lost_after / 10
                kept.append(task)
            elif work.is_done(task.unit):
                claims.drop(task.asked)
                self.is_done(task)
            else:
                self._mine.add(task.asked)
                super()._let(task)
        self._open += kept

    def _learn(self) -> None:
        """Read what other slots did since this was asked last."""
        for file in (self._folder / SLOTS).glob(f"*/{DONE}"):
            with file.open("rb") as stream:
                stream.seek(self._read.get(file, 0))
                text = stream.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read[file] = self._read.get(file, 0) + len(whole)
            for told in whole_lines(whole):
                self._told.setdefault(told["asked"], told)
        while known := [task for task in (*self._unasked, *self._open) if task.asked in self._told]:
            for task in known:
                (self._unasked if task in self._unasked else self._open).remove(task)
                self._note(task, self._told[task.asked])

    def _note(self, task: Task, told: dict[str, Any]) -> None:
        if left_out := told["left_out"]:
            fault = Fault.from_values(left_out["fault"])
            self.outcome.left_out.append(LeftOut(self.units[task.asked], tuple(left_out["documents"]), fault))
        self.learned.add(task.asked)
        self.is_done(Task(Unit.from_values(told["unit"]), task.asked), told["worker"])
