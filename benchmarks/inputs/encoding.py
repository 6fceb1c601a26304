"""Encodes images and the texts that are held against them, for protocols that match these by themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...adapters import Encoder, ImageHandle
from ...metrics import Cache, Context, Items
from ...metrics.vectors.features import Features, image_features, over_context, text_features
from ...progress import Progress

_FEATURES = ("images", "texts")


@dataclass(frozen=True)
class EncodedItems:
    """The features of ``n`` items: of their images, and of their references, of which there are ``m`` in all.

    Attributes:
        images: Of the image of each.
        texts: Of the references, item by item.
        cut: ``[m]`` whether a reference has more tokens than the encoder takes.
    """

    images: Features
    texts: Features
    cut: np.ndarray

    def spread(self, kept: np.ndarray, references: np.ndarray, reason: str) -> EncodedItems:
        """Return these as the features of some of more items, of which the others have none.

        Args:
            kept: ``[n]`` which of them these are.
            references: How many references each of them has.
            reason: Why the others have none.
        """
        others = np.setdiff1d(np.arange(len(references)), kept).tolist()
        texts = np.flatnonzero(np.repeat(np.isin(np.arange(len(references)), kept), references))
        cut = np.zeros(int(references.sum()), dtype=bool)
        cut[texts] = self.cut
        images = _spread(self.images, kept, len(references))
        images.failures.update(dict.fromkeys(others, reason))
        return EncodedItems(images, _spread(self.texts, texts, len(cut)), cut)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return them as arrays of numbers, by name."""
        arrays = {"cut": self.cut}
        told: dict[str, list[list[tuple[int, str]]]] = {}
        for name in _FEATURES:
            one: Features = getattr(self, name)
            arrays |= {f"{name}/vectors": one.vectors, f"{name}/rows": one.rows}
            told[name] = [list(one.failures.items()), list(one.remarks.items())]
        return {**arrays, "told": np.frombuffer(json.dumps(told).encode(), np.uint8)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> EncodedItems:
        """Return what such arrays hold."""
        told = json.loads(arrays["told"].tobytes())
        images, texts = (
            Features(arrays[f"{name}/vectors"], arrays[f"{name}/rows"], *map(dict, told[name]))
            for name in _FEATURES
        )
        return cls(images, texts, arrays["cut"])


def encode_items(items: Items, encoder: Encoder | None, cache: Cache, progress: Progress) -> EncodedItems:
    """Encode the images of items and their references; what the cache knows is not encoded again.

    Args:
        items: The items; their candidates are not looked at.
        encoder: Who encodes.
        cache: Keeps features, input by input.
        progress: Gives a reporter of the steps ``images`` and ``texts``.

    Raises:
        MetricError: There is no encoder.
        AdapterError: The encoder failed as a whole.
    """
    texts = [text for references in items.references for text in references]
    of_texts = Context(cache, progress("texts"), encoder)
    return EncodedItems(
        image_features(
            [one for one in items.images if isinstance(one, ImageHandle)],
            Context(cache, progress("images"), encoder),
        ),
        text_features(texts, of_texts),
        over_context(texts, of_texts),
    )


def _spread(found: Features, at: np.ndarray, n: int) -> Features:
    """Return features as those of ``n`` inputs, among which theirs are at some places."""
    rows = np.full(n, -1, dtype=np.int64)
    rows[at] = found.rows
    failures, remarks = (
        {int(at[number]): text for number, text in told.items()} for told in (found.failures, found.remarks)
    )
    return Features(found.vectors, rows, failures, remarks)
