"""Which of several metrics are significantly different: paired tests on the same resamples, and letters."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from .influence import Spread
from .intervals import FEWEST_FOR_LETTERS
from .multiple_comparisons import holm, significance_letters
from .paired import Difference, difference

ALPHA = 0.05
"""The level of the groups of a run; ``bench compare`` takes others."""


@dataclass(frozen=True)
class Ranking:
    """Metrics (or captioners), best first, and the differences of all pairs.

    Attributes:
        groups: Name to letters, best first: two have a letter in common exactly if they are not significantly
            different. Without letters where there are fewer than :data:`.intervals.FEWEST_FOR_LETTERS` images.
        pairs: All pairs, the better one first.
        differences: Of each pair.
        corrected: p of each pair after Holm's correction; None where it is undefined.
    """

    groups: dict[str, str]
    pairs: list[tuple[str, str]]
    differences: list[Difference]
    corrected: list[float | None]


def rank(estimates: Mapping[str, Spread], *, higher_is_better: bool, alpha: float = ALPHA) -> Ranking:
    """Rank estimates from the same resamples, and test every pair.

    Args:
        estimates: Name to its value on all rows and on the resamples.
        higher_is_better: Whether the greatest value is the best.
        alpha: Two differ where the p after Holm's correction is below it; intervals hold 1 - alpha.
    """
    names = sorted(estimates, key=lambda name: estimates[name].value, reverse=higher_is_better)
    indices = list(itertools.combinations(range(len(names)), 2))
    pairs = [(names[first], names[other]) for first, other in indices]
    differences = [difference(estimates[first], estimates[other], 1 - alpha) for first, other in pairs]
    corrected = holm([gap.p for gap in differences])
    different = [pair for pair, p in zip(indices, corrected, strict=True) if p is not None and p < alpha]
    letters = significance_letters(len(names), different)
    if any(estimate.images < FEWEST_FOR_LETTERS for estimate in estimates.values()):
        letters = [""] * len(names)
    return Ranking(dict(zip(names, letters, strict=True)), pairs, differences, corrected)
