"""A statistic of some categories: its value in each, and their unweighted mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...statistics.contract import RatedScores, Statistic, UndefinedStatistic

_NO_ROW = "a category has no row with scores"


class OfCategories(Statistic):
    """The unweighted mean over categories of a statistic of the category's own rows.

    Resamples draw images of all categories, so that those of several have the same images in each.

    Args:
        statistic: The statistic.
        categories: The categories that are averaged, by number.
    """

    def __init__(self, statistic: Statistic, categories: Sequence[int]) -> None:
        self.statistic, self.categories = statistic, tuple(categories)
        self.label = statistic.label
        self.higher_is_better = statistic.higher_is_better
        self.range = statistic.range
        self.is_correlation = statistic.is_correlation
        self.needs = statistic.needs

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return the mean over the categories.

        Raises:
            UndefinedStatistic: As of the statistic, in any of them; or one has no row.
        """
        values: list[float] = []
        for rows, part in self._parts(rated):
            of_part = weights[rows]
            if not of_part.any():
                raise UndefinedStatistic(_NO_ROW)
            of_part.flags.writeable = False
            values.append(self.statistic.value(part, of_part))
        return float(np.mean(values))

    def influence(self, rated: RatedScores) -> np.ndarray | None:
        """Return, of each row, its influence on its category, shared among the categories."""
        found = np.zeros(len(rated))
        for rows, part in self._parts(rated):
            of_part = self.statistic.influence(part)
            if of_part is None:
                return None
            found[rows] = of_part / len(self.categories)
        return found

    def p_value(self, rated: RatedScores) -> float | None:
        """Return that of a single category."""
        parts = self._parts(rated)
        return self.statistic.p_value(parts[0][1]) if len(parts) == 1 else None

    def remark(self, rated: RatedScores) -> str:
        """Return that of a single category."""
        parts = self._parts(rated)
        return self.statistic.remark(parts[0][1]) if len(parts) == 1 else ""

    def rows(self, rated: RatedScores) -> int:
        """Return how many rows its categories have."""
        return sum(len(rated.by_category[one][1]) for one in self.categories if one in rated.by_category)

    def _parts(self, rated: RatedScores) -> list[tuple[np.ndarray, RatedScores]]:
        """Return which rows each category has, and these."""
        if any(one not in rated.by_category for one in self.categories):
            raise UndefinedStatistic(_NO_ROW)
        return [rated.by_category[one] for one in self.categories]
