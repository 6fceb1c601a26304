"""Paired differences of metrics on the same rows: interval and p, by the bootstrap over images.

All metrics see the same resamples of images, so the common effect of an image cancels in the difference. So a
difference can be significant where the two unpaired intervals overlap.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from . import Draws
from .bootstrap import finite_value
from .contract import Interval, RatedScores, Statistic, UndefinedStatistic, dot, require_finite
from .influence import Spread, WeightedValue, influence_of_mean, spread_of_difference, spreads_of_all, spreads_of_values


@dataclass(frozen=True)
class Difference:
    """A difference of two numbers.

    Attributes:
        value: First minus second.
        interval: Percentile interval of the difference.
        p: Two-sided, of the hypothesis that there is no difference; None where the resamples are too often
            undefined (see ``interval.reason``).
    """

    value: float
    interval: Interval
    p: float | None


def paired_bootstrap(
    statistic: Statistic, rated: Mapping[str, Sequence[RatedScores]], draws: Draws
) -> dict[str, Spread]:
    """Return a statistic of each metric, on all rows and as it scatters over the same images.

    Args:
        statistic: The statistic.
        rated: Metric to its rows; one item a rater if there are several, whose values are averaged. Ratings
            and groups are those of the same rows for all metrics.
        draws: The resamples.

    Raises:
        ValueError: The metrics were not scored on the same rows.
        UndefinedStatistic: The statistic has no value for a metric; the message names the metric.
    """
    first = next(iter(rated.values()))
    for other in rated.values():
        same = len(first) == len(other) and all(
            np.array_equal(part.human, twin.human) and np.array_equal(part.groups, twin.groups)
            for part, twin in zip(first, other, strict=True)
        )
        if not same:
            raise ValueError("paired metrics need the same rows in the same order")
    for name, rows in rated.items():
        try:
            for part in rows:
                finite_value(statistic.value, part, np.ones(len(part)))
        except UndefinedStatistic as error:
            raise UndefinedStatistic(f"'{name}': {error}") from error
    spreads = spreads_of_all({name: ({"": statistic}, rows) for name, rows in rated.items()}, draws)
    return {name: spreads[name][""] for name in rated}


def paired_means(values: Mapping[str, np.ndarray], groups: np.ndarray, draws: Draws) -> dict[str, Spread]:
    """Return the mean of each metric's values (``[n]``), on all rows and as it scatters over the same images.

    Args:
        values: Metric to its values, those of the same rows for all metrics.
        groups: ``[n]`` integers: which image a row belongs to.
        draws: The resamples.

    Raises:
        UndefinedStatistic: A value is not finite; the message names the metric.
    """
    means: dict[str, WeightedValue] = {}
    for name, column in values.items():
        require_finite(column, f"values of '{name}'")

        def mean(weights: np.ndarray, column: np.ndarray = column) -> float:
            return dot(weights, column) / float(weights.sum())

        means[name] = mean, partial(influence_of_mean, column, np.ones(len(column)))
    return paired_values(means, groups, draws)


def paired_values(values: Mapping[str, WeightedValue], groups: np.ndarray, draws: Draws) -> dict[str, Spread]:
    """Return numbers of the same rows, on all rows and as they scatter over the same images.

    Args:
        values: Name to the number.
        groups: ``[n]`` integers: which image a row belongs to.
        draws: The resamples.

    Raises:
        UndefinedStatistic: A number has no value.
    """
    for value, _ in values.values():
        finite_value(value, np.ones(len(groups)))
    return spreads_of_values(values, groups, draws)


def difference(first: Spread, second: Spread, level: float = 0.95) -> Difference:
    """Return the difference of two numbers whose spreads were made together.

    The p is that of :meth:`.bootstrap.Resamples.p_of`, or of :meth:`.influence.Influence.p_of`.
    """
    spread = spread_of_difference(first, second)
    interval = spread.interval(level)
    if spread.fault():
        return Difference(spread.value, interval, None)
    # Equal up to rounding is equal: a metric and its multiple differ by nothing, and get p = 1.
    rounding = 1e-12 * max(abs(first.value), abs(second.value))
    return Difference(spread.value, interval, spread.p_of(rounding))


def p_of_mean_differences(values: np.ndarray) -> np.ndarray:
    """Return the p of each pair of rows, of the null hypothesis that their means are equal, by the paired t test.

    The result does not depend on the machine: values become whole multiples of a small part of their largest, whose
    sums are exact in any order.

    Args:
        values: ``[rows, n]`` finite scores of the same captions.

    Returns:
        ``[rows, rows]``, symmetric, 1 on the diagonal.

    Raises:
        UndefinedStatistic: A score is not finite.
    """
    # There may be many pairs, and SciPy takes all at once.
    from scipy.special import stdtr

    require_finite(values.ravel(), "scores")
    rows, n = values.shape
    largest = float(np.abs(values).max(initial=0.0))
    if rows < 2 or n < 2 or largest == 0:
        return np.ones((rows, rows))
    # All sums stay below 2^53, so they are exact; not by BLAS, whose threads wait for one another.
    whole = np.rint(values / largest * 2.0 ** ((51 - n.bit_length()) // 2))
    products = np.empty((rows, rows))
    for row in range(rows):
        products[row, row:] = products[row:, row] = np.einsum("ij,j->i", whole[row:], whole[row])
    squares = np.diagonal(products)
    sums = whole.sum(axis=1)
    apart = np.abs(sums[:, None] - sums[None, :])
    scatter = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * products - apart**2 / n, 0.0))
    # Without scatter every difference is certain.
    t = np.divide(apart * math.sqrt((n - 1) / n), scatter, out=np.where(apart > 0, np.inf, 0.0), where=scatter > 0)
    return 2 * stdtr(n - 1, -t)
