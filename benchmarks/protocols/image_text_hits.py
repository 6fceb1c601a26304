"""Whether images find their captions: subcrop-caption matching and negatives, of one group of entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class EntryVectors:
    """Unit vectors of a crop and its texts, float32.

    Attributes:
        image: ``[d]``.
        captions: ``[k, d]``.
        negatives: ``[m, d]``; may have no rows where negatives are not asked for.
    """

    image: np.ndarray
    captions: np.ndarray
    negatives: np.ndarray


@dataclass(frozen=True)
class Hit:
    """What became of an entry.

    Attributes:
        hit: Whether it counts as right.
        own: Least cosine of its image and its own captions.
        rival: Greatest cosine that ``own`` was held against; NaN where there was none.
    """

    hit: bool
    own: float
    rival: float


def match_captions(group: Sequence[EntryVectors]) -> list[Hit]:
    """Return which images of a group find their own captions: subcrop-caption matching (SCM).

    One direction only, from image to text. Another entry stands with the caption that fits the image best, the
    image's own entry with the one that fits worst; of equal entries the first is found.
    Source: Urbanek et al. 2023, section 4.1; facebookresearch/DCI, ``run_clip_dense_cap_eval.py``.

    Args:
        group: Entries with the same number of captions each.
    """
    hits: list[Hit] = []
    captions = np.concatenate([entry.captions for entry in group])
    for number, entry in enumerate(group):
        cosines = _cosines(captions, entry.image).reshape(len(group), -1)
        best = cosines.max(axis=1)
        own = best[number] = cosines[number].min()
        found = int(best.argmax())
        others = np.delete(best, number)
        hits.append(Hit(found == number, float(own), float(others.max()) if len(others) else float("nan")))
    return hits


def prefer_captions(entry: EntryVectors) -> Hit:
    """Return whether an image prefers the worst of its own captions to the best of its negatives.

    Equal counts as wrong. Source: as :func:`match_captions`.

    Args:
        entry: An entry with negatives.
    """
    own = _cosines(entry.captions, entry.image).min()
    rival = _cosines(entry.negatives, entry.image).max()
    return Hit(bool(own > rival), float(own), float(rival))


def _cosines(texts: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Return ``[n]`` the cosines of texts ``[n, d]`` and an image ``[d]``, all of norm 1.

    Each is summed in the same order wherever its text stands, so that equal texts tie; a product of matrices
    does not promise that.
    """
    return np.einsum("nd,d->n", texts, image)
