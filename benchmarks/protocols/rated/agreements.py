"""How the scores of a metric agree with ratings: each statistic, of each category and of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...statistics.contract import RatedScores, Statistic, UndefinedStatistic, finite_value
from ...statistics.influence import Spread
from ..job import Job
from ..results import Result, ScoredMetric, shown_times
from .categories import OfCategories


@dataclass(frozen=True)
class Measured:
    """A statistic of rated rows: its value, or the reason why it has none.

    Attributes:
        name: Name of the statistic, with its aspect.
        category: The part of the data that it is of; empty for all of it.
        statistic: What gives the value.
        value: The value; None if it has none.
        reason: Why it has none.
        n: How many rows it is of.
        p: Of the exact test that it has; None where it has none.
        remark: What is to be said beside it.
    """

    name: str
    category: str
    statistic: Statistic
    value: float | None
    reason: str
    n: int
    p: float | None = None
    remark: str = ""


def measure(wanted: tuple[str, str, Statistic], rated: Sequence[RatedScores], error: str) -> Measured:
    """Return a statistic of rows, the mean over raters where these have rows of their own.

    Args:
        wanted: Name, category and the statistic.
        rated: The rows, one item a rater; empty where the metric has no scores.
        error: Why it has none.
    """
    name, category, statistic = wanted
    n = sum(statistic.rows(one) if isinstance(statistic, OfCategories) else len(one) for one in rated)
    if not rated:
        return Measured(name, category, statistic, None, error, n)
    try:
        of_raters = [finite_value(statistic.value, one, np.ones(len(one))) for one in rated]
    except UndefinedStatistic as undefined:
        return Measured(name, category, statistic, None, str(undefined), n)
    value = float(np.mean(of_raters))
    if len(rated) > 1:
        return Measured(name, category, statistic, value, "", n)
    p, remark = statistic.p_value(rated[0]), statistic.remark(rated[0])
    return Measured(name, category, statistic, value, "", n, p, remark)


@dataclass(frozen=True)
class Agreements:
    """The statistics of a metric, of one aspect of the ratings."""

    scored: ScoredMetric
    aspect: str
    measured: Sequence[Measured]

    @property
    def key(self) -> str:
        """A name that no other metric and aspect has: names of aspects have no dot."""
        return f"{self.aspect}.{self.scored.name}"

    @property
    def defined(self) -> dict[str, Statistic]:
        """The statistics that have a value, by their place."""
        return {str(at): one.statistic for at, one in enumerate(self.measured) if one.value is not None}

    def results(self, job: Job, spread: Mapping[str, Spread]) -> list[Result]:
        """Return the results.

        Args:
            job: The run.
            spread: How the statistics scatter, by the names of ``defined``.
        """
        return [self._result(job, one, spread.get(str(at))) for at, one in enumerate(self.measured)]

    def _result(self, job: Job, one: Measured, spread: Spread | None) -> Result:
        return Result(
            self.scored.name,
            one.name,
            (
                self.scored.metric.label,
                " ".join(filter(None, (one.statistic.label, self.aspect, one.category))),
            ),
            one.value,
            one.n,
            one.statistic.higher_is_better,
            shown_times(job.task.scale, one.statistic.range),
            None if spread is None else spread.interval(job.settings.level),
            one.reason,
            one.category,
            p=one.p,
            remark=one.remark,
            resampled=spread,
        )
