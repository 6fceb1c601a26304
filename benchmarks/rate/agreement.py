"""How far raters agree: Krippendorff's alpha, and the share of pairs of answers that are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...errors import UsageError
from ..statistics.contract import UndefinedStatistic

Level = Literal["ordinal", "nominal"]


@dataclass(frozen=True)
class Answered:
    """Answers of some raters to one question.

    Attributes:
        counts: ``[units, values]`` how many raters gave each value to a unit: a caption, or a choice between some.
        clusters: ``[units]`` integers from 0: which image a unit is of.
        level: What values are: numbers of a scale, or names.
    """

    counts: np.ndarray
    clusters: np.ndarray
    level: Level

    @property
    def compared(self) -> np.ndarray:
        """``[units]`` whether two raters or more have answered."""
        return self.counts.sum(axis=1) >= 2


def alpha(answered: Answered, weights: np.ndarray) -> float:
    """Return Krippendorff's alpha: 1 for raters who always agree, 0 for ones who agree as chance would have it.

    It is ``1 - D_o / D_e`` over units that two raters or more have answered, each pair of answers of a unit of ``m``
    weighing ``1 / (m - 1)`` (Krippendorff 2004, Reliability in Content Analysis: Some Common Misconceptions and
    Recommendations), as the package krippendorff computes it.

    Args:
        answered: The answers.
        weights: ``[units]`` whole numbers: how often each unit counts.

    Raises:
        UndefinedStatistic: No unit has two answers, or all answers are equal.
        UsageError: The package krippendorff is not installed.
    """
    try:
        import krippendorff
    except ImportError as error:
        raise UsageError(
            "how far raters agree is computed by the package krippendorff, which is not installed",
            "pip install 'capbench[rate]'",
        ) from error
    counts = np.repeat(answered.counts, np.where(answered.compared, weights, 0).astype(int), axis=0)
    if not len(counts):
        raise UndefinedStatistic("no caption or choice has answers of two raters")
    if np.count_nonzero(counts.sum(axis=0)) < 2:
        raise UndefinedStatistic("all answers are equal")
    return float(krippendorff.alpha(value_counts=counts, level_of_measurement=answered.level))


def equal_share(answered: Answered, weights: np.ndarray, within: int = 0) -> float:
    """Return the share of pairs of answers to the same unit that are equal, of all pairs of all units.

    Args:
        answered: The answers.
        weights: ``[units]`` how often each unit counts.
        within: Numbers of a scale that differ by no more are equal, too.

    Raises:
        UndefinedStatistic: No unit has two answers.
    """
    counts = answered.counts.astype(np.float64)
    total = counts.sum(axis=1)
    pairs = total * (total - 1) / 2
    agreeing = (counts * (counts - 1) / 2).sum(axis=1)
    for apart in range(1, within + 1):
        agreeing += (counts[:, apart:] * counts[:, :-apart]).sum(axis=1)
    every = float(pairs @ weights)
    if not every:
        raise UndefinedStatistic("no caption or choice has answers of two raters")
    return float(agreeing @ weights) / every
