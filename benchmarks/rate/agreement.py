"""How far raters agree: Krippendorff's alpha, and the share of pairs of answers that are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

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
    weighing ``1 / (m - 1)`` (Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011, sections C and D).

    Args:
        answered: The answers.
        weights: ``[units]`` whole numbers: how often each unit counts.

    Raises:
        UndefinedStatistic: No unit has two answers, or all answers are equal.
    """
    often = np.where(answered.compared, weights, 0)
    counts = answered.counts.astype(np.float64)
    if not often.any():
        raise UndefinedStatistic("no caption or choice has answers of two raters")
    values = often @ counts
    if np.count_nonzero(values) < 2:
        raise UndefinedStatistic("all answers are equal")
    others = np.maximum(counts.sum(axis=1) - 1, 1)
    # A pair of equal answers, which each answer is with itself, adds nothing: its distance is 0.
    coincidences = counts.T @ (counts * (often / others)[:, None])
    apart = _distances(values, answered.level)
    observed = float((coincidences * apart).sum())
    expected = float(values @ apart @ values) / (values.sum() - 1)
    return 1 - observed / expected


def _distances(values: np.ndarray, level: Level) -> np.ndarray:
    """Return ``[values, values]`` squared differences, of values that so many answers have."""
    if level == "nominal":
        return 1 - np.eye(len(values))
    # Ranks in the middle of those of equal answers.
    places = np.cumsum(values) - values / 2
    return (places[:, None] - places) ** 2


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
