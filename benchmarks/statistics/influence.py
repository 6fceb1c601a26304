"""Confidence intervals without resamples, from the influence of each image on a number.

A statistic moves by its influence function as a row gets more weight. Summed over the rows of each image, the
influences approximate a bootstrap over images: a resample that draws image ``g`` ``k`` times moves the number by
``(k - 1) U_g``, up to terms that vanish as images become many (the infinitesimal jackknife; Efron 1982, *The jackknife,
the bootstrap and other resampling plans*, ch. 6; by clusters: Cameron & Miller 2015). One pass over the rows replaces a
thousand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from . import Draws
from .bootstrap import Resamples, Value, by_influence, code_images, defined, draw, resample_all, resample_values
from .contract import ONE_IMAGE, Interval, RatedScores, Statistic, UndefinedStatistic, caution_of
from .intervals import share_within, t_quantile, wilson

_AT_ONCE = 100_000


@dataclass(frozen=True)
class Influence:
    """A number, and by how much each image moves it.

    Attributes:
        value: The number.
        of_image: ``[images]`` derivative of the number by how often each image counts.
        is_correlation: Whether the interval is made of Fisher's z, whose scatter does not depend on the value.
        reason: Why the influences are not known; empty where they are.
    """

    value: float
    of_image: np.ndarray
    is_correlation: bool = False
    reason: str = ""

    @classmethod
    def of_rows(
        cls, value: float, of_row: np.ndarray, image: np.ndarray, images: int, *, is_correlation: bool = False
    ) -> Influence:
        """Return the influence of images.

        Args:
            value: The number.
            of_row: ``[n]`` influence of each row.
            image: ``[n]`` image of each row, from 0.
            images: How many images there are.
            is_correlation: As of the class.
        """
        of_image = np.bincount(image, of_row, minlength=images)
        reason = "" if np.isfinite(of_image).all() else "the influence of a row is not finite"
        return cls(value, of_image, is_correlation, reason)

    @classmethod
    def mean(cls, several: Sequence[Influence]) -> Influence:
        """Return the influence of the mean of several numbers of the same images."""
        return cls(
            float(np.mean([part.value for part in several])),
            np.mean([part.of_image for part in several], axis=0),
            all(part.is_correlation for part in several),
            next((part.reason for part in several if part.reason), ""),
        )

    def __sub__(self, other: Influence) -> Influence:
        """Return the influence of the difference; both must be of the same images."""
        with np.errstate(invalid="ignore"):
            of_image = self.of_image - other.of_image
        return Influence(self.value - other.value, of_image, reason=self.reason or other.reason)

    @property
    def stderr(self) -> float:
        """Standard error, ``sqrt(G / (G - 1) · Σ (U_g - mean U)²)`` of ``G`` images."""
        images = len(self.of_image)
        mean = self.of_image.mean()
        # Some at a time: there may be many millions.
        pieces = (self.of_image[first : first + _AT_ONCE] for first in range(0, images, _AT_ONCE))
        return math.sqrt(images / (images - 1) * math.fsum(float(((piece - mean) ** 2).sum()) for piece in pieces))

    def fault(self) -> str:
        """Return why the number has no standard error; empty where it has one."""
        return self.reason or (ONE_IMAGE if len(self.of_image) < 2 else "")

    @property
    def images(self) -> int:
        """Number of images."""
        return len(self.of_image)

    def interval(self, level: float = 0.95, *, is_share: bool = False, of: int | None = None) -> Interval:
        """Return the interval by Student's t, or why there is none.

        Args:
            level: Share of samples whose interval holds the truth.
            is_share: Whether the number is a share of rows, whose interval is Wilson's.
            of: Number of images that a share is of, where it is not of all.
        """
        images = self.images if of is None else of
        if reason := self.fault() or (ONE_IMAGE if images < 2 else ""):
            return Interval(None, None, None, 0, reason, "influence")
        stderr, caution = self.stderr, caution_of(self.images)
        if is_share:
            return wilson(self.value, stderr, images, level)
        width = t_quantile(level, self.images)
        low, high = self.value - width * stderr, self.value + width * stderr
        slope = 1 - self.value**2
        if self.is_correlation and slope > 0:
            centre = math.atanh(self.value)
            low, high = (math.tanh(centre + sign * width * stderr / slope) for sign in (-1, 1))
        return Interval(low, high, stderr, 0, method="influence", caution=caution)

    def p_of(self, rounding: float) -> float:
        """Return the two-sided p of the hypothesis that a difference, of which these are the influences, is 0.

        Args:
            rounding: A difference no larger than that is none.
        """
        if abs(self.value) <= rounding:
            return 1.0
        return 1 - share_within(abs(self.value) / stderr, self.images) if (stderr := self.stderr) else 0.0


Spread = Resamples | Influence
"""Spread of a number over images; two of one kind have a difference: see :func:`spread_of_difference`."""


def spreads_of_all(
    metrics: Mapping[str, tuple[Mapping[str, Statistic], Sequence[RatedScores]]], draws: Draws
) -> dict[str, dict[str, Spread]]:
    """Return the spread of each statistic of each metric: by influence function where requested and known.

    Args:
        metrics: As of :func:`.bootstrap.resample_all`.
        draws: The resamples.
    """
    known: dict[str, dict[str, Spread]] = {}
    others: dict[str, tuple[dict[str, Statistic], Sequence[RatedScores]]] = {}
    for metric, (statistics, rated) in metrics.items():
        known[metric] = {}
        if by_influence(draws.intervals, max(map(len, rated))):
            images, image_of_row = code_images([part.groups for part in rated])
            for name, statistic in statistics.items():
                if of_rater := _of_raters(statistic, rated, image_of_row, images):
                    known[metric][name] = Influence.mean(of_rater)
        if left := {name: statistic for name, statistic in statistics.items() if name not in known[metric]}:
            others[metric] = left, rated
    drawn = resample_all(others, draws)
    return {
        metric: {name: known[metric].get(name) or drawn[metric][name] for name in statistics}
        for metric, (statistics, _) in metrics.items()
    }


def _of_raters(
    statistic: Statistic, rated: Sequence[RatedScores], image_of_row: Sequence[np.ndarray], images: int
) -> list[Influence]:
    influences: list[Influence] = []
    for part, image in zip(rated, image_of_row, strict=True):
        try:
            of_row = defined("influence function", partial(statistic.influence, part))
            if of_row is None:
                return []
            value = statistic.value(part, np.ones(len(part)))
        except UndefinedStatistic as error:
            return [Influence(math.nan, np.full(images, np.nan), reason=str(error))]
        influences.append(Influence.of_rows(value, of_row, image, images, is_correlation=statistic.is_correlation))
    return influences


def spread_of_difference(first: Spread, second: Spread) -> Spread:
    """Return how the difference of two numbers scatters.

    Raises:
        ValueError: One is of resamples and the other of influences.
    """
    if isinstance(first, Resamples) and isinstance(second, Resamples):
        return first - second
    if isinstance(first, Influence) and isinstance(second, Influence):
        return first - second
    raise ValueError("cannot subtract numbers whose intervals are by different methods")


WeightedValue = tuple[Value, Callable[[], np.ndarray] | None]
"""A number of weighted rows (``[n]``), as of :func:`.bootstrap.resample_values`, and what gives the ``[n]`` influence
of each row on it; None where no influence function is known."""


def spreads_of_values(values: Mapping[str, WeightedValue], groups: np.ndarray, draws: Draws) -> dict[str, Spread]:
    """Return how values of the same weighted rows scatter.

    Args:
        values: The values, by name.
        groups: ``[n]`` integers: which image a row belongs to.
        draws: The resamples, which are the same for all values.
    """
    spreads: dict[str, Spread] = {}
    if by_influence(draws.intervals, len(groups)):
        images, (image,) = code_images([groups])
        for name, (value, influence) in values.items():
            if influence is not None:
                spreads[name] = Influence.of_rows(value(np.ones(len(groups))), influence(), image, images)
    if others := {name: value for name, (value, _) in values.items() if name not in spreads}:
        spreads |= resample_values(others, groups, draws)
    return {name: spreads[name] for name in values}


def influence_of_mean(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return ``[n]`` influence of each row on the mean.

    Args:
        values: ``[n]``.
        weights: ``[n]`` how much each row counts: 0 for rows that the mean is not of.
    """
    total = float(weights.sum())
    used = np.where(weights > 0, values, 0.0)
    return weights * (used - float((weights * used).sum()) / total) / total


