"""The interface of a statistic of agreement with human judgement."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from .near_ties import settle

if TYPE_CHECKING:
    from .concordance import Concordance

T = TypeVar("T")
FEW_IMAGES = 20
"""Below it, an interval has a caution."""


@dataclass(frozen=True, eq=False)
class RatedScores:
    """Scores of a metric and human ratings of the same rows, near ties made ties (:func:`.near_ties.settle`).

    Attributes:
        scores: ``[n]`` float64, finite.
        human: ``[n]`` float64, finite.
        groups: ``[n]`` integers: which image (or video) a row belongs to.
        systems: ``[n]`` integers from 0: the system that wrote a row's caption; None where the data names none.
        categories: ``[n]`` integers: which part of the data a row belongs to; None where it has no parts.

    Raises:
        UndefinedStatistic: A score or a rating is not finite.
    """

    scores: np.ndarray
    human: np.ndarray
    groups: np.ndarray
    systems: np.ndarray | None = None
    categories: np.ndarray | None = None
    _derived: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any], init=False, repr=False)

    def __post_init__(self) -> None:
        require_finite(self.scores, "scores")
        require_finite(self.human, "ratings")
        object.__setattr__(self, "scores", settle(self.scores))
        object.__setattr__(self, "human", settle(self.human))

    def __len__(self) -> int:
        return len(self.scores)

    def at(self, rows: np.ndarray) -> RatedScores:
        """Return some of the rows; systems without any lose their number."""
        return RatedScores(
            self.scores[rows],
            self.human[rows],
            self.groups[rows],
            None if self.systems is None else np.unique(self.systems[rows], return_inverse=True)[1],
            None if self.categories is None else self.categories[rows],
        )

    def derived(self, key: Hashable, derive: Callable[[RatedScores], T]) -> T:
        """Return what a statistic derives from the rows, once for all resamples.

        Args:
            key: What it is.
            derive: Derives it.
        """
        if key not in self._derived:
            self._derived[key] = derive(self)
        return self._derived[key]

    @cached_property
    def by_category(self) -> dict[int, tuple[np.ndarray, RatedScores]]:
        """Which rows each category has, and these; split once for all statistics and resamples.

        Raises:
            UndefinedStatistic: The rows name no categories.
        """
        if self.categories is None:
            raise UndefinedStatistic("the rows name no categories")
        rows_of = {int(code): np.flatnonzero(self.categories == code) for code in np.unique(self.categories)}
        return {category: (rows, self.at(rows)) for category, rows in rows_of.items()}

    @cached_property
    def concordance(self) -> Concordance:
        """Counts concordant, discordant and tied pairs; sorted once for all statistics and resamples."""
        from .concordance import Concordance

        return Concordance(self.scores, self.human)


@dataclass(frozen=True)
class Interval:
    """A confidence interval, or the reason why there is none.

    Attributes:
        low: Lower end; None when there is no interval.
        high: Upper end; None when there is no interval.
        stderr: Standard error: the standard deviation over the resamples, or that of the influence function; None when
            there is no interval.
        resamples: Resamples on which the statistic was defined; 0 where none were drawn.
        reason: Why there is no interval; empty when there is one.
        method: How it was made: ``bootstrap`` (bias-corrected percentiles of the resamples), ``influence`` (Student's
            t) or ``wilson`` (of a share, with the standard error of either).
        caution: Why it may not cover what is stated; empty where it does.
    """

    low: float | None
    high: float | None
    stderr: float | None
    resamples: int
    reason: str = ""
    method: Literal["bootstrap", "influence", "wilson"] = "bootstrap"
    caution: str = ""

    @property
    def ends(self) -> tuple[float, float] | None:
        """Both ends; None when there is no interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)


ONE_IMAGE = "fewer than 2 images to draw from"
"""Why there is no interval over an image or none."""


def caution_of(images: int) -> str:
    """Return what to know about an interval over so many images; empty for enough of them."""
    return f"interval over only {images} images" if images < FEW_IMAGES else ""


class UndefinedStatistic(Exception):  # noqa: N818 - often it is no error
    """The statistic has no value on these rows; the message says why."""


