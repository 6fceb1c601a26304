"""Where a run puts what it has made of a shard, until it is needed again: in this process, or as objects."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....adapters import Captioned, CaptionRequest
from ....errors import StoreError
from ....metrics import Items, Scores

Arrays = Mapping[str, np.ndarray]
Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class MetricScores:
    """What a metric made of a shard.

    Attributes:
        name: The metric's.
        scores: Those of the items; None where it failed as a whole.
        error: Why it did.
        seconds: How long it took.
        sums: What its system-level value is made of (``Aggregate.sums``); None where it must see all scores.
        counted: How many samples have a score.
        of_model: Whether its model failed as a whole: then the metric has no number, whatever other shards have.
    """

    name: str
    scores: Scores | None
    error: str = ""
    seconds: float = 0.0
    sums: Arrays | None = None
    counted: int = 0
    of_model: bool = False


@dataclass(frozen=True)
class ShardScores:
    """What metrics made of a shard.

    Attributes:
        metrics: What each did.
        ids: Id of each item that a metric could not score, or on which something is remarked.
        remarks: Item to what is to be remarked on its caption, whatever the metric.
    """

    metrics: Sequence[MetricScores]
    ids: Mapping[int, str]
    remarks: Mapping[int, str] = field(default_factory=dict[int, str])


Value = Items | ShardScores | Sequence[CaptionRequest] | Captioned | Columns | Arrays


class Shelf(ABC):
    """Keeps values by key; a key has one value for ever."""

    @abstractmethod
    def put(self, key: str, value: Value) -> None:
        """Keep a value; where the key has one, that stays."""

    @abstractmethod
    def add(self, value: Value) -> str:
        """Keep a value under a key that follows from what it is, and return the key."""

    def add_own(self, value: Value) -> str:
        """Keep a value that nobody needs but who puts it there, and return its key."""
        return self.add(value)

    @abstractmethod
    def has(self, key: str) -> bool:
        """Tell whether there is a value."""

    @abstractmethod
    def drop(self, key: str) -> None:
        """Forget a value, which is not needed any more."""

    @abstractmethod
    def get(self, key: str) -> Any:
        """Return a value.

        Raises:
            StoreError: There is none.
        """

    def put_parts(self, key: str, parts: Iterable[Arrays]) -> None:
        """Keep arrays in parts, of which each can be read by itself; where the key has some, those stay."""
        for number, part in enumerate(parts):
            self.put(derived(key, str(number)), part)

    def has_parts(self, key: str, count: int) -> bool:
        """Tell whether all of so many parts are there."""
        return all(self.has(derived(key, str(number))) for number in range(count))

    def part(self, key: str, number: int) -> Arrays:
        """Return a part of those that were kept together, counted from 0.

        Raises:
            StoreError: There is none, or it is damaged.
        """
        return self.arrays(derived(key, str(number)))

    def items(self, key: str) -> Items:
        """Return the items of that key."""
        return self.get(key)

    def columns(self, key: str) -> Columns:
        """Return the columns of that key."""
        return self.get(key)

    def scores(self, key: str) -> ShardScores:
        """Return the scores of that key."""
        return self.get(key)

    def requests(self, key: str) -> Sequence[CaptionRequest]:
        """Return the requests of that key."""
        return self.get(key)

    def captions(self, key: str) -> Captioned:
        """Return the answers of that key."""
        return self.get(key)

    def arrays(self, key: str) -> Arrays:
        """Return the arrays of that key."""
        return self.get(key)


class MemoryShelf(Shelf):
    """Keeps values as they are, in this process."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._added = 0

    def put(self, key: str, value: Value) -> None:
        """Keep a value."""
        self._values.setdefault(key, value)

    def add(self, value: Value) -> str:
        """Keep a value under a key that no other has."""
        self._added += 1
        key = derived("added", str(self._added))
        self._values[key] = value
        return key

    def has(self, key: str) -> bool:
        """Tell whether there is a value."""
        return key in self._values

    def keys(self) -> frozenset[str]:
        """Return the keys of all values."""
        return frozenset(self._values)

    def drop(self, key: str) -> None:
        """Forget a value."""
        self._values.pop(key, None)

    def get(self, key: str) -> Any:
        """Return a value."""
        if key not in self._values:
            raise StoreError(f"this run has no result {key}", "Run again.")
        return self._values[key]


def derived(*names: str) -> str:
    """Return a key that follows from others, and from what they are joined for."""
    return hashlib.sha256("\0".join(names).encode()).hexdigest()