def influence_of_sums(value: Value, totals: np.ndarray, pieces: Iterable[np.ndarray]) -> Influence:
    """Return the influence of each row on a value of sums, by the delta method.

    Args:
        value: Gives the value of the sums ``[k]``.
        totals: ``[k]`` the sums of all rows.
        pieces: ``[m, k]`` each, the terms of consecutive rows; all pieces together have all rows.
    """
    try:
        at_rows, slope = value(totals), gradient(value, totals)
    except UndefinedStatistic as error:
        at_rows, slope, reason = math.nan, np.full(len(totals), np.nan), str(error)
    else:
        is_known = math.isfinite(at_rows) and np.isfinite(slope).all()
        reason = "" if is_known else "the value of the sums has no finite slope"
    return Influence(at_rows, along(slope, pieces), reason=reason)


def along(slope: np.ndarray, pieces: Iterable[np.ndarray]) -> np.ndarray:
    """Return ``[n]`` the influence of rows on a value of sums that rises with them by ``slope`` (``[k]``).

    Args:
        slope: As of :func:`gradient`.
        pieces: As of :func:`influence_of_sums`.
    """
    # Not by BLAS, whose rounding depends on how many rows it is given.
    sums = (np.add.reduce([column * by for column, by in zip(piece.T, slope, strict=True)]) for piece in pieces)
    return np.concatenate([np.zeros(0), *sums])


