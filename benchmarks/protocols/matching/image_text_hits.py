"""Hits between images and captions: subcrop-caption matching, negatives and squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Ties = Literal["wrong", "right", "half"]
_TIE = {"wrong": 0.0, "right": 1.0, "half": 0.5}


@dataclass(frozen=True)
class Likeness:
    """Similarities of a crop with its texts and with those that compete, float32.

    Attributes:
        own: ``[k]`` of the image with its captions; of texts alone, ``[k (k - 1) / 2]`` of captions with each other.
        rivals: ``[m]`` of the image with its negatives; of texts alone, ``[k m]`` of captions with negatives.
        captions: ``[k, d]`` unit vectors of its captions; or, by an encoder of pairs, ``[g, k]`` the scores of the
            image with the captions of each entry of its group.
        image: ``[d]`` the unit vector of the image, where there is one.
    """

    own: np.ndarray
    rivals: np.ndarray
    captions: np.ndarray
    image: np.ndarray | None = None

    @classmethod
    def of_vectors(cls, image: np.ndarray, captions: np.ndarray, negatives: np.ndarray) -> Likeness:
        """Return the cosines of an image ``[d]`` with its texts; there may be no negatives."""
        return cls(_cosines(captions, image), _cosines(negatives, image), captions, image)

    @classmethod
    def of_texts(cls, captions: np.ndarray, negatives: np.ndarray) -> Likeness:
        """Return the cosines of texts alone: of two captions or more, and of their negatives."""
        pairs = [_cosines(captions[place + 1 :], caption) for place, caption in enumerate(captions)]
        rivals = [_cosines(negatives, caption) for caption in captions]
        return cls(np.concatenate(pairs), np.concatenate(rivals), captions)


def table_of(group: Sequence[Likeness]) -> np.ndarray:
    """Return ``[g, g, k]`` the similarity of each image of a group with the captions of each entry."""
    images = [entry.image for entry in group if entry.image is not None]
    if not images:
        return np.stack([entry.captions for entry in group])
    captions = np.concatenate([entry.captions for entry in group])
    return np.stack([_cosines(captions, image).reshape(len(group), -1) for image in images])


@dataclass(frozen=True)
class Hit:
    """The result of an entry.

    Attributes:
        hit: Its credit: 1 if it is right, 0 if not, or the credit of a tie.
        own: Least cosine, or score, of its image with its own captions.
        rival: The greatest competing value; NaN where there is none.
        nearest: Whose it is, among the captions of all entries, or the negatives; None where there is none.
    """

    hit: float
    own: float
    rival: float
    nearest: int | None


def match_captions(table: np.ndarray) -> list[Hit]:
    """Return which images of a group retrieve their own captions: subcrop-caption matching (SCM).

    One direction only, from image to text. Other entries count by their best caption, the image's own entry by its
    worst; of equal entries the first is retrieved.
    Source: Urbanek et al. 2023, section 4.1; facebookresearch/DCI, ``run_clip_dense_cap_eval.py``.

    Args:
        table: ``[g, g, k]`` similarity of each image with the captions of each entry.
    """
    hits: list[Hit] = []
    for number, alike in enumerate(table):
        best = alike.max(axis=1)
        own = best[number] = alike[number].min()
        others = alike.copy()
        others[number] = -np.inf
        nearest = int(others.argmax()) if len(table) > 1 else None
        rival = float("nan") if nearest is None else float(others.flat[nearest])
        hits.append(Hit(float(best.argmax() == number), float(own), rival, nearest))
    return hits


def prefer_captions(entry: Likeness, ties: Ties = "wrong") -> Hit:
    """Return whether an image prefers the worst of its own captions to the best of its negatives.

    Without an image: whether the least similar captions are more alike than any of them and a negative.

    Source: as :func:`match_captions`; with a caption and a negative, Hsieh et al. 2023 (SugarCrepe, ``main_eval.py``);
    with two captions, and for texts alone, Dumpala et al. 2024 (SugarCrepe++, ``test_Variants_CLIP.py``).

    Args:
        entry: An entry with negatives.
        ties: The credit where both are equal.
    """
    own, rival = entry.own, entry.rivals
    return Hit(preferred(own, rival, ties), float(own.min()), float(rival.max()), int(rival.argmax()))


def preferred(own: np.ndarray, rivals: np.ndarray, ties: Ties) -> float:
    """Return the credit of whether the least of some scores is above the greatest of others."""
    least, most = own.min(), rivals.max()
    return _TIE[ties] if least == most else float(least > most)


def match_square(
    first: Likeness, second: Likeness, ties: Ties = "wrong"
) -> tuple[tuple[float, float, float], np.ndarray]:
    """Return whether two images and two captions match each other.

    Source: Thrush et al. 2022 (Winoground), section 3.2, where all comparisons are strict.

    Args:
        first: An image with its caption; the other caption is its negative.
        second: The other image, likewise.
        ties: The credit where two are equal: ``wrong`` or ``right``.

    Returns:
        1 or 0 for text (each image prefers its own caption), image (each caption prefers its own image) and group
        (both); and ``[2, 2]`` the cosines, or scores of pairs, of image (row) and caption (column).
    """
    rows = [np.concatenate([entry.own, entry.rivals]) for entry in (first, second)]
    cosines = np.array([rows[0], rows[1][::-1]])

    def right(table: np.ndarray) -> bool:
        own = np.diag(table)
        other = np.diag(table[:, ::-1])
        return bool((own >= other).all() if ties == "right" else (own > other).all())

    text, image = right(cosines), right(cosines.T)
    return (float(text), float(image), float(text and image)), cosines


def _cosines(texts: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Return ``[n]`` the cosines of texts ``[n, d]`` and an image ``[d]``, all of norm 1.

    Each is summed in the same order at any index, so that equal texts tie; a matrix product does not guarantee
    that.
    """
    return np.einsum("nd,d->n", texts, image)
