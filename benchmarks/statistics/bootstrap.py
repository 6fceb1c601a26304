"""Confidence intervals by a bootstrap that draws whole images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...progress import Reporter
from .contract import Interval, RatedScores, Statistic
from .resampling import on_resamples

UNDEFINED_SHARE = 0.05
"""An interval is withheld when the statistic is undefined on more than this share of the resamples."""
_ROWS_TOGETHER = 1_000_000
"""Rows of metrics that are resampled together: about 150 bytes each, of what their statistics prepare."""


@dataclass(frozen=True)
class Resamples:
    """A number on each resample.

    Attributes:
        values: ``[resamples]``; NaN where the number is undefined.
        images: How many images there were to draw from.
        reason: Why the number was undefined, the latest time that it was.
    """

    values: np.ndarray
    images: int
    reason: str = ""

    def __sub__(self, other: Resamples) -> Resamples:
        """Return the difference on each resample; both must come from the same draws."""
        return Resamples(self.values - other.values, self.images, self.reason or other.reason)

    def interval(self, level: float = 0.95) -> Interval:
        """Return the percentile interval, or why there is none."""
        defined = self.values[np.isfinite(self.values)]
        if reason := self.fault():
            return Interval(None, None, None, len(defined), reason)
        tail = (1 - level) / 2
        low, high = np.quantile(defined, [tail, 1 - tail])
        return Interval(float(low), float(high), float(defined.std(ddof=1)), len(defined))

    def p_of(self, value: float, rounding: float) -> float:
        """Return the p of the hypothesis that a difference, of which these are the resamples, is 0.

        It is that of the shifted bootstrap: the resampled differences ``d*`` scatter around the observed ``d`` as they
        would around 0 if there were no difference, so ``p = (1 + #{|d* - d| >= |d|}) / (1 + B)`` (Hall & Wilson 1991,
        first guideline; Efron & Tibshirani 1993, ch. 16; the 1 counts the observed difference among the ``B``
        resampled ones, Davison & Hinkley 1997, eq. 4.11). It is never below ``1 / (1 + B)``.

        Args:
            value: The difference on all rows.
            rounding: Differences that are apart by no more are equal.
        """
        scatter = np.abs(self.values[np.isfinite(self.values)] - value)
        extreme = np.count_nonzero(scatter >= abs(value) - rounding)
        return float((1 + extreme) / (1 + len(scatter)))

    def fault(self) -> str:
        """Return why nothing can be said from these resamples, or an empty text."""
        if self.images < 2:
            return "fewer than 2 images to draw from"
        undefined = int(np.count_nonzero(~np.isfinite(self.values)))
        if undefined > UNDEFINED_SHARE * len(self.values) or len(self.values) - undefined < 2:
            return f"undefined on {undefined} of {len(self.values)} resamples ({self.reason})"
        return ""


def bootstrap(
    statistics: Mapping[str, Statistic],
    rated: Sequence[RatedScores],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    progress: Reporter | None = None,
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
    resampled = resample(statistics, rated, resamples=resamples, seed=seed, progress=progress)
    return {name: one.interval(level) for name, one in resampled.items()}


def resample(
    statistics: Mapping[str, Statistic],
    rated: Sequence[RatedScores],
    *,
    resamples: int,
    seed: int = 0,
    processes: int | None = None,
    progress: Reporter | None = None,
) -> dict[str, Resamples]:
    """Return each statistic on each resample; see :func:`bootstrap`.

    Args:
        statistics: As of :func:`bootstrap`.
        rated: As of :func:`bootstrap`.
        resamples: Number of resamples.
        seed: Seed of the draws.
        processes: How many share the resamples, which are the same however many there are; None for one a core where
            there is enough to do, and this process runs nothing beside.
        progress: As of :func:`bootstrap`.
    """
    found = resample_all(
        {"": (statistics, rated)}, resamples=resamples, seed=seed, processes=processes, progress=progress
    )
    return found[""]


def resample_all(
    metrics: Mapping[str, tuple[Mapping[str, Statistic], Sequence[RatedScores]]],
    *,
    resamples: int,
    seed: int = 0,
    processes: int | None = None,
    progress: Reporter | None = None,
) -> dict[str, dict[str, Resamples]]:
    """Return each statistic of each metric on each resample, as :func:`resample` does for one metric.

    Resamples are drawn once for all metrics that scored the same rows, as many together as do not take much memory.

    Args:
        metrics: Metric to its statistics, by name, and its rows, one item a rater.
        resamples: As of :func:`resample`, as are the others.
        seed: Seed of the draws.
        processes: How many share the resamples.
        progress: Called with (passes done, passes in all); a pass is one resample of one rater of one metric.
    """
    found: dict[str, dict[str, Resamples]] = {}
    report = _Passes(progress, resamples * sum(len(rated) for _, rated in metrics.values()))
    for names in _together({name: rated for name, (_, rated) in metrics.items()}):
        several = [metrics[name][1] for name in names]
        places = [(name, statistic) for name in names for statistic in metrics[name][0]]
        images, image_of_row = code_images([one.groups for one in several[0]])
        sums, reasons = np.zeros((resamples, len(places))), [""] * len(places)
        for rater, image in enumerate(image_of_row):
            values = [
                partial(statistic.value, rated[rater])
                for name, rated in zip(names, several, strict=True)
                for statistic in metrics[name][0].values()
            ]
            passed = report.next(len(names))
            of_rater, why = on_resamples(values, image, images, resamples, seed, processes, passed)
            sums += of_rater
            reasons = [new or old for new, old in zip(why, reasons, strict=True)]
        for at, (name, statistic) in enumerate(places):
            of_name = Resamples(sums[:, at] / len(image_of_row), images, reasons[at])
            found.setdefault(name, {})[statistic] = of_name
    return {name: found.get(name, {}) for name in metrics}


def _together(metrics: Mapping[str, Sequence[RatedScores]]) -> Iterator[list[str]]:
    """Yield the names of metrics that are resampled together: of the same rows, and few enough."""
    left = dict(metrics)
    while left:
        first = next(iter(left.values()))
        most = max(_ROWS_TOGETHER // max(sum(map(len, first)), 1), 1)
        names = [name for name, rated in left.items() if _of_same_rows(first, rated)][:most]
        for name in names:
            del left[name]
        yield names


def _of_same_rows(first: Sequence[RatedScores], second: Sequence[RatedScores]) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(one.groups, other.groups) for one, other in zip(first, second, strict=True)
    )


class _Passes:
    """Reports of pass after pass as of one."""

    def __init__(self, progress: Reporter | None, total: int) -> None:
        self._progress, self._total, self._before = progress, total, 0

    def next(self, metrics: int) -> Reporter:
        """Return the reporter of the next pass, which is of so many metrics."""
        before = self._before

        def report(done: int, total: int) -> None:
            self._before = before + total * metrics
            if self._progress:
                self._progress(before + done * metrics, self._total)

        return report


def bootstrap_value(
    value: Callable[[np.ndarray], float],
    groups: np.ndarray,
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    progress: Reporter | None = None,
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
    return resample_value(value, groups, resamples=resamples, seed=seed, progress=progress).interval(level)


def resample_value(
    value: Callable[[np.ndarray], float],
    groups: np.ndarray,
    *,
    resamples: int,
    seed: int = 0,
    processes: int | None = None,
    progress: Reporter | None = None,
) -> Resamples:
    """Return any value of weighted rows on each resample; see :func:`bootstrap_value` and :func:`resample`."""
    found = resample_values({"": value}, groups, resamples=resamples, seed=seed, processes=processes, progress=progress)
    return found[""]


def resample_values(
    values: Mapping[str, Callable[[np.ndarray], float]],
    groups: np.ndarray,
    *,
    resamples: int,
    seed: int = 0,
    processes: int | None = None,
    progress: Reporter | None = None,
) -> dict[str, Resamples]:
    """Return several values of the same weighted rows on each resample, which is drawn once for all of them."""
    images, (image,) = code_images([groups])
    found, reasons = on_resamples(list(values.values()), image, images, resamples, seed, processes, progress)
    return {name: Resamples(found[:, place], images, reasons[place]) for place, name in enumerate(values)}


def _check(resamples: int, level: float) -> None:
    if resamples < 0:
        raise ValueError(f"resamples must be 0 or more, not {resamples}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")


def code_images(groups: Sequence[np.ndarray]) -> tuple[int, list[np.ndarray]]:
    """Return the number of distinct groups over all arrays, and each array with groups numbered from 0."""
    names, numbers = np.unique(np.concatenate(groups), return_inverse=True)
    return len(names), np.split(numbers, np.cumsum([len(one) for one in groups])[:-1])
