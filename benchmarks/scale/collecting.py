"""Collects the shards of a run: their texts go to files, their numbers stay."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...adapters import ImageHandle, VideoHandle
from ..protocols.job import Collected, Shard, Summary
from ..records.hashes import DataHash
from ..running.corpus import Columns, Corpus, sample_of, words_of
from ..statistics.rated_rows import first_seen
from .shards import ShardFiles


@dataclass(frozen=True)
class ShardRef:
    """A shard whose texts are in files.

    Attributes:
        number: Its number, from 0.
        items: Name of the file of its items.
        columns: Name of the file of its rows.
        first_row: Number of its first row.
        first_item: Number of its first item.
        n_items: How many items it has.
        images: Hash of its images; None where they do not matter.
    """

    number: int
    items: str
    columns: str
    first_row: int
    first_item: int
    n_items: int
    images: str | None = None


class ShardedCorpus(Corpus):
    """A corpus whose texts are in files.

    Args:
        files: The files.
        hash_images: Whether something depends on what the files of images hold.
    """

    def __init__(self, files: ShardFiles, hash_images: bool) -> None:
        self._files = files
        self._hash_images = hash_images
        self.refs: list[ShardRef] = []
        self.rows = self.n_items = 0
        self._hashes = DataHash()
        self._has_images = False
        self._summary: Summary | None = None
        self._item_of_sample: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        self._item_numbers: list[np.ndarray] = []
        self._numbers: dict[str, list[np.ndarray]] = {}
        self._words: list[np.ndarray] = []

    def collect(self, shards: Generator[Shard, None, Summary]) -> Iterator[ShardRef]:
        """Yield each shard once its texts are in files."""
        while True:
            try:
                shard = next(shards)
            except StopIteration as end:
                self._summary = end.value
                return
            ref = self._add(shard)
            # Nothing holds its texts while it is scored, and the next one made.
            del shard
            yield ref

    def _add(self, shard: Shard) -> ShardRef:
        self._hashes.add(shard)
        self._has_images = self._has_images or bool(shard.items.images)
        # Half the memory: nobody has 2**31 items in memory.
        self._item_of_sample.append(shard.item_of_sample.astype(np.int32) + np.int32(self.n_items))
        self._weights.append(shard.items.weights.astype(np.int32))
        if shard.item_numbers is not None:
            self._item_numbers.append(shard.item_numbers)
        for name, array in shard.numbers.items():
            self._numbers.setdefault(name, []).append(array)
        if (words := words_of(shard)) is not None:
            self._words.append(words)
        ref = ShardRef(
            len(self.refs),
            self._files.put_items(shard.items),
            self._files.put_rows(shard.columns),
            self.rows,
            self.n_items,
            len(shard.items),
            self._hashes.add_images(shard.items) if self._hash_images else None,
        )
        self.rows += shard.rows
        self.n_items += len(shard.items)
        self.refs.append(ref)
        return ref

    @cached_property
    def distinct(self) -> tuple[np.ndarray, np.ndarray] | None:
        """``[k]`` where each distinct item of all shards occurs first, ascending, and ``[n]`` which of them each is.

        None where each item is one of its own.
        """
        if len(self.refs) < 2 or not self._item_numbers:
            return None
        of_item = first_seen(np.concatenate(self._item_numbers))
        self._item_numbers.clear()
        if not len(of_item) or of_item[-1] == len(of_item) - 1:
            return None
        # The first of each number is where the numbers reach a new height.
        first = np.flatnonzero(np.diff(np.maximum.accumulate(of_item), prepend=-1))
        return first, of_item

    def number(self, item: int) -> int:
        """Return which distinct item one of all shards is."""
        return item if self.distinct is None else int(self.distinct[1][item])

    @cached_property
    def weights(self) -> np.ndarray:
        """``[k]`` how many samples each distinct item stands for."""
        every = np.concatenate(self._weights).astype(np.float64)
        if self.distinct is None:
            return every
        first, of_item = self.distinct
        return np.bincount(of_item, every, len(first))

    @property
    def shards(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many shards it came in."""
        return len(self.refs)

    @property
    def collected(self) -> Collected:
        """Which items the rows are of, and their numbers."""
        return self._collected

    @cached_property
    def _collected(self) -> Collected:
        assert self._summary is not None  # noqa: S101 - the last shard was collected
        items = np.concatenate(self._item_of_sample)
        return Collected(
            items if self.distinct is None else self.distinct[1][items],
            self.weights,
            {name: np.concatenate(numbers) for name, numbers in self._numbers.items()},
            self._summary,
            self.rows,
        )

    @property
    def words(self) -> np.ndarray | None:
        """``[rows]`` words of each caption; None where rows are no single captions."""
        return np.concatenate(self._words) if self._words else None

    @property
    def has_images(self) -> bool:
        """Whether any item has an image."""
        return self._has_images

    @property
    def data_hash(self) -> str:
        """Hash of what is scored."""
        return self._hashes.data

    @property
    def images_hash(self) -> str | None:
        """Hash of the images that it is of; None where there are none."""
        return self._hashes.images

    def columns(self) -> Iterator[Columns]:
        """Yield what the protocol says of the rows, shard by shard."""
        for ref in self.refs:
            yield self._files.rows(ref.columns)

    def sample(self, row: int) -> tuple[str, ImageHandle | VideoHandle | None]:
        """Return the id and the image of a row that is a single caption."""
        ref = next(one for one in reversed(self.refs) if one.first_row <= row)
        item = int(np.concatenate(self._item_of_sample)[row]) - ref.first_item
        columns = self._files.rows(ref.columns)
        return sample_of(self._files.items(ref.items), columns, row - ref.first_row, item)
