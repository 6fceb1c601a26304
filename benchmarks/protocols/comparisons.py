"""What a comparison of runs rests on: each metric, or captioner, on the same rows and the same resamples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from ...progress import Reporter
from ..statistics import Intervals
from ..statistics.classical import mcnemar_test, williams_test
from ..statistics.contract import RatedScores, Statistic, UndefinedStatistic
from ..statistics.correlation import Pearson
from ..statistics.paired import SpreadEstimate, paired_bootstrap, paired_means
from ..statistics.rated_rows import Ratings, first_seen, rated_rows


@dataclass(frozen=True)
class ComparedRows:
    """Samples of one run or several, in one order.

    Attributes:
        images: ``[n]`` the image of each: its name, or a number that stands for it.
        scores: Name of a metric, or captioner, to its ``[n]`` values; not finite where it has none.
        ratings: Those of the ``n``; none for protocols without.
        systems: ``[n]`` what wrote each; empty where the data does not say.
        categories: ``[n]`` the part of the data that each is of; empty where there are none.
        by: Which of the protocol's own numbers they are compared by; empty where it is a statistic of the task.
        lower_is_better: The metrics of which less is better.
    """

    images: Sequence[str] | np.ndarray
    scores: Mapping[str, np.ndarray]
    ratings: Ratings = field(default_factory=lambda: Ratings.of(()))
    systems: Sequence[str] = ()
    categories: Sequence[str] = ()
    by: str = ""
    lower_is_better: Set[str] = frozenset()

    @property
    def usable(self) -> np.ndarray:
        """``[n]`` whether a row has a value of all."""
        return np.logical_and.reduce([np.isfinite(values) for values in self.scores.values()])


@dataclass(frozen=True)
class Draws:
    """How resamples are drawn.

    Attributes:
        resamples: How many.
        seed: What they follow from.
        progress: Called with (resamples done, resamples in all).
        intervals: Whether resamples are drawn, or influence functions take their place.
    """

    resamples: int
    seed: int
    progress: Reporter | None = None
    intervals: Intervals = "auto"


@dataclass(frozen=True)
class PairedEstimates:
    """What was found.

    Attributes:
        estimates: Name to its value, over the rows that all have, and on every resample.
        n: How many rows these are.
        groups: How many images (or documents) they are of, which are what is drawn.
        higher_is_better: Whether the greatest value is the best, if the metric does not say.
        classical: Gives the p of classical tests of two names, uncorrected; None where none applies.
        supposes_independence: The classical test that would need rows of distinct images, which these are not;
            empty where there is none.
        left_out: How many samples lack a value of one of them, and of how many.
    """

    estimates: Mapping[str, SpreadEstimate]
    n: int
    groups: int
    higher_is_better: bool = True
    classical: Callable[[str, str], dict[str, float | None]] | None = None
    supposes_independence: str = ""
    left_out: tuple[int, int] = (0, 0)


def compare_agreement(
    rows: ComparedRows, statistic: Statistic, draws: Draws, *, raters: str, decimals: int | None
) -> PairedEstimates:
    """Compare metrics by a statistic of scores and ratings, with Williams' test where it is Pearson's r.

    Args:
        rows: Rated captions.
        statistic: The statistic.
        draws: The resamples, of images.
        raters: As :func:`~..statistics.rated_rows.rated_rows`.
        decimals: As there.

    Raises:
        UndefinedStatistic: The statistic has no value for a metric; the message names it.
    """
    usable, ratings, images = rows.usable, rows.ratings, first_seen(rows.images)
    systems = rows.systems or None
    categories = first_seen(rows.categories) if rows.categories else None
    rated = {
        name: rated_rows(images, ratings, np.where(usable, values, np.nan), raters, decimals, systems, categories)
        for name, values in rows.scores.items()
    }
    first = next(iter(rated.values()))
    n, groups = sum(map(len, first)), len(np.unique(np.concatenate([one.groups for one in first])))
    estimates = paired_bootstrap(
        statistic, rated, intervals=draws.intervals, resamples=draws.resamples, seed=draws.seed, progress=draws.progress
    )

    def williams(one: str, other: str) -> dict[str, float | None]:
        return {"Williams": _williams(rated[one][0], rated[other][0], estimates[one], estimates[other])}

    left_out = _left_out(usable)
    if type(statistic) is not Pearson or len(first) > 1:
        return PairedEstimates(estimates, n, groups, statistic.higher_is_better, left_out=left_out)
    return PairedEstimates(
        estimates,
        n,
        groups,
        statistic.higher_is_better,
        classical=williams,
        supposes_independence="Williams' test" if n > groups else "",
        left_out=left_out,
    )


def compare_credit(rows: ComparedRows, draws: Draws) -> PairedEstimates:
    """Compare metrics by what a choice (or a changed caption) counts on average, with McNemar's test.

    Args:
        rows: Choices; a metric's value is what one counts.
        draws: The resamples, of images.

    Raises:
        UndefinedStatistic: None has a value of all.
    """
    usable = rows.usable
    if not usable.any():
        raise UndefinedStatistic("nothing was judged by all of them")
    credit = {name: values[usable] for name, values in rows.scores.items()}
    groups = first_seen(first_seen(rows.images)[usable])
    images = int(groups.max()) + 1
    estimates = paired_means(
        credit, groups, intervals=draws.intervals, resamples=draws.resamples, seed=draws.seed, progress=draws.progress
    )

    def mcnemar(one: str, other: str) -> dict[str, float | None]:
        try:
            test = mcnemar_test(credit[one], credit[other])
        except UndefinedStatistic:
            return {"McNemar": None, "McNemar mid-p": None}
        return {"McNemar": test.p, "McNemar mid-p": test.mid_p}

    return PairedEstimates(
        estimates,
        len(groups),
        images,
        classical=mcnemar,
        supposes_independence="McNemar's test" if len(groups) > images else "",
        left_out=_left_out(usable),
    )


def compare_means(rows: ComparedRows, draws: Draws) -> PairedEstimates:
    """Compare captioners by the mean of a metric's values.

    Args:
        rows: Documents.
        draws: The resamples, of documents.

    Raises:
        UndefinedStatistic: Fewer than two documents have a value of all.
    """
    usable = rows.usable
    n = int(usable.sum())
    if n < 2:
        raise UndefinedStatistic(f"{n} documents were scored in all runs")
    estimates = paired_means(
        {name: values[usable] for name, values in rows.scores.items()},
        np.arange(n),
        intervals=draws.intervals,
        resamples=draws.resamples,
        seed=draws.seed,
        progress=draws.progress,
    )
    return PairedEstimates(estimates, n, n)


def _left_out(usable: np.ndarray) -> tuple[int, int]:
    return int(np.count_nonzero(~usable)), len(usable)


def _williams(one: RatedScores, other: RatedScores, first: SpreadEstimate, second: SpreadEstimate) -> float | None:
    try:
        between = Pearson()(one.scores, other.scores, one.groups)
        return williams_test(first.value, second.value, between, len(one)).p
    except UndefinedStatistic:
        return None
