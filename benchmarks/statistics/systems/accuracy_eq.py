"""Accuracy over pairs of captions, ties included, with the metric's own ties calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..contract import RatedScores, Statistic, UndefinedStatistic
from .means import systems_of

MOST_PAIRS = 5_000_000
"""Greatest number of pairs; each takes about 50 bytes, and a microsecond a resample."""

By = Literal["image", "system", "all"]


class AccuracyEq(Statistic):
    """Share of pairs that scores order as ratings do, ties included (Deutsch et al. 2023).

    Metrics hardly ever tie, people often do. So scores that differ by no more than ``ε`` count as equal. ``ε`` is the
    smallest that maximises the accuracy on the rows, calibrated again for each resample. Ties of people are exact.
    Source: arXiv 2305.14324; google-research/mt-metrics-eval, ``tau_optimization.py`` (``acc23``; there a tenth of the
    pairs by default, drawn without seed).

    Args:
        by: Which pairs: of captions of one ``image``, of one ``system``, or of ``all``. Each image (or system) weighs
            the same; one with a single caption has no pair.
        epsilon: A fixed ``ε``, in units of the scores; None calibrates it.
    """

    label = "acc_eq"
    range = (0.0, 1.0)

    def __init__(self, by: By = "image", epsilon: float | None = None) -> None:
        if by not in ("image", "system", "all"):
            raise ValueError(f"by must be 'image', 'system' or 'all', not {by!r}")
        if epsilon is not None and not epsilon >= 0:
            raise ValueError(f"epsilon must be 0 or more, not {epsilon}")
        self.by: By = by
        self.epsilon = epsilon
        self.needs = ("doc_to_system",) if by == "system" else ()
        self._latest: tuple[RatedScores, _Pairs] | None = None

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return the accuracy, from 0 to 1; for ``image``, rows of an image have one weight."""
        return self._best(rated, weights)[0]

    def remark(self, rated: RatedScores) -> str:
        """Return the ε that was found."""
        return f"ε = {self._best(rated, np.ones(len(rated)))[1]:.6g}"

    def _best(self, rated: RatedScores, weights: np.ndarray) -> tuple[float, float]:
        """Return the accuracy, and ε."""
        if self._latest is None or self._latest[0] is not rated:
            self._latest = (rated, _Pairs.of(rated, self.by))
        pairs = self._latest[1]
        of_pair, certain = pairs.weights(weights, copies_are_groups=self.by == "image")
        # With ε rising, pairs become ties one after the other: right ones turn wrong, people's own ties right.
        gained = np.concatenate([[0.0], np.cumsum(of_pair * pairs.turn)])[pairs.ends]
        accuracies = certain + float((of_pair * pairs.concordant).sum()) + gained
        if self.epsilon is not None:
            chosen = int(np.searchsorted(pairs.steps, self.epsilon / pairs.step + 0.5)) - 1
            return min(float(accuracies[chosen]), 1.0), self.epsilon
        # Sums differ in their last bits: of equal maxima the first is meant.
        chosen = int(np.flatnonzero(accuracies >= accuracies.max() - 1e-12)[0])
        return min(float(accuracies[chosen]), 1.0), float(pairs.steps[chosen] * pairs.step)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """All pairs inside groups, by rising difference of their scores, which are whole numbers of steps.

    Attributes:
        rows: ``[pairs, 2]``.
        group: ``[n]`` the group of each row, from 0.
        concordant: ``[pairs]`` 1 where both sides order the pair alike, else 0.
        turn: ``[pairs]`` what becomes of the pair as its scores tie: -1 if it was right, 1 if people tie, else 0.
        step: Differences of scores are multiples of it: a part of 1e12 of the greatest score.
        steps: ``[k]`` what ε may be, in steps: 0, and each difference.
        ends: ``[k]`` how many pairs differ by no more.
    """

    rows: np.ndarray
    group: np.ndarray
    concordant: np.ndarray
    turn: np.ndarray
    step: float
    steps: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, rated: RatedScores, by: By) -> _Pairs:
        """Return those of some rows."""
        group = _groups(rated, by)
        rows = _pairs_within(group)
        difference = rated.scores[rows[:, 0]] - rated.scores[rows[:, 1]]
        by_human = np.sign(rated.human[rows[:, 0]] - rated.human[rows[:, 1]])
        step = float(np.abs(rated.scores).max()) / 1e12 or 1.0
        apart = np.rint(np.abs(difference) / step)
        order = np.argsort(apart, kind="stable")
        rows, apart = rows[order], apart[order]
        concordant = ((np.sign(difference) == by_human) & (by_human != 0))[order]
        turn = np.where(by_human[order] == 0, 1.0, -concordant.astype(float))
        steps = np.unique(np.concatenate([[0.0], apart]))
        return cls(rows, group, concordant.astype(float), turn, step, steps, np.searchsorted(apart, steps, "right"))

    def weights(self, weights: np.ndarray, *, copies_are_groups: bool) -> tuple[np.ndarray, float]:
        """Return ``[pairs]`` the weight of each pair, and that of copies of a row, which are right for any ε.

        Raises:
            UndefinedStatistic: No group has a pair.
        """
        groups = int(self.group.max()) + 1
        if copies_are_groups:
            drawn = np.zeros(groups)
            drawn[self.group] = weights
            sizes = np.bincount(self.group, minlength=groups)
            within, of_pair, own = sizes * (sizes - 1) / 2, np.ones(len(self.rows)), np.zeros(groups)
        else:
            total = np.bincount(self.group, weights, minlength=groups)
            within, of_pair = total * (total - 1) / 2, weights[self.rows].prod(axis=1)
            own = np.bincount(self.group, weights * (weights - 1) / 2, minlength=groups)
            drawn = np.ones(groups)
        counted = np.where(within > 0, drawn, 0.0)
        if not counted.any():
            raise UndefinedStatistic("no two captions are of one group")
        share = counted / np.where(within > 0, within, 1.0) / counted.sum()
        return of_pair * share[self.group[self.rows[:, 0]]], float((own * share).sum())


def _groups(rated: RatedScores, by: By) -> np.ndarray:
    if by == "system":
        return systems_of(rated)
    if by == "all":
        return np.zeros(len(rated), np.int64)
    return np.unique(rated.groups, return_inverse=True)[1]


def _pairs_within(group: np.ndarray) -> np.ndarray:
    """Return ``[pairs, 2]`` all pairs of rows of one group.

    Raises:
        UndefinedStatistic: There are none, or too many.
    """
    sizes = np.bincount(group)
    count = int((sizes * (sizes - 1) // 2).sum())
    if not count:
        raise UndefinedStatistic("no two captions are of one group")
    if count > MOST_PAIRS:
        raise UndefinedStatistic(f"{count:,} pairs are more than {MOST_PAIRS:,}: choose those of an image (by: image)")
    order = np.argsort(group, kind="stable")
    group = group[order]
    pairs: list[np.ndarray] = []
    for step in range(1, int(sizes.max())):
        first = np.flatnonzero(group[step:] == group[:-step])
        pairs.append(np.stack([order[first], order[first + step]], axis=1))
    return np.concatenate(pairs)
