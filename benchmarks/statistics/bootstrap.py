"""Cluster bootstrap over images in several processes, whose number does not change the results; ends of intervals.

What the resamples of ``n`` images scatter is too little by ``sqrt((n - 1) / n)``, and its own error is left out of
normal quantiles. Both matter below 30 images, where a plain percentile interval holds the truth in 80 to 92 % of
cases in place of 95 %; ``speed/coverage.py`` measures it. So quantiles are those of Student's t.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice, pairwise
from multiprocessing.connection import Connection
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np

from ...progress import Reporter, unheard
from . import Draws, Intervals
from .contract import ONE_IMAGE, Interval, RatedScores, Statistic, UndefinedStatistic, caution_of
from .intervals import share_within, t_quantile, wilson

_NORMAL = NormalDist()
INFLUENCE_ROWS = 1_000_000
"""Rows from which on ``auto`` uses influence functions: a thousand resamples take minutes, and both ways agree to a
hundredth of the standard error."""
UNDEFINED_SHARE = 0.05
"""An interval is withheld when the statistic is undefined on more than this share of the resamples."""
_ROWS_TOGETHER = 1_000_000
"""Rows of metrics that are resampled together; their statistics cache about 150 bytes a row."""
_WORTH_SHARING = 50_000_000
"""Rows times resamples times values from which on more processes save time."""
_BLOCK_BYTES = 32_000_000
_MOST_IN_BLOCK = 32
"""Greatest number of draws in one matrix product."""
_ROWS_A_PRODUCT = 256
_most: ContextVar[int | None] = ContextVar("most", default=None)

T = TypeVar("T")
Value = Callable[[np.ndarray], float]
Found = tuple[np.ndarray, list[str]]
"""``[resamples, values]``, NaN where a value is undefined, and the latest reason by value."""


def by_influence(intervals: Intervals, rows: int) -> bool:
    """Return whether intervals over this number of rows use influence functions."""
    return intervals == "influence" or (intervals == "auto" and rows >= INFLUENCE_ROWS)


def defined(subject: str, call: Callable[[], T]) -> T:
    """Return the result of a call, which may be of user code: any exception makes it undefined.

    Args:
        subject: What is called, for the message.
        call: The call.

    Raises:
        UndefinedStatistic: It raised something.
    """
    try:
        return call()
    except UndefinedStatistic:
        raise
    except Exception as error:
        raise UndefinedStatistic(f"the {subject} raised {type(error).__name__}: {error}") from error


def finite_value(function: Callable[..., float], *args: Any) -> float:
    """Return the value of a statistic.

    Args:
        function: Returns the value.
        args: Its arguments.

    Raises:
        UndefinedStatistic: There is no value, it is not finite, or the function raised; the message says which.
    """
    value = defined("statistic", lambda: float(function(*args)))
    if not np.isfinite(value):
        raise UndefinedStatistic("the statistic returned no finite number")
    return value


@dataclass(frozen=True)
class Resamples:
    """A number on each resample.

    Attributes:
        values: ``[resamples]``; NaN where the number is undefined.
        value: The number on all rows; NaN where it is undefined.
        images: Number of images to draw from.
        reason: The latest reason why the number was undefined.
    """

    values: np.ndarray
    value: float
    images: int
    reason: str = ""

    def __sub__(self, other: Resamples) -> Resamples:
        """Return the difference on each resample; both must come from the same draws."""
        return Resamples(self.values - other.values, self.value - other.value, self.images, self.reason or other.reason)

    def interval(self, level: float = 0.95, *, is_share: bool = False, of: int | None = None) -> Interval:
        """Return the bias-corrected percentile interval, or why there is none.

        Args:
            level: Share of samples whose interval holds the truth.
            is_share: Whether the number is a share of rows, whose interval is Wilson's.
            of: Number of images that a share is of, where it is not of all.
        """
        defined, images = self.values[np.isfinite(self.values)], self.images if of is None else of
        if reason := self.fault() or (ONE_IMAGE if images < 2 else ""):
            return Interval(None, None, None, len(defined), reason)
        stderr, caution = float(defined.std(ddof=1)), caution_of(self.images)
        if is_share:
            # Resamples scatter a little less than samples do.
            unbiased = stderr * math.sqrt(self.images / (self.images - 1))
            shared = wilson(self.value, unbiased, images, level)
            return replace(shared, stderr=stderr, resamples=len(defined))
        low, high = bias_corrected(defined, self.value, self.images, level)
        return Interval(low, high, stderr, len(defined), caution=caution)

    def p_of(self, rounding: float) -> float:
        """Return the p of the hypothesis that a difference, of which these are the resamples, is 0.

        It is that of the shifted bootstrap: the resampled differences ``d*`` scatter around the observed ``d`` as they
        would around 0 if there were no difference, so ``p = (1 + #{|d* - d| >= |d|}) / (1 + B)`` (Hall & Wilson 1991,
        first guideline; Efron & Tibshirani 1993, ch. 16; the 1 counts the observed difference among the ``B``
        resampled ones, Davison & Hinkley 1997, eq. 4.11), which :func:`p_of_few` corrects for the number
        of images. It is never below ``1 / (1 + B)``.

        Args:
            rounding: Differences that are apart by no more are equal.
        """
        scatter = np.abs(self.values[np.isfinite(self.values)] - self.value)
        extreme = np.count_nonzero(scatter >= abs(self.value) - rounding)
        return p_of_few((1 + extreme) / (1 + len(scatter)), self.images)

    def fault(self) -> str:
        """Return why these resamples give no interval; empty where they do."""
        if self.images < 2:
            return ONE_IMAGE
        undefined = len(self.values) - int(np.isfinite(self.values).sum())
        if undefined > UNDEFINED_SHARE * len(self.values) or len(self.values) - undefined < 2:
            return f"undefined on {undefined} of {len(self.values)} resamples ({self.reason})"
        return "" if np.isfinite(self.value) else "undefined on all rows"


def bias_corrected(drawn: np.ndarray, value: float, images: int, level: float) -> tuple[float, float]:
    """Return the bias-corrected percentile interval at levels expanded to Student's t; it holds the value.

    Where the resamples lie on one side of the value, percentiles move by twice that bias (Efron 1981, *Nonparametric
    standard errors and confidence intervals*, section 10). Levels are expanded so that the interval of a mean is as
    wide as the t interval (Hesterberg 2015, *What teachers should know about the bootstrap*, section 5.3).

    Args:
        drawn: ``[b]`` the number on each resample, finite.
        value: The number on all rows.
        images: Number of images to draw from, at least 2.
        level: Share of samples whose interval holds the truth.
    """
    below = (np.count_nonzero(drawn < value) + np.count_nonzero(drawn <= value)) / (2 * len(drawn))
    edge = 1 / (2 * len(drawn))
    shift = 2 * _NORMAL.inv_cdf(min(max(below, edge), 1 - edge))
    width = math.sqrt(images / (images - 1)) * t_quantile(level, images)
    low, high = np.quantile(drawn, [_NORMAL.cdf(shift - width), _NORMAL.cdf(shift + width)])
    return min(float(low), value), max(float(high), value)


def p_of_few(p: float, images: int) -> float:
    """Return a two-sided p of resamples as Student's t has it: larger, the fewer images there are.

    It is the p whose expanded percentile interval (:func:`bias_corrected`) ends at no difference.
    """
    return 1 - share_within(-_NORMAL.inv_cdf(p / 2) * math.sqrt((images - 1) / images), images)


def least_p(resamples: int, images: int) -> float:
    """Return the least p that so many resamples of so many images can give."""
    return p_of_few(1 / (1 + resamples), images)


def resamples_for(p: float, images: int) -> int | None:
    """Return how many resamples of so many images can give a p as small as this; None for more than a million."""
    of_normal = 2 * _NORMAL.cdf(-t_quantile(1 - p, images) * math.sqrt(images / (images - 1)))
    return math.ceil(1 / of_normal) if of_normal > 1e-6 else None


def resample_all(
    metrics: Mapping[str, tuple[Mapping[str, Statistic], Sequence[RatedScores]]], draws: Draws
) -> dict[str, dict[str, Resamples]]:
    """Return each statistic of each metric on each resample.

    Resamples are drawn once for all metrics of the same rows, in batches that fit into memory.

    Args:
        metrics: Metric to its statistics, by name, and its rows; one item a rater if there are several, whose values
            are averaged. The same number in ``groups`` is the same image for all of them.
        draws: The resamples.
    """
    resamples: dict[str, dict[str, Resamples]] = {name: {} for name in metrics}
    before, total = 0, draws.resamples * sum(len(rated) for _, rated in metrics.values())
    for names in _together({name: rated for name, (_, rated) in metrics.items()}):
        several = [metrics[name][1] for name in names]
        places = [(name, statistic) for name in names for statistic in metrics[name][0]]
        images, image_of_row = code_images([part.groups for part in several[0]])
        sums, reasons = np.zeros((draws.resamples, len(places))), [""] * len(places)
        of_all = np.zeros(len(places))
        for rater, image in enumerate(image_of_row):
            values = [
                partial(statistic.value, rated[rater])
                for name, rated in zip(names, several, strict=True)
                for statistic in metrics[name][0].values()
            ]

            def passed(done: int, _: int, before: int = before, metrics: int = len(names)) -> None:
                draws.progress(before + done * metrics, total)

            of_all += [value_or_nan(value, len(image)) for value in values]
            of_rater, why = on_resamples(values, image, images, replace(draws, progress=passed))
            before += draws.resamples * len(names)
            sums += of_rater
            reasons = [new or old for new, old in zip(why, reasons, strict=True)]
        for at, (name, statistic) in enumerate(places):
            raters = len(image_of_row)
            resamples[name][statistic] = Resamples(sums[:, at] / raters, of_all[at] / raters, images, reasons[at])
    return resamples


def _together(metrics: Mapping[str, Sequence[RatedScores]]) -> Iterator[list[str]]:
    """Yield batches of metrics of the same rows, which are resampled together."""
    left = dict(metrics)
    while left:
        first = next(iter(left.values()))
        most = max(_ROWS_TOGETHER // max(sum(map(len, first)), 1), 1)
        alike = (
            name
            for name, rated in left.items()
            if len(first) == len(rated)
            and all(np.array_equal(part.groups, other.groups) for part, other in zip(first, rated, strict=True))
        )
        names = list(islice(alike, most))
        for name in names:
            del left[name]
        yield names


def resample_values(values: Mapping[str, Value], groups: np.ndarray, draws: Draws) -> dict[str, Resamples]:
    """Return several values of the same weighted rows, such as means or corpus scores, on each resample.

    Args:
        values: Name to a function of the rows' weights ``[n]`` (whole float64 numbers, read-only, not all 0); it raises
            :class:`UndefinedStatistic` where it has no value.
        groups: ``[n]`` integers: which image a row belongs to.
        draws: The resamples, drawn once for all values.
    """
    images, (image,) = code_images([groups])
    drawn, reasons = on_resamples(list(values.values()), image, images, draws)
    return {
        name: Resamples(drawn[:, place], value_or_nan(value, len(image)), images, reasons[place])
        for place, (name, value) in enumerate(values.items())
    }


def value_or_nan(value: Value, rows: int) -> float:
    """Return a value of rows that all weigh 1; NaN where it is undefined."""
    try:
        return finite_value(value, np.ones(rows))
    except UndefinedStatistic:
        return np.nan


def code_images(groups: Sequence[np.ndarray]) -> tuple[int, list[np.ndarray]]:
    """Return the number of distinct groups over all arrays, and each array with groups numbered from 0."""
    names, numbers = np.unique(np.concatenate(groups), return_inverse=True)
    ends = accumulate(map(len, groups), initial=0)
    return len(names), [numbers[start:end] for start, end in pairwise(ends)]


@dataclass(frozen=True)
class OfSums:
    """A value of weighted sums over rows, which many weights share in one matrix product.

    Attributes:
        pool: Gives the value of the sums ``[k]``; raises :class:`UndefinedStatistic` where it has none.
        terms: ``[n, k]`` what each row adds to them.
    """

    pool: Value
    terms: np.ndarray

    def __call__(self, weights: np.ndarray) -> float:
        """Return the value for weights ``[n]`` of the rows."""
        return self.pool(self.sums(weights[None])[0])

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Return the sums ``[b, k]`` for several weights ``[b, n]`` of the rows.

        Products are so small that BLAS uses one thread for each. So the sums do not depend on its number of threads,
        and parallel processes start no more threads than there are cores.
        """
        n, k = self.terms.shape
        pieces = n // _ROWS_A_PRODUCT
        whole = pieces * _ROWS_A_PRODUCT
        of_piece = weights[:, :whole].reshape(len(weights), pieces, _ROWS_A_PRODUCT).swapaxes(0, 1)
        terms = self.terms[:whole].reshape(pieces, _ROWS_A_PRODUCT, k)
        return np.matmul(of_piece, terms).sum(axis=0) + weights[:, whole:] @ self.terms[whole:]


