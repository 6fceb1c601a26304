"""1-R² as the DetailCaps paper computes it."""

from __future__ import annotations

import math

import numpy as np

from .contract import RatedScores, Statistic, UndefinedStatistic, dot


class OneMinusR2(Statistic):
    """Squared error of the scores against the ratings, over the spread of the **scores**.

    ``Σ(human - score)² / Σ(score - mean(score))²``. The textbook ``1 - R²`` has the spread of the ratings in
    the denominator; only this form gives the size of the numbers that the paper prints (CIDEr, whose
    scores of long captions hardly vary, reaches 10^7 there). Scores are not rescaled.
    """

    label = "1-R²"
    higher_is_better = False
    range = (0.0, math.inf)

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return 1-R², 0 or more."""
        if np.sum(weights) < 2:
            raise UndefinedStatistic("fewer than 2 rows")
        drawn = rated.scores[weights > 0]
        if drawn.min() == drawn.max():
            raise UndefinedStatistic("all scores are equal")
        mean = dot(weights, rated.scores) / float(np.sum(weights))
        spread = dot(weights, (rated.scores - mean) ** 2)
        error = dot(weights, (rated.human - rated.scores) ** 2)
        if spread == 0 or not np.isfinite(error / spread):
            raise UndefinedStatistic("the scores differ too little for a finite ratio")
        return error / spread

    def influence(self, rated: RatedScores) -> np.ndarray:
        """Return what a row adds to the squared error, less the ratio of what it adds to the spread."""
        value = self.value(rated, np.ones(len(rated)))
        spread = (rated.scores - rated.scores.mean()) ** 2
        return ((rated.human - rated.scores) ** 2 - value * spread) / float(spread.sum())
