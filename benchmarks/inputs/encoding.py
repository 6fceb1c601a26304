"""Encodes images and the texts that are compared with them, for protocols that match them without a metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...adapters import Encoder, ImageHandle, PairwiseEncoder
from ...metrics import Cache, Context, Items
from ...metrics.vectors.features import (
    Features,
    PairScores,
    image_features,
    over_context,
    pair_scores,
    seen_tokens,
    text_features,
)
from ...progress import Progress


@dataclass(frozen=True)
class EncodedItems:
    """The features of the images and the ``m`` references of ``n`` items.

    Attributes:
        images: Of the image of each.
        texts: Of the references, item by item.
        cut: ``[m]`` whether a reference has more tokens than the encoder takes.
        seen: ``[m]`` as of :func:`~...metrics.vectors.features.seen_tokens`.
    """

    images: Features
    texts: Features
    cut: np.ndarray
    seen: np.ndarray

    @property
    def is_whole(self) -> bool:
        """Whether every image and text could be encoded."""
        return not (self.images.failures or self.texts.failures)

    def spread(self, kept: np.ndarray, references: np.ndarray, reason: str) -> EncodedItems:
        """Return the features of a larger list of items, in which the other items have none.

        Args:
            kept: ``[n]`` which items have features.
            references: Number of references of each item.
            reason: Why the others have none.
        """
        others = np.setdiff1d(np.arange(len(references)), kept).tolist()
        texts = np.flatnonzero(np.repeat(np.isin(np.arange(len(references)), kept), references))
        n = int(references.sum())
        images = _spread(self.images, kept, len(references))
        images.failures.update(dict.fromkeys(others, reason))
        return EncodedItems(
            images, _spread(self.texts, texts, n), _filled(self.cut, texts, n), _filled(self.seen, texts, n)
        )


@dataclass(frozen=True)
class ScoredItems:
    """The scores of the image of each of ``n`` items with its references, ``m`` in all.

    Attributes:
        scores: ``[m]`` scores of the pairs, item by item.
        cut: ``[m]`` whether a reference has more tokens than the encoder takes.
        seen: ``[m]`` as of :func:`~...metrics.vectors.features.seen_tokens`.
    """

    scores: PairScores
    cut: np.ndarray
    seen: np.ndarray

    @property
    def is_whole(self) -> bool:
        """Whether every pair has a score."""
        return not self.scores.failures

    def spread(self, kept: np.ndarray, references: np.ndarray, reason: str) -> ScoredItems:
        """Return the scores of a larger list of items, in which the others have none; see ``EncodedItems``."""
        pairs = np.flatnonzero(np.repeat(np.isin(np.arange(len(references)), kept), references))
        n, scores = int(references.sum()), self.scores
        failures = dict.fromkeys(np.setdiff1d(np.arange(len(references)), kept).tolist(), reason)
        failures |= {int(kept[number]): text for number, text in scores.failures.items()}
        remarks = {int(kept[number]): text for number, text in scores.remarks.items()}
        values = _filled(scores.values, pairs, n, np.nan)
        return ScoredItems(
            PairScores(values, failures, remarks), _filled(self.cut, pairs, n), _filled(self.seen, pairs, n)
        )


AnyEncoded = EncodedItems | ScoredItems
"""What an encoder makes of items: vectors, or the scores of pairs where it has none."""


def encode_items(items: Items, encoder: Encoder | None, cache: Cache, progress: Progress) -> AnyEncoded:
    """Encode the images and references of items; cached features are not computed again.

    Args:
        items: The items; their candidates are ignored.
        encoder: The encoder.
        cache: The cache of features, one entry per input.
        progress: Returns a reporter of the steps ``images`` and ``texts``.

    Raises:
        MetricError: There is no encoder.
        AdapterError: The encoder failed as a whole.
    """
    texts = [text for references in items.references for text in references]
    of_texts = Context(cache, progress("texts"), encoder)
    of_images = Context(cache, progress("images"), encoder)
    images = [image for image in items.images if isinstance(image, ImageHandle)]
    if isinstance(encoder, PairwiseEncoder):
        scores = pair_scores(images, items.references, of_images)
        return ScoredItems(scores, over_context(texts, of_texts), seen_tokens(texts, of_texts))
    return EncodedItems(
        image_features(images, of_images),
        text_features(texts, of_texts),
        over_context(texts, of_texts),
        seen_tokens(texts, of_texts),
    )


def _filled(values: np.ndarray, at: np.ndarray, n: int, other: float = 0) -> np.ndarray:
    """Return ``[n]`` the values at some indices, and a fill value at the others."""
    filled = np.full(n, other, dtype=values.dtype)
    filled[at] = values
    return filled


def _spread(features: Features, at: np.ndarray, n: int) -> Features:
    """Return the features of ``n`` inputs, with these at some indices."""
    rows = np.full(n, -1, dtype=np.int64)
    rows[at] = features.rows
    failures, remarks = (
        {int(at[number]): text for number, text in notes.items()} for notes in (features.failures, features.remarks)
    )
    return Features(features.vectors, rows, failures, remarks)