def require_finite(values: np.ndarray, subject: str) -> None:
    """Check that all numbers are finite.

    Args:
        values: ``[n]`` numbers.
        subject: Their name in the message.

    Raises:
        UndefinedStatistic: One is not; the message counts them and gives the first.
    """
    if len(bad := values[~np.isfinite(values)]):
        raise UndefinedStatistic(f"{len(bad)} of {len(values)} {subject} are not finite: {bad[0]}")


def dot(first: np.ndarray, second: np.ndarray) -> float:
    """Return ``Σ first · second``.

    Not ``first @ second``: BLAS spreads vectors of this size over threads, which on a busy machine takes ten
    times as long, and rounds differently for another number of threads.
    """
    return float((first * second).sum())


class Statistic(ABC):
    """Compares scores with human judgement.

    Every statistic takes integer weights, a row of weight ``k`` counting as ``k`` equal rows, so a
    bootstrap draws weights instead of copying rows.
    """

    label: str
    """The name as papers print it (``"τ-b"``)."""
    higher_is_better: bool = True
    range: tuple[float, float] = (-1.0, 1.0)
    """Least and greatest value; one without an upper end is never shown as a percentage."""
    is_share: bool = False
    """Whether it is a share of rows or pairs, between 0 and 1, so that intervals are Wilson's."""
    caution: str = ""
    """Why its intervals may not cover what is stated; empty where they do."""
    is_correlation: bool = False
    """Whether it lies between -1 and 1, with less scatter towards the ends, so that intervals are of Fisher's z."""
    needs: Sequence[str] = ()
    """The ``doc_to_*`` keys that a task must have for it."""

    @abstractmethod
    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return the statistic.

        Args:
            rated: ``n`` rows.
            weights: ``[n]`` non-negative integers (any dtype), not all 0.

        Raises:
            UndefinedStatistic: Too few rows, or values without variance.
        """

    def influence(self, rated: RatedScores) -> np.ndarray | None:
        """Return the influence function: the derivative of the statistic by each row's weight, at weights of 1.

        Callers only sum it over the rows of a group, so a group's influence may be split among its rows in any way.

        Args:
            rated: ``n`` rows.

        Returns:
            ``[n]``; None where no influence function is known, so that intervals need resamples.

        Raises:
            UndefinedStatistic: As of :meth:`value`.
        """
        return None

    def p_value(self, rated: RatedScores) -> float | None:
        """Return the p of the statistic's exact test, for rows where it has a value; None without a test."""
        return None

    def remark(self, rated: RatedScores) -> str:
        """Return a remark to print next to the value, for rows where it has one; empty for none."""
        return ""

    def __call__(
        self, scores: np.ndarray, human: np.ndarray, groups: np.ndarray, systems: np.ndarray | None = None
    ) -> float:
        """Return the statistic of unweighted rows (``scores [n], human [n], groups [n], systems [n]``)."""
        rated = RatedScores(np.asarray(scores, float), np.asarray(human, float), np.asarray(groups), systems)
        return self.value(rated, np.ones(len(rated)))


Statistics = Mapping[str, Statistic]
"""Statistics by name."""


class FunctionStatistic(Statistic):
    """A statistic given as a plain function ``f(scores [n], human [n], groups [n]) -> float``.

    Args:
        function: The function; NaN means undefined.
        **kwargs: Passed to the function.

    Raises:
        TypeError: The function cannot be called so.
    """

    def __init__(self, function: Callable[[np.ndarray, np.ndarray, np.ndarray], float], **kwargs: Any) -> None:
        inspect.signature(function).bind(None, None, None, **kwargs)
        self._function = function
        self._kwargs = kwargs

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Call the function on rows repeated by their weight, each copy of an image as a separate group."""
        times = np.asarray(weights).astype(np.int64)
        rows = np.repeat(np.arange(len(rated)), times)
        # Were copies of an image one group, a statistic within images would see tied rows in it.
        copy = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
        _, groups = np.unique(np.stack([rated.groups[rows], copy]), axis=1, return_inverse=True)
        value = float(self._function(rated.scores[rows], rated.human[rows], groups, **self._kwargs))
        if not np.isfinite(value):
            raise UndefinedStatistic("the function returned no finite number")
        return value
