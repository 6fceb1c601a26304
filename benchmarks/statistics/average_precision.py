"""Average precision of low scores as detectors of the captions that people rated lower."""

from __future__ import annotations

import numpy as np

from .contract import RatedScores, Statistic, UndefinedStatistic, dot


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
