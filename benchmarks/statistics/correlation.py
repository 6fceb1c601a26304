"""Agreement of scores and ratings over all rows: Pearson's r, Spearman's ρ, Kendall's τ-b and τ-c, 1-R², AP."""

import math

import numpy as np

from .concordance import PairCounts
from .contract import RatedScores, Statistic, UndefinedStatistic, dot


class Pearson(Statistic):
    """Pearson's correlation coefficient."""

    label = "PCC"
    is_correlation = True

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return r, from -1 to 1."""
        _require_two_rows(weights)
        drawn = weights > 0
        weights = weights[drawn]
        scores = _centred(rated.scores[drawn], weights, "scores")
        human = _centred(rated.human[drawn], weights, "ratings")
        return _cosine(scores, human, weights)

    def influence(self, rated: RatedScores) -> np.ndarray:
        """Return, of standardised scores ``u`` and ratings ``v``, ``(u v - r (u² + v²) / 2) / n`` (Devlin 1975)."""
        weights = np.ones(len(rated))
        value = self.value(rated, weights)
        u, v = (
            values / math.sqrt(dot(values, values))
            for values in (_centred(rated.scores, weights, "scores"), _centred(rated.human, weights, "ratings"))
        )
        return u * v - value * (u**2 + v**2) / 2


class Spearman(Statistic):
    """Spearman's rank correlation: Pearson's r of the ranks, tied rows sharing their mean rank."""

    label = "ρ"
    is_correlation = True

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return ρ, from -1 to 1."""
        _require_two_rows(weights)
        rows = rated.concordance
        cells = rows.cell_weights(weights)
        scores = _centred_ranks(rows.score_weights(cells), "scores")
        human = _centred_ranks(rows.human_weights(cells), "ratings")
        return _cosine(scores[rows.score_code], human[rows.human_code], cells)

    def influence(self, rated: RatedScores) -> np.ndarray:
        """Return that of Pearson's r of the ranks, with what a row adds to the ranks of all others."""
        value = self.value(rated, np.ones(len(rated)))
        rows = rated.concordance
        cells, total = rows.rows_of_cell, float(len(rated))
        sides = [(rows.score_code, rows.score_weights(cells)), (rows.human_code, rows.human_weights(cells))]
        ranks = [(np.cumsum(by_level) - by_level / 2)[code] for code, by_level in sides]

        def moved(side: int, other: int) -> np.ndarray:
            """Return, of each cell, by how much ``Σ rank · other rank`` grows as the ranks on one side do."""
            code, by_level = sides[side]
            sums = np.bincount(code, cells * ranks[other], minlength=len(by_level))
            # Ranks of greater values grow by a whole place, those of equal ones by half.
            return (sums.sum() - np.cumsum(sums) + sums / 2)[code]

        centre = 0.75 * total**2
        both = ranks[0] * ranks[1] + moved(0, 1) + moved(1, 0) - centre
        squares = [ranks[side] ** 2 + 2 * moved(side, side) - centre for side in (0, 1)]
        spreads = [dot(cells, ranks[side] ** 2) - total**3 / 4 for side in (0, 1)]
        of_cell = both / math.sqrt(spreads[0] * spreads[1])
        of_cell -= value / 2 * (squares[0] / spreads[0] + squares[1] / spreads[1])
        return of_cell[rows.cell_of_row]


class KendallB(Statistic):
    """Kendall's τ-b, which forgives ties on both sides: ``(C-D) / sqrt((n0-n1)(n0-n2))``.

    ``n0`` are all pairs, ``n1`` those of equal score and ``n2`` those of equal rating; equal to
    ``scipy.stats.kendalltau(scores, human, variant="b")``.
    """

    label = "τ-b"
    is_correlation = True

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return τ-b, from -1 to 1."""
        pairs = _counts(rated, weights)
        untied = math.sqrt(pairs.pairs - pairs.tied_scores) * math.sqrt(pairs.pairs - pairs.tied_human)
        return _clip(pairs.balance / untied)

    def influence(self, rated: RatedScores) -> np.ndarray:
        """Return what a row's own pairs do to ``C-D`` and to both numbers of untied pairs."""
        pairs = _counts(rated, np.ones(len(rated)))
        rows = rated.concordance
        cells = rows.rows_of_cell
        untied = [
            (pairs.pairs - tied, len(rated) - by_level[code])
            for tied, by_level, code in (
                (pairs.tied_scores, rows.score_weights(cells), rows.score_code),
                (pairs.tied_human, rows.human_weights(cells), rows.human_code),
            )
        ]
        (scores, of_score), (human, of_human) = untied
        scale = math.sqrt(scores) * math.sqrt(human)
        of_cell = rows.balance_of_cell - pairs.balance / 2 * (of_score / scores + of_human / human)
        return (of_cell / scale)[rows.cell_of_row]


