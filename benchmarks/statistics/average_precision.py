"""Average precision: how far the lowest scores find the captions that people rated lower."""

from __future__ import annotations

import numpy as np

from .contract import RatedScores, Statistic, UndefinedStatistic, dot


class AveragePrecision(Statistic):
    """Mean precision with which low scores find the rows of the lower of two ratings.

    Rows are gone through from the least score on, those of one score together: each row of the lower rating counts the
    share of such rows among all that have its score or less. That is ``sklearn.metrics.average_precision_score`` of
    the lower rating by the negative score. By chance it is their share of all rows, which is remarked. Scores are taken
    as they are: of a metric of which less is better (CHAIR) it says how far its best scores find these rows.

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
        """Return what scores reach that know nothing."""
        return f"by chance {np.mean(rated.human == rated.human.min()):.1%}"
