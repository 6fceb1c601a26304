"""How far a run is, read from its folder on any machine, while any engine carries it out or after it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...boundary import unlinked
from ...errors import UsageError
from ..running.units import Unit
from .faults import Fault
from .run_folder import DONE, FAILURES, STATUS, lines_of, read_run, writers_of

QUIET_SECONDS = 30.0
"""After which a driver that says nothing is not taken for running."""


@dataclass(frozen=True)
class WorkerStatus:
    """What a worker did.

    Attributes:
        name: Its name; with that of its slot, where there are slots.
        units: Units that it computed.
        documents: Documents of these.
        seconds: How long they took it.
        failures: Attempts that failed on it.
        in_hand: What it runs now; empty: nothing.
    """

    name: str
    units: int
    documents: int
    seconds: float
    failures: int
    in_hand: str

    @property
    def rate(self) -> float:
        """Documents per second."""
        return self.documents / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class RunStatus:
    """How far a run is.

    Attributes:
        done: Units that are done.
        units: Units in all.
        stages: ``(done, all)`` of each stage.
        documents: Documents of units that were computed; one that passes two stages counts twice.
        rate: Of these per second, while drivers ran.
        left: Seconds that are left; None: nobody can say.
        drivers: Each driver or slot, with what it does: ``running``, ``quiet`` (for how long), or how it ended.
        workers: What each did.
        left_out: A line for each unit that lost documents.
        failures: A line for each attempt that failed, the last one last.
    """

    done: int
    units: int
    stages: dict[str, tuple[int, int]]
    documents: int
    rate: float
    left: float | None
    drivers: dict[str, str]
    workers: list[WorkerStatus]
    left_out: list[str]
    failures: list[str]


def read_status(folder: Path) -> RunStatus:
    """Return how far a run is.

    Raises:
        UsageError: The folder is none of a run.
    """
    _, units = read_run(folder)
    try:
        return _status(folder, units)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{folder}: is no folder of a run that this capbench wrote: {type(error).__name__}: {error}",
            "Look with the capbench that carries the run out.",
        ) from error


def _status(folder: Path, units: Sequence[Unit]) -> RunStatus:
    statuses = {place: told for place in writers_of(folder) if (told := _told(place / STATUS))}
    stages = {unit.stage: (0, 0) for unit in units}
    for stage, count in Counter(unit.stage for unit in units).items():
        stages[stage] = (0, count)
    newest = max(statuses.values(), key=lambda one: one["done"], default=None)
    if newest:
        stages |= {stage: tuple(counts) for stage, counts in newest["stages"].items()}
    documents = sum(one["documents"] for one in statuses.values())
    began = min((one["started"] for one in statuses.values()), default=0.0)
    seconds = max((one["updated"] for one in statuses.values()), default=0.0) - began
    rate = documents / seconds if seconds > 0 else 0.0
    left = newest["left"] if newest else None
    if newest and len(statuses) > 1:
        # What a slot expects is what it would take alone.
        left = newest["documents_left"] / rate if rate else None
    return RunStatus(
        done=newest["done"] if newest else 0,
        units=len(units),
        stages=stages,
        documents=documents,
        rate=rate,
        left=left,
        drivers={one["engine"]: _state(one) for one in statuses.values()},
        workers=[worker for place, told in statuses.items() for worker in _workers(place, told)],
        left_out=[line for place in statuses for line in _left_out(place)],
        failures=[
            f"{worker_of(statuses[place], line['worker'])}: {Unit.from_values(line['unit'])}: "
            f"{Fault.from_values(line['fault']).in_one_line}"
            for place in statuses
            for line in lines_of(place / FAILURES)
        ],
    )


def worker_of(told: dict[str, Any], worker: str) -> str:
    """Return the name of a worker, with that of its slot where there are slots."""
    return f"{told['engine']}: {worker}" if told["engine"].startswith("slot") else worker


def _told(file: Path) -> dict[str, Any] | None:
    try:
        return json.loads(unlinked(file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def _state(told: dict[str, Any]) -> str:
    if told["end"]:
        return told["end"]
    quiet = time.time() - told["updated"]
    where = f"on {told['host']}, process {told['process']}"
    return (
        f"running {where}" if quiet < QUIET_SECONDS else f"quiet for {quiet:,.0f} s, {where}: killed, perhaps"
    )


def _workers(place: Path, told: dict[str, Any]) -> list[WorkerStatus]:
    units: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    for line in lines_of(place / DONE):
        if line["report"]:
            worker = line["worker"]
            units[worker] += 1
            documents[worker] += Unit.from_values(line["unit"]).counted
            seconds[worker] = seconds.get(worker, 0.0) + line["report"]["seconds"]
    failures = Counter(line["worker"] for line in lines_of(place / FAILURES))
    in_hand = {} if told["end"] else told["in_hand"]
    return [
        WorkerStatus(
            worker_of(told, name), units[name], documents[name], seconds.get(name, 0.0), failures[name],
            in_hand.get(name, ""),
        )
        for name in dict.fromkeys([*units, *failures, *in_hand])
    ]  # fmt: skip


def _left_out(place: Path) -> list[str]:
    found = []
    for line in lines_of(place / DONE):
        if line["left_out"]:
            documents = ", ".join(map(str, line["left_out"]["documents"]))
            fault = Fault.from_values(line["left_out"]["fault"]).in_one_line
            found.append(f"{Unit.from_values(line['unit'])}: without {documents}: {fault}")
    return found
