"""Gathers what a protocol collects: texts go to the shelf shard by shard, numbers stay."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ....adapters import ImageHandle, VideoHandle
from ....mapped_numbers import GrowingNumbers, mapped
from ...protocols.job import Collected, Shard, Summary
from ...records.hashes import DataHash
from ...statistics.rated_rows import first_seen
from .shelf import Columns, Shelf


@dataclass(frozen=True)
class Shelved:
    """A shard whose texts are on the shelf.

    Attributes:
        number: Its number, from 0.
        items: Key of the items.
        columns: Key of the columns.
        rows: First row, and the one after its last.
        first_item: Number of its first item.
        n_items: How many items it has.
        alone: Whether it is all there is.
        samples: Key of the item of each sample.
        images: Hash of its images; None where they do not matter.
    """

    number: int
    items: str
    columns: str
    rows: tuple[int, int]
    first_item: int
    n_items: int
    alone: bool = False
    samples: str = ""
    images: str | None = None


@dataclass(frozen=True)
class Distinct:
    """Which items of all shards, ``[n]``, are the ``k`` distinct ones: those of a run that has one shard.

    Attributes:
        first: ``[k]`` where each occurs first, ascending.
        of_item: ``[n]`` which of them each item is.
    """

    first: np.ndarray
    of_item: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray) -> Distinct:
        """Return which of ``[n]`` numbers are the distinct ones."""
        of_item = first_seen(numbers)
        if len(of_item) and of_item[-1] == len(of_item) - 1:
            return cls.each(len(of_item))
        # The first of each number is where the numbers reach a new height.
        first = np.flatnonzero(np.diff(np.maximum.accumulate(of_item), prepend=-1))
        return cls(mapped(first), mapped(of_item))

    @classmethod
    def each(cls, items: int) -> Distinct:
        """Return that each of so many items is one of its own."""
        every = mapped(np.arange(items, dtype=np.int32))
        return cls(every, every)

    @property
    def is_each(self) -> bool:
        """Whether each item is one of its own."""
        return len(self.first) == len(self.of_item)

    def chosen(self, values: np.ndarray) -> np.ndarray:
        """Return ``[k]`` the item whose score counts: the first that has one, or else the first."""
        found = np.flatnonzero(np.isfinite(values))[::-1]
        chosen = self.first.copy()
        chosen[self.of_item[found]] = found
        return chosen


@dataclass
class Gathering:
    """What is gathered of a run.

    Attributes:
        shelf: Where texts go.
        hash_images: Whether something depends on what the files of images hold.
        in_memory: Whether the numbers of all shards stay at hand; else they go to the shelf, too.
        several: Whether it is known that there is more than one shard: two need not be in memory to tell.
        shards: The shards so far.
        hashes: Of what was gathered.
        has_images: Whether any item has an image.
    """

    shelf: Shelf
    hash_images: bool = False
    in_memory: bool = True
    several: bool = False
    shards: list[Shelved] = field(default_factory=list)
    hashes: DataHash = field(default_factory=DataHash)
    has_images: bool = False
    _item_of_sample: GrowingNumbers = field(default_factory=GrowingNumbers)
    _weights: GrowingNumbers = field(default_factory=GrowingNumbers)
    _item_numbers: GrowingNumbers = field(default_factory=GrowingNumbers)
    _numbers: dict[str, GrowingNumbers] = field(default_factory=dict)
    _words: GrowingNumbers = field(default_factory=GrowingNumbers)
    _summary: Summary | None = None
    _rows: int = 0
    _items: int = 0

    def gather(self, collecting: Generator[Shard, None, Summary]) -> Iterator[Shelved]:
        """Yield each shard once its texts are on the shelf; of the first one is known whether it is all."""
        shard = self._next(collecting)
        if shard is not None and not self.several:
            second = self._next(collecting)
            shelved, shard, second = self._shelve(shard, alone=second is None), second, None
            yield shelved
        while shard is not None:
            # Nothing holds its texts while it is scored, and the next one made.
            shelved, shard = self._shelve(shard), None
            yield shelved
            shard = self._next(collecting)

    def _next(self, collecting: Generator[Shard, None, Summary]) -> Shard | None:
        try:
            return next(collecting)
        except StopIteration as end:
            self._summary = end.value
            return None

    def _shelve(self, shard: Shard, alone: bool = False) -> Shelved:
        self.hashes.add(shard)
        self.has_images = self.has_images or bool(shard.items.images)
        images = self.hashes.add_images(shard.items) if self.hash_images else None
        if self.in_memory:
            self._keep(shard)
        samples = self.shelf.add_own({"item_of_sample": shard.item_of_sample})
        shelved = Shelved(
            len(self.shards),
            self.shelf.add(shard.items),
            self.shelf.add_own(shard.columns),
            (self._rows, self._rows + shard.rows),
            self._items,
            len(shard.items),
            alone,
            samples,
            images,
        )
        self._rows += shard.rows
        self._items += len(shard.items)
        self.shards.append(shelved)
        return shelved

    def _keep(self, shard: Shard) -> None:
        # Half the memory: nobody has 2**31 items in memory.
        self._item_of_sample.append(shard.item_of_sample.astype(np.int32) + np.int32(self._items))
        self._weights.append(shard.items.weights.astype(np.int32))
        if shard.item_numbers is not None:
            self._item_numbers.append(shard.item_numbers)
        for name, array in shard.numbers.items():
            self._numbers.setdefault(name, GrowingNumbers()).append(array)
        if (captions := shard.columns.get("candidate")) is not None:
            self._words.append(np.fromiter((len(one.split()) for one in captions), np.uint32, len(captions)))

    @property
    def collected(self) -> Collected:
        """All shards, without their texts."""
        assert self._summary is not None  # noqa: S101 - the last shard was gathered
        items = self._item_of_sample.array()
        return Collected(
            items if self.distinct.is_each else mapped(self.distinct.of_item[items]),
            mapped(self.weights),
            {name: numbers.array() for name, numbers in self._numbers.items()},
            self._summary,
            self._rows,
        )

    @cached_property
    def distinct(self) -> Distinct:
        """Which items of all shards are the distinct ones, once the last shard is there."""
        if len(self.shards) > 1 and self._item_numbers:
            found = Distinct.of(self._item_numbers.array())
            self._item_numbers = GrowingNumbers()
            return found
        return Distinct.each(self._items)

    @property
    def weights(self) -> np.ndarray:
        """``[k]`` how many samples each distinct item stands for."""
        return self.weights_of(np.ones(self._items, dtype=bool))

    def weights_of(self, items: np.ndarray) -> np.ndarray:
        """Return ``[k]`` how many samples each distinct item stands for where it is one of some.

        Args:
            items: ``[n]`` bool: which items of all shards.
        """
        distinct = self.distinct
        every = self._weights.array() if self._weights else self._weights_of_shards()
        weights = np.where(items, every, 0.0)
        return weights if distinct.is_each else np.bincount(distinct.of_item, weights, len(distinct.first))

    def _weights_of_shards(self) -> np.ndarray:
        return np.concatenate([self.shelf.items(shard.items).weights for shard in self.shards])

    @property
    def words(self) -> np.ndarray | None:
        """``[rows]`` words of each caption; None where rows are no single captions."""
        return self._words.array() if self._words else None

    def columns(self) -> Iterator[Columns]:
        """Yield what the protocol says of the rows, shard by shard."""
        for shard in self.shards:
            yield self.shelf.columns(shard.columns)

    def sample(self, row: int) -> tuple[str, ImageHandle | VideoHandle | None]:
        """Return the id and the image of a row that is a single caption."""
        shard = next(one for one in self.shards if one.rows[0] <= row < one.rows[1])
        items = self.shelf.items(shard.items)
        columns = self.shelf.columns(shard.columns)
        at = row - shard.rows[0]
        item = int(self._item_of_sample.array()[row]) - shard.first_item
        return columns["id"][at], items.images[item] if items.images else None
