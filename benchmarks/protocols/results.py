"""Scored metrics, and the numbers that a protocol makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ...metrics import MEAN, Aggregate, Metric, Scores, add_sums
from ...metrics.exact_sums import exact_sums, totals

if TYPE_CHECKING:
    from ..statistics.contract import Interval
    from ..statistics.influence import Influence, Spread
    from ..statistics.resampling import Value
    from .job import Job

CHANCE = "chance"
"""Of what a result would be without the image: the name of a draw among the answers."""


def shown_times(scale: float, ends: tuple[float, float]) -> float:
    """Return what tables show values between two ends times.

    That is the task's scale, but 1 where there is no upper end: a count, or a ratio of errors, is no percentage.
    """
    return scale if math.isfinite(ends[1]) else 1.0


@dataclass(frozen=True)
class ScoredMetric:
    """A metric with its scores of the items, or the reason why it has none.

    Attributes:
        name: How the metric is called.
        metric: The metric.
        aggregation: How its system-level value is made.
        scores: Those of the items; of parts, only what is needed. None where it failed.
        error: Why it did.
        sums: What the system-level value of all items is made of; None where it must see all scores.
        terms: Gives what items add to the sums (``Aggregate.terms``), where there are sums: ``[m, k]`` of some after
            the other.
    """

    name: str
    metric: Metric
    aggregation: str
    scores: Scores | None
    error: str = ""
    sums: Mapping[str, np.ndarray] | None = None
    terms: Callable[[], Iterator[np.ndarray]] | None = None

    @property
    def aggregate(self) -> Aggregate:
        """How the system-level value is made of items."""
        return self.metric if self.aggregation == "corpus" else MEAN

    def value_of_all(self, weights: np.ndarray) -> float | None:
        """Return the system-level value of all items that have a score; None if it is not defined.

        Args:
            weights: ``[n]`` how often each item counts in the run.
        """
        if self.scores is None or self.sums is None:
            return self.system_value(weights)
        value = self.aggregate.value(self.sums)
        return value if math.isfinite(value) else None

    def system_value(self, weights: np.ndarray) -> float | None:
        """Return the system-level value of the items that have a score; None if none has, or it is not finite.

        Args:
            weights: ``[n]`` how often each item counts.
        """
        if self.scores is None:
            return None
        usable = np.isfinite(self.scores.values)
        weights = np.where(usable, weights, 0.0)
        if not weights.any():
            return None
        value = self.aggregate.corpus(self.scores, weights)
        return value if math.isfinite(value) else None

    def value_of_weights(self, members: np.ndarray) -> Value:
        """Return what gives the system-level value for any weights of the items; it holds what that is made of.

        Args:
            members: ``[n]`` whether an item counts.
        """
        if self.terms is None:
            return lambda weights: self._defined(self.system_value(weights * members))
        from ..statistics.resampling import OfSums

        terms = np.concatenate(list(self.terms()))
        return OfSums(self._pool, terms if members.all() else terms * members[:, None])

    def influence(self, members: np.ndarray) -> Influence | None:
        """Return what each item adds to the system-level value, of a few items at a time; None if it has no sums.

        Args:
            members: ``[n]`` whether an item counts.
        """
        if self.terms is None:
            return None
        from ..statistics.influence import influence_of_sums

        # Exact, and so the same however the items are cut.
        sums = add_sums([{"": exact_sums(piece, np.ones(len(piece)))} for piece in self._terms_of(members)])
        return influence_of_sums(self._pool, totals(sums[""]), self._terms_of(members))

    def _terms_of(self, members: np.ndarray) -> Iterator[np.ndarray]:
        first = 0
        for piece in self.terms() if self.terms else ():
            yield piece * members[first : first + len(piece), None]
            first += len(piece)

    def _pool(self, totals: np.ndarray) -> float:
        return self._defined(self.aggregate.pool(totals))

    def _defined(self, value: float | None) -> float:
        if value is None or not math.isfinite(value):
            from ..statistics.contract import UndefinedStatistic

            raise UndefinedStatistic(self.aggregate.undefined)
        return value


@dataclass(frozen=True)
class Result:
    """One number of a run.

    Attributes:
        metric: Name of the metric.
        statistic: Name of the statistic; ``mean`` or ``corpus`` for system-level values.
        label: Both as papers print them.
        value: The number; None if undefined, with the reason.
        n: Rows behind it.
        higher_is_better: Whether more is better; None where that says nothing (``Metric.has_direction``).
        scale: Tables show the value times this.
        interval: Confidence interval; None if none was asked for.
        reason: Why there is no value.
        category: The part of the data set that it is of; empty for all of it.
        alone: What the number would be without a look at the image, by rule.
        p: Of an exact test that the statistic has; None where it has none.
        remark: What is to be said beside the number.
        resampled: How the number scatters over images, where it can be held against that of other metrics.
    """

    metric: str
    statistic: str
    label: tuple[str, str]
    value: float | None
    n: int
    higher_is_better: bool | None
    scale: float = 1.0
    interval: Interval | None = None
    reason: str = ""
    category: str = ""
    alone: Mapping[str, float] = field(default_factory=dict[str, float])
    p: float | None = None
    remark: str = ""
    resampled: Spread | None = field(default=None, compare=False, repr=False)

    @property
    def best_alone(self) -> tuple[str, float] | None:
        """The rule, of those that look at texts and not just draw, that gets most without the image, and how much."""
        rules = [(rule, value) for rule, value in self.alone.items() if rule != CHANCE]
        return max(rules, key=lambda one: one[1], default=None)


def estimated_result(
    job: Job,
    metric: str,
    statistic: str,
    label: tuple[str, str],
    value: Value,
    images: np.ndarray,
    influence: Callable[[], np.ndarray] | None,
    *,
    n: int,
    higher_is_better: bool = True,
    reason: str = "",
    category: str = "",
) -> Result:
    """Return a number of rows with its interval over images; without a value, but with the reason, if undefined.

    Args:
        job: The run.
        metric: As of :class:`Result`; ``statistic``, ``label``, ``n``, ``higher_is_better`` and ``category``, too.
        statistic: See there.
        label: See there.
        value: Gives the number for weights of the rows; may raise ``UndefinedStatistic``.
        images: ``[rows]`` integers: the image of each.
        influence: Gives the ``[rows]`` influence of each row on the number; None where it is not known.
        n: See there.
        higher_is_better: See there.
        reason: Why there is no number, where that is known.
        category: See there.
    """
    from ..statistics.contract import UndefinedStatistic

    number = interval = None
    try:
        if not reason:
            number = float(value(np.ones(len(images))))
            interval = job.settings.interval(value, images, influence)
    except UndefinedStatistic as error:
        reason = str(error)
    return Result(metric, statistic, label, number, n, higher_is_better, job.task.scale, interval, reason, category)


def expected_result(metric: ScoredMetric, statistic: str, higher_is_better: bool, category: str = "") -> Result:
    """Return a result of which no more is known than what it will be of."""
    label = (metric.name, statistic)
    return Result(metric.name, statistic, label, None, 0, higher_is_better, category=category)
