"""The rows that statistics see, made of rated samples and their scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .contract import RatedScores


def rated_rows(
    images: Sequence[str],
    ratings: Sequence[Sequence[float]],
    scores: np.ndarray,
    raters: str,
    decimals: int | None = None,
) -> list[RatedScores]:
    """Return one set of rows, or one a rater; samples without a score are left out.

    Args:
        images: ``[samples]`` image of each sample.
        ratings: ``[samples]`` its ratings, each a row; NaN keeps the place of a rater who gave none.
        scores: ``[samples]`` its score; not finite where it has none.
        raters: The task's ``protocol.raters``; ``per_rater_mean`` gives one set of rows a rater.
        decimals: The task's ``protocol.round_scores``; None rounds nothing.
    """
    if decimals is not None:
        scores = np.round(scores, decimals)
    numbers: dict[str, int] = {}
    group_of_sample = [numbers.setdefault(image, len(numbers)) for image in images]
    rows = [
        (rater, scores[number], rating, group_of_sample[number])
        for number, rated in enumerate(ratings)
        if math.isfinite(scores[number])
        for rater, rating in enumerate(rated)
        if not math.isnan(rating)
    ]
    if not rows:
        empty = np.empty(0)
        return [RatedScores(empty, empty, empty.astype(np.int64))]
    table = np.asarray(rows, dtype=np.float64)
    selected: list[Any] = [slice(None)]
    if raters == "per_rater_mean":
        selected = [table[:, 0] == rater for rater in np.unique(table[:, 0])]
    return [RatedScores(table[r, 1], table[r, 2], table[r, 3].astype(np.int64)) for r in selected]