def gradient(value: Value, totals: np.ndarray) -> np.ndarray:
    """Return the gradient by central differences; one-sided where a sum cannot be smaller."""
    step = np.cbrt(np.finfo(float).eps)
    largest = float(np.abs(totals).max(initial=0.0)) or 1.0
    slope = np.zeros(len(totals))
    for place, total in enumerate(totals.tolist()):
        moved = step * (abs(total) or largest)
        ends = [totals.copy(), totals.copy()]
        ends[0][place] -= moved if total else 0.0
        ends[1][place] += moved
        slope[place] = (value(ends[1]) - value(ends[0])) / (ends[1][place] - ends[0][place])
    return slope


_RATIOS_AT_ONCE = 100
"""Resamples whose weights are in memory at a time."""


@dataclass(frozen=True)
class Ratio:
    """One sum over captions by another.

    Attributes:
        of: ``[n]`` terms of the numerator.
        by: ``[n]`` terms of the denominator.
        why: The reason for no value where the denominator is 0.
        is_share: Whether it is a share of captions.
    """

    of: np.ndarray
    by: np.ndarray
    why: str
    is_share: bool = False

    def value(self) -> float:
        """Return the number.

        Raises:
            UndefinedStatistic: The denominator is 0.
        """
        below = float(self.by.sum())
        if not below > 0:
            raise UndefinedStatistic(self.why)
        return float(self.of.sum()) / below

    def influence(self) -> np.ndarray:
        """Return ``[n]`` the influence of each caption."""
        return (self.of - self.value() * self.by) / self.by.sum()

    def images(self, of_row: np.ndarray) -> int:
        """Return the number of images that add to its denominator, by the image ``[n]`` of each caption."""
        return int(np.count_nonzero(np.bincount(of_row[self.by != 0])))


def ratio_intervals(ratios: Mapping[str, Ratio], images: np.ndarray, draws: Draws, level: float) -> dict[str, Interval]:
    """Return the interval of each number; the draws are those of all other statistics of the same images.

    Args:
        ratios: The numbers, which have a value.
        images: ``[n]`` the image of each caption, from 0.
        draws: The resamples; none give no intervals.
        level: Share of the resamples that an interval holds.
    """
    if not draws.resamples or not ratios:
        return {}
    count = int(images.max()) + 1
    if by_influence(draws.intervals, len(images)):
        return {
            name: Influence.of_rows(ratio.value(), ratio.influence(), images, count).interval(
                level, is_share=ratio.is_share, of=ratio.images(images)
            )
            for name, ratio in ratios.items()
        }
    # Of each image, what its captions add to each number.
    above, below = (
        np.array([np.bincount(images, column, minlength=count) for column in sums]).T
        for sums in zip(*((ratio.of, ratio.by) for ratio in ratios.values()), strict=True)
    )
    drawn = np.full((draws.resamples, len(ratios)), np.nan)
    weights = draw(np.arange(count), count, draws.resamples, draws.seed)
    for first in range(0, draws.resamples, _RATIOS_AT_ONCE):
        some = np.array(list(islice(weights, _RATIOS_AT_ONCE)))
        denominators = some @ below
        np.divide(some @ above, denominators, out=drawn[first : first + len(some)], where=denominators > 0)
    return {
        name: Resamples(drawn[:, place], ratio.value(), count, ratio.why).interval(
            level, is_share=ratio.is_share, of=ratio.images(images)
        )
        for place, (name, ratio) in enumerate(ratios.items())
    }
