"""Numbers that are one sum over captions by another, and how they scatter over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ...statistics import Intervals
from ...statistics.bootstrap import Resampled
from ...statistics.contract import Interval, UndefinedStatistic
from ...statistics.influence import Influence, by_influence
from ...statistics.resampling import draw

_AT_ONCE = 100
"""Resamples whose weights are in memory at a time."""


@dataclass(frozen=True)
class Share:
    """One sum over captions by another.

    Attributes:
        of: ``[n]`` what each caption adds above.
        by: ``[n]`` what it adds below.
        why: Why there is no number where nothing is below.
    """

    of: np.ndarray
    by: np.ndarray
    why: str

    def value(self) -> float:
        """Return the number.

        Raises:
            UndefinedStatistic: Nothing is below.
        """
        below = float(self.by.sum())
        if not below > 0:
            raise UndefinedStatistic(self.why)
        return float(self.of.sum()) / below

    def influence(self) -> np.ndarray:
        """Return ``[n]`` the influence of each caption."""
        return (self.of - self.value() * self.by) / self.by.sum()


def intervals_of(
    shares: Mapping[str, Share],
    images: np.ndarray,
    intervals: Intervals,
    resamples: int,
    seed: int,
    level: float,
) -> dict[str, Interval]:
    """Return the interval of each number; the draws are those of all other statistics of the same images.

    Args:
        shares: The numbers, which have a value.
        images: ``[n]`` the image of each caption, from 0.
        intervals: How.
        resamples: How many; 0 gives no intervals.
        seed: Seed of the draws.
        level: Share of the resamples that an interval holds.
    """
    if not resamples or not shares:
        return {}
    count = int(images.max()) + 1
    if by_influence(intervals, len(images)):
        return {
            name: Influence.of_rows(one.value(), one.influence(), images, count).interval(level)
            for name, one in shares.items()
        }
    above, below = (
        _by_image(sums, images, count) for sums in zip(*((s.of, s.by) for s in shares.values()), strict=True)
    )
    found = np.full((resamples, len(shares)), np.nan)
    weights = draw(np.arange(count), count, resamples, seed)
    for first in range(0, resamples, _AT_ONCE):
        some = np.array(list(islice(weights, _AT_ONCE)))
        part = found[first : first + len(some)]
        denominators = some @ below
        np.divide(some @ above, denominators, out=part, where=denominators > 0)
    return {
        name: Resampled(found[:, place], count, one.why).interval(level)
        for place, (name, one) in enumerate(shares.items())
    }


def _by_image(sums: Sequence[np.ndarray], images: np.ndarray, count: int) -> np.ndarray:
    """Return ``[images, k]`` what the captions of each image add."""
    return np.array([np.bincount(images, one, minlength=count) for one in sums]).T