class KendallC(Statistic):
    """Kendall's (Stuart's) τ-c, which does not forgive ties of the scores: ``2m(C-D) / (n²(m-1))``.

    ``m`` is the smaller of the number of distinct scores and of distinct ratings; equal to
    ``scipy.stats.kendalltau(scores, human, variant="c")``.
    """

    label = "τ-c"
    is_correlation = True

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return τ-c, from -1 to 1."""
        pairs = _counts(rated, weights)
        classes = min(pairs.distinct_scores, pairs.distinct_human)
        return _clip(2 * classes * pairs.balance / (pairs.rows**2 * (classes - 1)))

    def influence(self, rated: RatedScores) -> np.ndarray:
        """Return what a row's own pairs do to ``C-D``, and the row to ``n²``; ``m`` stays as it is."""
        pairs = _counts(rated, np.ones(len(rated)))
        classes, n = min(pairs.distinct_scores, pairs.distinct_human), len(rated)
        balance = rated.concordance.balance_of_cell[rated.concordance.cell_of_row]
        return 2 * classes / (classes - 1) * (balance - 2 * pairs.balance / n) / n**2


def _counts(rated: RatedScores, weights: np.ndarray) -> PairCounts:
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


def _centred(values: np.ndarray, weights: np.ndarray, subject: str) -> np.ndarray:
    """Return ``values`` less their weighted mean, scaled so that squares neither overflow nor vanish."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        raise UndefinedStatistic(f"all {subject} are equal")
    if math.isinf(high - low):
        raise UndefinedStatistic(f"the {subject} spread too widely for floating point")
    # Moved and scaled to 0..1 first: the mean of large, nearly equal values would lose their differences.
    scaled = (values - low) / (high - low)
    return scaled - dot(weights, scaled) / float(np.sum(weights))


def _centred_ranks(weights: np.ndarray, subject: str) -> np.ndarray:
    """Return the mean rank of each distinct value (ascending, with its weight), less the mean of all."""
    if np.count_nonzero(weights) < 2:
        raise UndefinedStatistic(f"all {subject} are equal")
    return np.cumsum(weights) - (weights + weights.sum()) / 2


def _cosine(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> float:
    lengths = math.sqrt(dot(weights * first, first)) * math.sqrt(dot(weights * second, second))
    return _clip(dot(weights * first, second) / lengths)


def _clip(value: float) -> float:
    # Rounding can pass ±1 by one unit in the last place.
    return max(-1.0, min(1.0, value))


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


class AveragePrecision(Statistic):
    """Mean precision with which low scores find the rows of the lower of two ratings.

    Equal to ``sklearn.metrics.average_precision_score`` of the lower rating by the negative score. Each row of the
    lower rating counts the precision among all rows with its score or less. The chance level is the share of such rows,
    which the remark gives. Scores keep their sign: for a metric where less is better (CHAIR), its best scores are the
    detectors.

    Source: Petryk et al., NAACL 2024, section 4 (ALOHa), where the lower rating is that something is made up.
    """

    label = "AP"
    range = (0.0, 1.0)

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return the average precision, above 0 and at most 1.

        Raises:
            UndefinedStatistic: There are not two ratings.
        """
        rows = rated.concordance
        cells = rows.cell_weights(weights)
        by_rating = rows.human_weights(cells)
        if len(by_rating) > 2:
            raise UndefinedStatistic(f"there are {len(by_rating)} ratings, and average precision takes 2")
        if np.count_nonzero(by_rating) < 2:
            raise UndefinedStatistic("all ratings are equal")
        lower = rows.score_weights(cells * (rows.human_code == 0))
        has_lower = lower > 0
        precision = np.cumsum(lower)[has_lower] / np.cumsum(rows.score_weights(cells))[has_lower]
        return dot(lower[has_lower], precision) / float(by_rating[0])

    def remark(self, rated: RatedScores) -> str:
        """Return the chance level."""
        return f"by chance {np.mean(rated.human == rated.human.min()):.1%}"
