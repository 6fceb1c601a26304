"""Rows a few shards at a time, with what the store has of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ...benchmarks.store.store import Store
from .contract import Stage
from .rows import MakingRow, key_of

SHARDS = 8
"""Of a window: of rows that were made but for a few, shards are as full as in one window they can be."""


@dataclass
class Window:
    """Rows that are in memory at a time.

    Attributes:
        rows: The rows.
        keys: Of each, what it is kept by.
        known: Key to what was made of a row, as JSON values.
    """

    rows: list[MakingRow]
    keys: list[str]
    known: dict[str, Any]

    def missing(self, size: int) -> list[list[int]]:
        """Return the numbers of the rows of which nothing is known, in shards of so many."""
        left = [number for number, key in enumerate(self.keys) if key not in self.known]
        return [left[start : start + size] for start in range(0, len(left), size)]


def windows(stage: Stage, rows: Iterable[MakingRow], producer: Mapping[str, Any], store: Store) -> Iterator[Window]:
    """Yield rows in windows, each with what the store has of it as it is looked at.

    Args:
        stage: Makes shards of them.
        rows: All rows, in order.
        producer: What decides what the stage makes.
        store: What keeps it.
    """
    left = iter(rows)
    while some := list(islice(left, SHARDS * stage.shard)):
        keys = [key_of(row) for row in some]
        yield Window(some, keys, store.get(producer, keys))
