"""Correlations of scores and ratings over all rows: Pearson's r, Spearman's ρ, Kendall's τ-b and τ-c."""

from __future__ import annotations

import math

import numpy as np

from .concordance import PairCounts
from .contract import RatedScores, Statistic, UndefinedStatistic
from .sums import dot


class Pearson(Statistic):
    """Pearson's correlation coefficient."""

    label = "PCC"

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return r, from -1 to 1."""
        _require_two_rows(weights)
        drawn = weights > 0
        weights = weights[drawn]
        scores = _centred(rated.scores[drawn], weights, "scores")
        human = _centred(rated.human[drawn], weights, "ratings")
        return _cosine(scores, human, weights)


class Spearman(Statistic):
    """Spearman's rank correlation: Pearson's r of the ranks, tied rows sharing their mean rank."""

    label = "ρ"

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return ρ, from -1 to 1."""
        _require_two_rows(weights)
        rows = rated.concordance
        cells = rows.cell_weights(weights)
        scores = _centred_ranks(rows.score_weights(cells), "scores")
        human = _centred_ranks(rows.human_weights(cells), "ratings")
        return _cosine(scores[rows.score_code], human[rows.human_code], cells)


class KendallB(Statistic):
    """Kendall's τ-b, which forgives ties on both sides: ``(C-D) / sqrt((n0-n1)(n0-n2))``.

    ``n0`` are all pairs, ``n1`` those of equal score and ``n2`` those of equal rating; equal to
    ``scipy.stats.kendalltau(scores, human, variant="b")``.
    """

    label = "τ-b"

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return τ-b, from -1 to 1."""
        pairs = _count(rated, weights)
        untied = math.sqrt(pairs.pairs - pairs.tied_scores) * math.sqrt(pairs.pairs - pairs.tied_human)
        return _clip(pairs.balance / untied)


class KendallC(Statistic):
    """Kendall's (Stuart's) τ-c, which does not forgive ties of the scores: ``2m(C-D) / (n²(m-1))``.

    ``m`` is the smaller of the number of distinct scores and of distinct ratings; equal to
    ``scipy.stats.kendalltau(scores, human, variant="c")``.
    """

    label = "τ-c"

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return τ-c, from -1 to 1."""
        pairs = _count(rated, weights)
        classes = min(pairs.distinct_scores, pairs.distinct_human)
        rows = int(np.sum(weights))
        return _clip(2 * classes * pairs.balance / (rows**2 * (classes - 1)))


def _count(rated: RatedScores, weights: np.ndarray) -> PairCounts:
    _require_two_rows(weights)
    pairs = rated.concordance.counts(weights)
    if pairs.distinct_scores < 2:
        raise UndefinedStatistic("all scores are equal")
    if pairs.distinct_human < 2:
        raise UndefinedStatistic("all ratings are equal")
    return pairs


def _require_two_rows(weights: np.ndarray) -> None:
    if np.sum(weights) < 2:
        raise UndefinedStatistic("fewer than 2 rows")


def _centred(values: np.ndarray, weights: np.ndarray, what: str) -> np.ndarray:
    """Return ``values`` less their weighted mean, scaled so that squares neither overflow nor vanish."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        raise UndefinedStatistic(f"all {what} are equal")
    if math.isinf(high - low):
        raise UndefinedStatistic(f"the {what} spread too widely for floating point")
    # Moved and scaled to 0..1 first: the mean of large, nearly equal values would lose their differences.
    scaled = (values - low) / (high - low)
    return scaled - dot(weights, scaled) / float(np.sum(weights))


def _centred_ranks(weights: np.ndarray, what: str) -> np.ndarray:
    """Return the mean rank of each distinct value (ascending, with its weight), less the mean of all."""
    if np.count_nonzero(weights) < 2:
        raise UndefinedStatistic(f"all {what} are equal")
    return np.cumsum(weights) - (weights + weights.sum()) / 2


def _cosine(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> float:
    lengths = math.sqrt(dot(weights * first, first)) * math.sqrt(dot(weights * second, second))
    return _clip(dot(weights * first, second) / lengths)


def _clip(value: float) -> float:
    # Rounding can pass ±1 by one unit in the last place.
    return max(-1.0, min(1.0, value))
