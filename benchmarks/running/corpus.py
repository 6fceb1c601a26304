"""What a run scores: rows of a protocol, and the items that they are of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...adapters import ImageHandle, VideoHandle
from ...metrics import Items
from ..protocols.job import Collected, Shard, Summary

Columns = Mapping[str, Sequence[Any]]


class Corpus(ABC):
    """All that a run scores.

    Attributes:
        shards: How many shards it came in.
    """

    shards: int

    @property
    @abstractmethod
    def collected(self) -> Collected:
        """Which items the rows are of, and their numbers."""

    @property
    @abstractmethod
    def words(self) -> np.ndarray | None:
        """``[rows]`` words of each caption; None where rows are no single captions."""

    @property
    @abstractmethod
    def has_images(self) -> bool:
        """Whether any item has an image."""

    @property
    @abstractmethod
    def data_hash(self) -> str:
        """Hash of what is scored."""

    @property
    @abstractmethod
    def images_hash(self) -> str | None:
        """Hash of the images that it is of; None where there are none."""

    @abstractmethod
    def columns(self) -> Iterator[Columns]:
        """Yield what the protocol says of the rows, shard by shard."""

    @abstractmethod
    def sample(self, row: int) -> tuple[str, ImageHandle | VideoHandle | None]:
        """Return the id and the image of a row that is a single caption."""


@dataclass
class OneShard(Corpus):
    """A corpus that is one shard."""

    shard: Shard
    summary: Summary
    shards = 1

    @property
    def collected(self) -> Collected:
        """Which items the rows are of, and their numbers."""
        shard = self.shard
        return Collected(shard.item_of_sample, shard.items.weights, shard.numbers, self.summary, shard.rows)

    @property
    def words(self) -> np.ndarray | None:
        """``[rows]`` words of each caption."""
        return words_of(self.shard)

    @property
    def has_images(self) -> bool:
        """Whether any item has an image."""
        return bool(self.shard.items.images)

    @property
    def data_hash(self) -> str:
        """Hash of what is scored."""
        from ..records.hashes import DataHash

        hashes = DataHash()
        hashes.add(self.shard)
        return hashes.data

    @property
    def images_hash(self) -> str | None:
        """Hash of the images that it is of."""
        from ..records.hashes import DataHash

        hashes = DataHash()
        hashes.add_images(self.shard.items)
        return hashes.images

    def columns(self) -> Iterator[Columns]:
        """Yield what the protocol says of the rows."""
        yield self.shard.columns

    def sample(self, row: int) -> tuple[str, ImageHandle | VideoHandle | None]:
        """Return the id and the image of a row that is a single caption."""
        return sample_of(self.shard.items, self.shard.columns, row, int(self.shard.item_of_sample[row]))


def words_of(shard: Shard) -> np.ndarray | None:
    """Return ``[rows]`` words of each caption of a shard; None where rows are no single captions."""
    captions = shard.columns.get("candidate")
    if captions is None:
        return None
    return np.fromiter((len(caption.split()) for caption in captions), np.uint32, len(captions))


def sample_of(items: Items, columns: Columns, row: int, item: int) -> tuple[str, ImageHandle | VideoHandle | None]:
    """Return the id and the image of a row of a shard, which is of one of its items."""
    return columns["id"][row], items.images[item] if items.images else None
