"""Confidence intervals by a bootstrap that draws whole images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .contract import RatedScores, Statistic, UndefinedStatistic

UNDEFINED_SHARE = 0.05
"""An interval is withheld when the statistic is undefined on more than this share of the resamples."""

Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Interval:
    """A percentile interval, or the reason why there is none.

    Attributes:
        low: Lower end; None when there is no interval.
        high: Upper end; None when there is no interval.
        stderr: Standard deviation over the resamples; None when there is no interval.
        resamples: Resamples on which the statistic was defined.
        reason: Why there is no interval; empty when there is one.
    """

    low: float | None
    high: float | None
    stderr: float | None
    resamples: int
    reason: str = ""


def bootstrap(
    statistics: Mapping[str, Statistic],
    rated: Sequence[RatedScores],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    progress: Progress | None = None,
) -> dict[str, Interval]:
    """Return the interval of each statistic.

    A resample draws as many images as there are, with replacement, and every row counts as often as its image
    was drawn. The draws follow from ``seed`` and the number of images alone, so that metrics and
    statistics of one task see the same resamples.

    Args:
        statistics: The statistics, by name.
        rated: The rows; one item a rater if there are several, whose values are averaged. The same number in
            ``groups`` is the same image for all of them.
        resamples: Number of resamples; 0 asks for no intervals.
        seed: Seed of the draws.
        level: Share of the resamples that the interval holds.
        progress: Called with (passes done, passes in all); a pass is one resample of one rater.

    Returns:
        An interval for each name; empty if ``resamples`` is 0.
    """
    _check(resamples, level)
    if not resamples:
        return {}
    images, image_of_row = _code([one.groups for one in rated])
    sums = {name: np.zeros(resamples) for name in statistics}
    reasons: dict[str, str] = {}
    # Rater by rater, as statistics keep what they prepared for the latest rows.
    for rater, (one, image) in enumerate(zip(rated, image_of_row, strict=True)):
        for resample, weights in enumerate(_draw(image, images, resamples, seed)):
            for name, statistic in statistics.items():
                try:
                    sums[name][resample] += statistic.value(one, weights)
                except UndefinedStatistic as error:
                    sums[name][resample] = np.nan
                    reasons[name] = str(error)
            if progress:
                progress(rater * resamples + resample + 1, len(rated) * resamples)
    return {
        name: _interval(values / len(rated), images, level, reasons.get(name, ""))
        for name, values in sums.items()
    }


def bootstrap_value(
    value: Callable[[np.ndarray], float],
    groups: np.ndarray,
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    progress: Progress | None = None,
) -> Interval | None:
    """Return the interval of any value of weighted rows, such as a mean or a corpus score.

    Args:
        value: Gives the value for the weights ``[n]`` (whole float64 numbers, read-only, not all 0) of the
            rows; raises :class:`UndefinedStatistic` where it has none.
        groups: ``[n]`` integers: which image a row belongs to.
        resamples: Number of resamples; 0 asks for no interval.
        seed: Seed of the draws; the draws are those of :func:`bootstrap`.
        level: Share of the resamples that the interval holds.
        progress: Called with (resamples done, resamples in all).

    Returns:
        The interval; None if ``resamples`` is 0.
    """
    _check(resamples, level)
    if not resamples:
        return None
    images, (image,) = _code([groups])
    values, reason = np.zeros(resamples), ""
    for resample, weights in enumerate(_draw(image, images, resamples, seed)):
        try:
            values[resample] = value(weights)
        except UndefinedStatistic as error:
            values[resample], reason = np.nan, str(error)
        if progress:
            progress(resample + 1, resamples)
    return _interval(values, images, level, reason)


def _check(resamples: int, level: float) -> None:
    if resamples < 0:
        raise ValueError(f"resamples must be 0 or more, not {resamples}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")


def _code(groups: Sequence[np.ndarray]) -> tuple[int, list[np.ndarray]]:
    """Return the number of distinct groups over all arrays, and each array with groups numbered from 0."""
    names = np.unique(np.concatenate(groups))
    return len(names), [np.searchsorted(names, one) for one in groups]


def _draw(image: np.ndarray, images: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield the row weights of each resample; read-only, so that a statistic may remember them."""
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        draws = np.bincount(generator.integers(images, size=images), minlength=images)
        weights = draws.astype(np.float64)[image]
        weights.flags.writeable = False
        yield weights


def _interval(values: np.ndarray, images: int, level: float, reason: str) -> Interval:
    """Summarise the values of the resamples, NaN where undefined for ``reason`` (the latest one)."""
    defined = values[np.isfinite(values)]
    if images < 2:
        return Interval(None, None, None, len(defined), "fewer than 2 images to draw from")
    undefined = len(values) - len(defined)
    if undefined > UNDEFINED_SHARE * len(values) or len(defined) < 2:
        return Interval(
            None,
            None,
            None,
            len(defined),
            f"undefined on {undefined} of {len(values)} resamples ({reason})",
        )
    tail = (1 - level) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return Interval(float(low), float(high), float(defined.std(ddof=1)), len(defined))
