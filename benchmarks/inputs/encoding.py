"""Encodes images and the texts that are compared with them, for protocols that match them without a metric."""

from dataclasses import dataclass

import numpy as np

from ...adapters import Encoder, ImageHandle, PairwiseEncoder
from ...metrics import Cache, Context, Items
from ...metrics.vectors import features
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

    images: features.Features
    texts: features.Features
    cut: np.ndarray
    seen: np.ndarray

    @property
    def is_whole(self) -> bool:
        """Whether every image and text could be encoded."""
        return not (self.images.failures or self.texts.failures)


@dataclass(frozen=True)
class ScoredItems:
    """The scores of the image of each of ``n`` items with its references, ``m`` in all.

    Attributes:
        scores: ``[m]`` scores of the pairs, item by item.
        cut: ``[m]`` whether a reference has more tokens than the encoder takes.
        seen: ``[m]`` as of :func:`~...metrics.vectors.features.seen_tokens`.
    """

    scores: features.PairScores
    cut: np.ndarray
    seen: np.ndarray

    @property
    def is_whole(self) -> bool:
        """Whether every pair has a score."""
        return not self.scores.failures


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
        scores = features.pair_scores(images, items.references, of_images)
        return ScoredItems(scores, features.over_context(texts, of_texts), features.seen_tokens(texts, of_texts))
    return EncodedItems(
        features.image_features(images, of_images),
        features.text_features(texts, of_texts),
        features.over_context(texts, of_texts),
        features.seen_tokens(texts, of_texts),
    )