def draw(image: np.ndarray, images: int, resamples: int, seed: int, first: int = 0) -> Iterator[np.ndarray]:
    """Yield the row weights of each resample, read-only so that statistics may cache by them.

    Args:
        image: ``[n]`` image of each row, from 0.
        images: How many images there are.
        resamples: Number of resamples.
        seed: Seed of the draws.
        first: The resample to begin with.
    """
    generator = np.random.default_rng(seed)
    one_row_each = len(image) == images and bool((image == np.arange(images)).all())
    for number in range(resamples):
        drawn = generator.integers(images, size=images)
        if number < first:
            continue
        weights = np.bincount(drawn, minlength=images).astype(np.float64)
        if not one_row_each:
            weights = weights[image]
        weights.flags.writeable = False
        yield weights


def on_resamples(values: Sequence[Value], image: np.ndarray, images: int, draws: Draws) -> Found:
    """Return values of weighted rows on each resample.

    Each process makes all draws, which is quick, and computes the values of its block; so results do not depend on the
    blocks. This process recomputes the block of a process that was killed.

    Args:
        values: Functions of the rows' weights ``[n]``; they raise :class:`UndefinedStatistic` where undefined.
        image: ``[n]`` image of each row, from 0.
        images: How many images there are.
        draws: The resamples.
    """
    resamples, work = draws.resamples, len(image) * draws.resamples * len(values)
    # One draw at a time, unless values are sums: statistics of the same rows share counts of the latest weights.
    block = 1
    if any(isinstance(value, OfSums) for value in values):
        block = min(max(_BLOCK_BYTES // (8 * max(len(image), 1)), 1), _MOST_IN_BLOCK)

    def part(first: int, last: int, report: Reporter = unheard) -> Found:
        estimates, reasons = np.zeros((last - first, len(values))), [""] * len(values)
        drawn = draw(image, images, last, draws.seed, first)
        for start in range(0, last - first, block):
            some = list(islice(drawn, block))
            for place, value in enumerate(values):
                if isinstance(value, OfSums):
                    calls = [partial(value.pool, sums) for sums in value.sums(np.array(some))]
                else:
                    calls = [partial(value, weights) for weights in some]
                for number, call in enumerate(calls, start):
                    try:
                        estimates[number, place] = finite_value(call)
                    except UndefinedStatistic as error:
                        estimates[number, place], reasons[place] = np.nan, str(error)
            report(start + len(some), last - first)
        return estimates, reasons

    blocks = -(-resamples // block)
    workers = min(_workers(draws.processes, work), max(blocks - 1, 1))
    if workers == 1:
        return part(0, resamples, draws.progress)

    def passed(done: int, _: int) -> None:
        draws.progress(min(block + done * workers, resamples), resamples)

    # The first block before the fork: child processes inherit what the values cache.
    first = part(0, block)
    # Blocks do not depend on the number of processes, so sums are added up in one order.
    bounds = [block * (1 + (blocks - 1) * worker // workers) for worker in range(workers)]
    own, *others = (partial(part, start, end) for start, end in pairwise([*bounds, resamples]))
    children = [Fork(work) for work in others]
    try:
        # The block of a killed process is computed here.
        parts = [first, own(passed), *(child.made() or work() for child, work in zip(children, others, strict=True))]
    finally:
        for child in children:
            child.end()
    draws.progress(resamples, resamples)
    why = zip(*(reasons for _, reasons in reversed(parts)), strict=True)
    return np.concatenate([drawn for drawn, _ in parts]), [
        next((reason for reason in of_value if reason), "") for of_value in why
    ]


@contextmanager
def shared_by(most: int | None) -> Generator[None]:
    """Limit the number of processes of a bootstrap during the block; None for no limit."""
    before = _most.set(most)
    try:
        yield
    finally:
        _most.reset(before)


def _workers(processes: int | None, work: int) -> int:
    """Return the number of processes: one a core, or 1 where this process runs other threads."""
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        return 1
    if processes is not None:
        return processes
    # A thread that is not forked may hold a lock that the forked process waits for.
    alone = threading.active_count() == 1 and multiprocessing.parent_process() is None
    cores = len(os.sched_getaffinity(0)) if alone and work >= _WORTH_SHARING else 1
    return min(cores, _most.get() or cores)


class Fork:
    """A forked process that computes a block; it shares this one's memory and imports nothing again.

    Args:
        make: Computes the block.
    """

    def __init__(self, make: Callable[[], Found]) -> None:
        self._make = make
        self._here, there = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=self._run, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def _run(self, there: Connection) -> None:
        # The parent's signal handlers must not run here: the process just ends.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # Only the parent reads: if it is gone, sending fails and the process ends.
        self._here.close()
        # After an error the parent computes the block again, and raises it.
        with suppress(Exception):
            there.send(self._make())

    def made(self) -> Found | None:
        """Return the block; None if the process ended before it sent it."""
        try:
            return self._here.recv()
        except EOFError:
            return None

    def end(self) -> None:
        """Terminate the process."""
        self._here.close()
        self._process.terminate()
        self._process.join()
