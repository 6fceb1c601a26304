"""Paired differences of metrics on the same rows: interval and p, by the bootstrap over images.

All metrics see the same resamples of images, so the common effect of an image cancels in the difference. So a
difference can be significant where the two unpaired intervals overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from . import Draws
from .bootstrap import draw, finite_value
from .contract import Interval, RatedScores, Statistic, UndefinedStatistic, dot, require_finite
from .influence import Spread, influence_of_mean, spread_of_difference, spreads_of_all, spreads_of_values

MOST_RESAMPLED = 12
"""Greatest number of rows that are compared by resamples; more pairs would need too many resamples."""


@dataclass(frozen=True)
class SpreadEstimate:
    """A number, and how it scatters over images: on resamples, or by its influence function."""

    value: float
    resampled: Spread


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
) -> dict[str, SpreadEstimate]:
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
    values: dict[str, float] = {}
    for name, rows in rated.items():
        try:
            values[name] = float(np.mean([finite_value(statistic.value, part, np.ones(len(part))) for part in rows]))
        except UndefinedStatistic as error:
            raise UndefinedStatistic(f"'{name}': {error}") from error
    spreads = spreads_of_all({name: ({"": statistic}, rows) for name, rows in rated.items()}, draws)
    return {name: SpreadEstimate(value, spreads[name][""]) for name, value in values.items()}


def paired_means(values: Mapping[str, np.ndarray], groups: np.ndarray, draws: Draws) -> dict[str, SpreadEstimate]:
    """Return the mean of each metric's values (``[n]``), on all rows and as it scatters over the same images.

    Args:
        values: Metric to its values, those of the same rows for all metrics.
        groups: ``[n]`` integers: which image a row belongs to.
        draws: The resamples.

    Raises:
        UndefinedStatistic: A value is not finite; the message names the metric.
    """
    means: dict[str, tuple[Callable[[np.ndarray], float], Callable[[], np.ndarray]]] = {}
    for name, column in values.items():
        require_finite(column, f"values of '{name}'")

        def mean(weights: np.ndarray, column: np.ndarray = column) -> float:
            return dot(weights, column) / float(weights.sum())

        means[name] = mean, partial(influence_of_mean, column)
    spreads, ones = spreads_of_values(means, groups, draws), np.ones(len(groups))
    return {name: SpreadEstimate(finite_value(mean, ones), spreads[name]) for name, (mean, _) in means.items()}


def difference(first: SpreadEstimate, second: SpreadEstimate, level: float = 0.95) -> Difference:
    """Return the difference of two estimates that were made together.

    The p is that of :meth:`.bootstrap.Resamples.p_of`, or of :meth:`.influence.Influence.p_of`.
    """
    value = first.value - second.value
    spread = spread_of_difference(first.resampled, second.resampled)
    interval = spread.interval(level)
    if spread.fault():
        return Difference(value, interval, None)
    # Equal up to rounding is equal: a metric and its multiple differ by nothing, and get p = 1.
    rounding = 1e-12 * max(abs(first.value), abs(second.value))
    return Difference(value, interval, spread.p_of(value, rounding))


def p_of_mean_differences(values: np.ndarray, *, alpha: float = 0.05, seed: int = 0) -> np.ndarray:
    """Return the p of each pair of rows, of the null hypothesis that their means are equal.

    For up to :data:`MOST_RESAMPLED` rows it is that of :func:`difference`, with as many resamples as Holm's
    correction needs to find a difference, and never fewer than 1,000. For more, whose resamples would be
    hundreds of thousands, it is the normal approximation: a bootstrap mean of ``n`` differences has the
    standard error ``sqrt(Σ(d - mean d)²) / n`` (Efron & Tibshirani 1993, eq. 5.12).

    The result does not depend on the machine: values become whole multiples of a small part of their largest, whose
    sums are exact in any order.

    Args:
        values: ``[rows, n]`` finite scores of the same captions.
        alpha: The level of the corrected tests.
        seed: Seed of the draws, which are those of :func:`paired_means` with a group a caption.

    Returns:
        ``[rows, rows]``, symmetric, 1 on the diagonal.

    Raises:
        UndefinedStatistic: A score is not finite.
    """
    require_finite(values.ravel(), "scores")
    rows, n = values.shape
    ps = np.ones((rows, rows))
    largest = float(np.abs(values).max(initial=0.0))
    if rows < 2 or n < 2 or largest == 0:
        return ps
    if rows > MOST_RESAMPLED:
        return _normal_ps(values / largest)
    whole = np.rint(values / largest * 2.0 ** min(32, 52 - n.bit_length()))
    pairs = rows * (rows - 1) // 2
    resamples = max(1000, 4 * math.ceil(pairs / alpha))
    drawn = _draws(n, resamples, seed)
    sums = np.concatenate([drawn[at : at + 256].astype(np.float64) @ whole.T for at in range(0, resamples, 256)])
    observed = whole.sum(axis=1)
    for row in range(rows - 1):
        d = observed[row] - observed[row + 1 :]
        scatter = np.abs(sums[:, row, None] - sums[:, row + 1 :] - d)
        ps[row, row + 1 :] = (1 + np.count_nonzero(scatter >= np.abs(d), axis=0)) / (1 + resamples)
    return np.minimum(ps, ps.T)


def _normal_ps(values: np.ndarray) -> np.ndarray:
    """Return the p by the normal approximation for ``[rows, n]`` values of -1 to 1."""
    rows, n = values.shape
    # All sums stay below 2^53, so they are exact; not by BLAS, whose threads wait for one another.
    whole = np.rint(values * 2.0 ** ((51 - n.bit_length()) // 2))
    products = np.empty((rows, rows))
    for row in range(rows):
        products[row, row:] = products[row:, row] = np.einsum("ij,j->i", whole[row:], whole[row])
    squares = np.diagonal(products)
    of_differences = squares[:, None] + squares[None, :] - 2 * products
    sums = whole.sum(axis=1)
    d = sums[:, None] - sums[None, :]
    error = np.sqrt(np.maximum(of_differences - d**2 / n, 0.0))
    ps = np.ones((rows, rows))
    for row in range(rows - 1):
        for other, (mean, scatter) in enumerate(
            zip(d[row, row + 1 :].tolist(), error[row, row + 1 :].tolist(), strict=True), row + 1
        ):
            p = math.erfc(abs(mean) / scatter / math.sqrt(2)) if scatter else float(mean == 0)
            ps[row, other] = ps[other, row] = p
    return ps


@lru_cache(maxsize=1)
def _draws(n: int, resamples: int, seed: int) -> np.ndarray:
    """Return ``[resamples, n]`` how often each row is drawn; kept, as each metric of a task asks for it."""
    drawn = np.empty((resamples, n), np.uint16)
    for number, weights in enumerate(draw(np.arange(n), n, resamples, seed)):
        drawn[number] = weights
    return drawn
