"""Items, which a metric scores, and its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..adapters import Box, ImageHandle, VideoHandle

_COLUMNS = ("ids", "candidates", "references", "images", "boxes", "objects", "image_names")


@dataclass(frozen=True)
class Items:
    """Unique captions: the data of an image, and a candidate.

    Rows of a data set that repeat an item are scored once and weigh as often as they occur.

    Attributes:
        ids: ``[n]`` names for messages; unique.
        candidates: ``[n]`` captions to score, not tokenised.
        references: ``[n]`` tuples of reference captions; items of one image may share one tuple.
        weights: ``[n]`` how many rows of the data set each item stands for.
        images: ``[n]`` handles of images or videos, for metrics that look at them; empty where the data set
            has none.
        boxes: ``[n]`` boxes of the parts of each image (its regions, its objects); empty where the data set
            has none.
        corpus: ``[n]`` integers: items of one number are scored as a separate data set by metrics whose
            values depend on the other items. None where all are one.
        objects: ``[n]`` names of the objects that annotators marked in the image; empty where the data
            set has no such annotation. An image in which nothing was marked has an empty set.
        image_names: ``[n]`` the data set's name of each item's image; empty where it has none.
        memo: What metrics derived from the texts (tokens, n-grams), by name, so that the next metric
            of the run need not; derived from the fields above and nothing else.
    """

    ids: Sequence[str]
    candidates: Sequence[str]
    references: Sequence[tuple[str, ...]]
    weights: np.ndarray
    images: Sequence[ImageHandle | VideoHandle] = ()
    boxes: Sequence[tuple[Box, ...]] = ()
    corpus: np.ndarray | None = None
    objects: Sequence[frozenset[str]] = ()
    image_names: Sequence[str] = ()
    memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.candidates)

    def subset(self, which: np.ndarray) -> Items:
        """Return the items of these indices, as one corpus."""
        columns: dict[str, Any] = {
            name: [column[i] for i in which.tolist()] if (column := getattr(self, name)) else () for name in _COLUMNS
        }
        return Items(weights=self.weights[which], **columns)

    @classmethod
    def concatenate(cls, shards: Sequence[Items]) -> Items:
        """Return the items of several shards, one shard after the other."""
        corpora = [shard.corpus for shard in shards if shard.corpus is not None]
        return cls(
            weights=np.concatenate([shard.weights for shard in shards]),
            corpus=np.concatenate(corpora) if corpora else None,
            **{name: [value for shard in shards for value in getattr(shard, name)] for name in _COLUMNS},
        )

    @cached_property
    def reference_sets(self) -> tuple[list[tuple[str, ...]], np.ndarray]:
        """The distinct reference tuples, and ``[n]`` the index of each item's tuple among them."""
        index: dict[tuple[str, ...], int] = {}
        of_item = [index.setdefault(references, len(index)) for references in self.references]
        return list(index), np.asarray(of_item, dtype=np.int64)


@dataclass(frozen=True)
class Scores:
    """A metric's scores of ``n`` items.

    Attributes:
        values: ``[n]`` float64; NaN where an item could not be scored (its reason is in ``failures``).
        parts: Named arrays ``[n, ...]`` from which the value was computed (precision, counts, ...).
        failures: Item index to the reason why it has no value.
        remarks: Item index to an unusual step in reading it; it has a value all the
            same.
    """

    values: np.ndarray
    parts: dict[str, np.ndarray] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    remarks: dict[int, str] = field(default_factory=dict)
