"""Units: the pieces of a run that engines place, on this machine or on others."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

Stage = Literal["caption", "encode", "frequencies", "score", "sums", "make"]


@dataclass(frozen=True)
class Unit:
    """One piece of work: what a stage makes of a shard. Equal units have equal results, to the bit.

    Attributes:
        key: Names its result: a hash of what produces it and of what it is given.
        stage: What is done.
        producer: Who does it, for people: the name of a model, or of metrics.
        shard: Number of the shard.
        rows: First document of the shard, and the one after its last.
        needs: Keys of the units whose results it reads; they are done before.
        pool: Where it can run: ``cpu``, or the role of the model that it needs.
        without: Documents that are left out, as no worker survived them.
        inputs: Keys of what it is given, which is there before it is placed.
        metrics: The metrics that it scores with.
        whole: Whether what it is given is all there is.
        part: Which part of the corpus' state it is of, if it is of one.
    """

    key: str
    stage: Stage
    producer: str
    shard: int
    rows: tuple[int, int]
    needs: tuple[str, ...] = ()
    pool: str = "cpu"
    without: tuple[int, ...] = ()
    inputs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    whole: bool = False
    part: int | None = None

    def __str__(self) -> str:
        first, end = self.rows
        return f"unit '{self.stage}' of {self.producer}, documents {first} to {end - 1}"

    @property
    def documents(self) -> tuple[int, ...]:
        """The documents that it is of, those that are left out not among them."""
        return (
            tuple(sorted(set(range(*self.rows)) - {*self.without}))
            if self.without
            else tuple(range(*self.rows))
        )

    @property
    def counted(self) -> int:
        """As how many documents it counts; a unit that is of a part of the corpus' state counts as none."""
        return self.rows[1] - self.rows[0] - len(self.without) if self.part is None else 0

    def leaving_out(self, documents: tuple[int, ...]) -> Unit:
        """Return the unit without some of its documents; its result is another, under another key."""
        left = tuple(sorted({*self.without, *documents}))
        return replace(self, key=self._key_of(f"without {left}"), without=left)

    def narrowed(self, rows: tuple[int, int]) -> Unit:
        """Return the unit of a part of its shard; its result, under another key, is read by nobody."""
        return replace(self, key=self._key_of(f"rows {rows}"), rows=rows)

    def needing(self, others: Mapping[str, Unit]) -> Unit:
        """Return the unit with others in place of some that it needs, under another key where there are any.

        A document that was left out of one of the same shard is left out here, too: it has one fate in a metric.

        Args:
            others: What was carried out in their place, by the key of what was asked for.
        """
        found = [others[key] for key in self.needs if key in others]
        if not found:
            return self
        needs = tuple(others[key].key if key in others else key for key in self.needs)
        unit = replace(self, key=self._key_of(f"needs {needs}"), needs=needs)
        place = self.stage, self.shard, self.rows
        left = [
            document for one in found if (one.stage, one.shard, one.rows) == place for document in one.without
        ]
        return unit.leaving_out(tuple(left)) if left else unit

    def _key_of(self, change: str) -> str:
        return hashlib.sha256(f"{self.key} {change}".encode()).hexdigest()

    def to_json(self) -> str:
        """Return the unit as a line of JSON."""
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, line: str) -> Unit:
        """Return the unit that a line of JSON holds."""
        return cls.from_values(json.loads(line))

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Unit:
        """Return the unit that values of JSON hold."""
        lists = {key: tuple(values[key]) for key in ("rows", "needs", "without", "inputs", "metrics")}
        return cls(**{**values, **lists})


@dataclass(frozen=True)
class UnitReport:
    """What a worker says of a unit that is done.

    Attributes:
        seconds: How long it took.
        found: Results that were known, item by item.
        computed: Results that were not.
    """

    seconds: float
    found: int = 0
    computed: int = 0


class Work(Protocol):
    """What a worker has: it is opened once, keeps its models, and runs units of one run."""

    def is_done(self, unit: Unit) -> bool:
        """Return whether the result of a unit is committed."""
        ...

    def run_unit(self, unit: Unit) -> UnitReport:
        """Compute a unit and commit its result, which is durable on return; one that is there is left as it is.

        A unit may be of any part of its shard, of no row, too: so documents are found that no worker survives.
        """
        ...

    def release(self, pool: str) -> None:
        """Let go of the model of a pool, which this worker is not going to need soon."""
        ...


@dataclass(frozen=True)
class WorkSpec:
    """How a worker on any machine opens its work.

    Attributes:
        factory: Function that opens it, ``module:name``.
        arguments: JSON values that it is given by name.
        folder: The folder where workers find and leave what units need and make; None: they share objects, which
            each reaches from its machine.
    """

    factory: str
    arguments: Mapping[str, Any]
    folder: str | None = None

    def open(self) -> Work:
        """Open the work in this process."""
        module, _, name = self.factory.partition(":")
        return getattr(importlib.import_module(module), name)(**self.arguments)

    def to_json(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps({**vars(self), "arguments": dict(self.arguments)})

    @classmethod
    def from_json(cls, line: str) -> WorkSpec:
        """Return what a line of JSON holds."""
        return cls(**json.loads(line))
