"""Greedy matching of the tokens of a caption with frames or with the tokens of references, by cosine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


class Undefined(Exception):  # noqa: N818 - what the caller is told of is a reason, not an error
    """An item that cannot be scored; its text says why."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text.

    Attributes:
        vectors: ``[t, d]`` of norm 1, from the start to the end token.
        weights: ``[t]``, of sum 1.
    """

    vectors: np.ndarray
    weights: np.ndarray


def match_frames(caption: Tokens, frames: np.ndarray) -> np.ndarray:
    """Return precision, recall, F1 and coarse ``[4]`` of a caption and a video.

    Source: Shi et al., CVPR 2022, section 3; ``emscore/utils.py`` ``vid_greedy_cos`` and ``em_cos_score``.

    Args:
        caption: The caption.
        frames: ``[f, d]`` of norm 1.

    Raises:
        Undefined: Precision and recall are opposite.
    """
    cosines = caption.vectors @ frames.T
    precision = cosines.max(axis=1) @ caption.weights
    recall = cosines.max(axis=0).mean(dtype=np.float64)
    video = frames.mean(axis=0)
    coarse = caption.vectors[-1] @ (video / np.linalg.norm(video))
    return _defined(np.array([precision, recall, _f1(precision, recall), coarse], dtype=np.float64))


def match_references(caption: Tokens, references: Sequence[Tokens]) -> np.ndarray:
    """Return precision, recall, F1 and coarse ``[4]``, each the largest over the references.

    Source: Shi et al., CVPR 2022, section 3; ``emscore/utils.py`` ``refs_greedy_cos``, ``scorer.py``.

    Args:
        caption: The caption.
        references: One or more.

    Raises:
        Undefined: Precision and recall of a reference are opposite.
    """
    lengths = [len(one.weights) for one in references]
    starts = np.cumsum([0, *lengths[:-1]])
    cosines = caption.vectors @ np.concatenate([one.vectors for one in references]).T
    precision = caption.weights @ np.maximum.reduceat(cosines, starts, axis=1)
    weights = np.concatenate([one.weights for one in references])
    recall = np.add.reduceat(cosines.max(axis=0) * weights, starts)
    coarse = np.array([one.vectors[-1] for one in references]) @ caption.vectors[-1]
    parts = np.array([precision, recall, _f1(precision, recall), coarse], dtype=np.float64)
    return _defined(parts.max(axis=1))


def _f1(precision: np.ndarray, recall: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return 2 * precision * recall / (precision + recall)


def _defined(parts: np.ndarray) -> np.ndarray:
    if not np.isfinite(parts).all():
        raise Undefined("precision and recall have no harmonic mean, or the frames no mean direction")
    return parts
