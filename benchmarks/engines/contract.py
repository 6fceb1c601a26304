"""What an engine is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ...errors import UsageError, counted, did_you_mean
from ..running.units import Unit, UnitReport, WorkSpec
from .faults import Fault

CPU = "cpu"
"""The pool of units that need no model."""


@dataclass(frozen=True)
class Pool:
    """Workers that units of one kind can run on.

    Attributes:
        name: ``cpu``, or the role of a model.
        replicas: On how many workers its model is loaded, at most; None: on as many as there are.
        cpus: Cores of a worker.
        gpus: GPUs of a worker; with more than 1 the model is spread over those of one machine.
        memory: Bytes that are set aside for a worker; 0: none.
    """

    name: str
    replicas: int | None = None
    cpus: float = 1
    gpus: float = 0
    memory: int = 0

    @property
    def shape(self) -> tuple[float, float, int]:
        """What a worker of it takes; pools of one shape share workers."""
        return self.cpus, self.gpus, self.memory

    @property
    def in_words(self) -> str:
        """What a worker of it takes, for people."""
        memory = f" and {self.memory / (1 << 30):.1f} GiB" if self.memory else ""
        return f"{counted(self.cpus, 'CPU')}, {counted(self.gpus, 'GPU')}{memory}"


def pool_of(name: str, pools: Mapping[str, Pool], other: Pool) -> Pool:
    """Return the pool of a unit.

    Args:
        name: What the unit says: a role, or ``ROLE:MODEL`` where each model of a role is loaded by itself.
        pools: Those that were set up, by name or by role.
        other: What stands for one that was not.

    Raises:
        UsageError: Pools of models were set up, and this is none of them.
    """
    role = name.partition(":")[0]
    found = pools.get(name) or pools.get(role)
    if found is None and role != CPU and set(pools) - {CPU}:
        raise UsageError(
            f"units need a model of pool '{role}', which the cluster file does not name.{did_you_mean(role, pools)}",
            f"Its pools are {', '.join(pools)}.",
        )
    return replace(found or other, name=name)


@dataclass(frozen=True)
class Advance:
    """How far the units are.

    Attributes:
        done: Units that are done.
        units: Units in all.
        found: Of those that are done, those that were before.
        documents: Documents of units that were computed; one that passes two stages counts twice.
        seconds: Since the start.
        left: Seconds that are left, by what units of each stage took so far; None where nothing was computed yet.
    """

    done: int
    units: int
    found: int
    documents: int
    seconds: float
    left: float | None

    @property
    def rate(self) -> float:
        """Documents per second."""
        return self.documents / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class UnitOutcome:
    """What became of a unit.

    Attributes:
        unit: As it was carried out: without the documents that were left out, needing what was left of others.
        report: What the worker said; None: the result was there before.
        attempts: How often it was placed.
        worker: Who did it.
    """

    unit: Unit
    report: UnitReport | None = None
    attempts: int = 0
    worker: str = ""


@dataclass(frozen=True)
class LeftOut:
    """Documents that no worker survived.

    Attributes:
        unit: The unit that was asked for.
        documents: Each of them failed alone.
        fault: How the last of them failed.
    """

    unit: Unit
    documents: tuple[int, ...]
    fault: Fault


@dataclass
class Outcome:
    """What became of the units of a run.

    Attributes:
        units: By the key that was asked for; the result may be under another one (``units[key].unit.key``).
        left_out: Documents that were left out of units.
        waiting: Units that are handed to a queue and not done; asked again, it says what became of them.
    """

    units: dict[str, UnitOutcome] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    waiting: int = 0

    @property
    def found(self) -> int:
        """Units whose results were there before."""
        return sum(one.report is None for one in self.units.values())

    @property
    def computed(self) -> int:
        """Units that were computed."""
        return len(self.units) - self.found


def unheard(advance: Advance) -> None:
    """Tell nobody how far the units are."""


class Engine(Protocol):
    """Where units run."""

    def carry_out(
        self,
        spec: WorkSpec,
        units: Iterable[Unit],
        *,
        report: Callable[[Advance], object] = unheard,
        folder: Path | None = None,
    ) -> Outcome:
        """Carry out units, each after those that it needs; what is done is not computed.

        A unit that fails is placed again, three times in all. One that goes on failing is taken apart until the
        documents that fail it are found; it is carried out without them, and the outcome names them.

        Args:
            spec: How a worker opens its work.
            units: In any order; what they need is among them.
            report: Is told how far they are, each second or so.
            folder: Where to write what ``bench status`` shows; None: nowhere.

        Returns:
            The outcome of each unit.

        Raises:
            BenchError: A worker raised it: as it is, after the first time.
            EngineError: No worker can be had, or nothing of a unit can be done.
        """
        ...
