"""Accuracy over pairs of captions, ties included, with the metric's own ties calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from ..contract import RatedScores, Statistic, UndefinedStatistic
from .means import systems_of

MOST_PAIRS = 5_000_000
"""Greatest number of pairs; each takes about 50 bytes, and a microsecond a resample."""

FOLDS = 10
"""Folds of images for which ε is calibrated on the others; fewer of fewer images."""

By = Literal["image", "system", "all"]
Calibration = Literal["cross_fit", "deutsch2023"]


class AccuracyEq(Statistic):
    """Share of pairs that scores order as ratings do, ties included (Deutsch et al. 2023).

    Metrics hardly ever tie, people often do. So scores that differ by no more than ``ε`` count as equal. ``ε`` is the
    smallest that maximises the accuracy, calibrated again for each resample. Ties of people are exact.
    Source: arXiv 2305.14324; google-research/mt-metrics-eval, ``tau_optimization.py`` (``acc23``; there a tenth of the
    pairs by default, drawn without seed).

    Calibrated on the rows that it is judged on, as in the paper, the accuracy is too high: by 0.04 at 10 images, 0.02
    at 30, 0.01 at 100. So pairs of an image get the ``ε`` of images in other folds, unless that is asked for. As each
    resample calibrates on its own noise and on that of the rows, accuracies scatter a tenth more on resamples than on
    samples: intervals are too wide.

    Args:
        by: Which pairs: of captions of one ``image``, of one ``system``, or of ``all``. Each image (or system) weighs
            the same; one with a single caption has no pair.
        epsilon: A fixed ``ε``, in units of the scores; None calibrates it.
        calibration: ``cross_fit``: on the other of ten folds of images, which ``by="image"`` alone has;
            ``deutsch2023``: on all rows, as released. None is the former where it can be.
    """

    label = "acc_eq"
    range = (0.0, 1.0)
    is_share = True

    def __init__(self, by: By = "image", epsilon: float | None = None, calibration: Calibration | None = None) -> None:
        if by not in ("image", "system", "all"):
            raise ValueError(f"by must be 'image', 'system' or 'all', not {by!r}")
        if epsilon is not None and not epsilon >= 0:
            raise ValueError(f"epsilon must be 0 or more, not {epsilon}")
        if calibration not in (None, "cross_fit", "deutsch2023"):
            raise ValueError(f"calibration must be 'cross_fit' or 'deutsch2023', not {calibration!r}")
        if calibration == "cross_fit" and by != "image":
            raise ValueError(f"calibration 'cross_fit' needs by: image, not {by!r}; use 'deutsch2023'")
        self.by: By = by
        self.epsilon = epsilon
        self.calibration: Calibration = calibration or ("cross_fit" if by == "image" else "deutsch2023")
        if epsilon is None:
            too_wide = "interval too wide: ε calibrated again on each resample"
            self.caution = too_wide if self.calibration == "cross_fit" else "ε calibrated on the same rows"
        self.needs = ("doc_to_system",) if by == "system" else ()

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return the accuracy, from 0 to 1; for ``image``, rows of an image have one weight."""
        return self._best(rated, weights)[0]

    def remark(self, rated: RatedScores) -> str:
        """Return the ε that was used; of folds the range, and their number."""
        epsilons = self._best(rated, np.ones(len(rated)))[1]
        if len(epsilons) == 1:
            return f"ε = {epsilons[0]:.6g}"
        return f"ε = {min(epsilons):.6g} to {max(epsilons):.6g}, cross-fitted on {len(epsilons)} folds of images"

    def _best(self, rated: RatedScores, weights: np.ndarray) -> tuple[float, list[float]]:
        """Return the accuracy, and each ε."""
        pairs = rated.derived(("accuracy_eq", self.by), partial(_Pairs.of, by=self.by))
        of_pair, certain = pairs.weights(weights, copies_are_groups=self.by == "image")
        # With ε rising, pairs become ties one after the other: right ones turn wrong, people's own ties right.
        turned = of_pair * pairs.turn
        gained, right = _gained(turned, pairs), certain + float((of_pair * pairs.concordant).sum())
        if self.epsilon is not None:
            chosen = [int(np.searchsorted(pairs.steps, self.epsilon / pairs.step + 0.5)) - 1]
            right += gained[chosen[0]]
        elif self.calibration == "deutsch2023":
            chosen = [_first_of_best(gained)]
            right += gained[chosen[0]]
        else:
            chosen: list[int] = []
            for fold in np.unique(pairs.fold[of_pair > 0]):
                is_own = pairs.fold == fold
                if not of_pair[~is_own].any():
                    raise UndefinedStatistic("one image has all pairs, so there is no other to calibrate ε on")
                of_fold = _gained(np.where(is_own, turned, 0.0), pairs)
                chosen.append(_first_of_best(gained - of_fold))
                right += of_fold[chosen[-1]]
        epsilons = (pairs.steps[chosen] * pairs.step).tolist() if self.epsilon is None else [self.epsilon]
        return min(float(right), 1.0), epsilons


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
        fold: ``[pairs]`` the fold of the group, from 0.
    """

    rows: np.ndarray
    group: np.ndarray
    concordant: np.ndarray
    turn: np.ndarray
    step: float
    steps: np.ndarray
    ends: np.ndarray
    fold: np.ndarray

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
        ends, fold = np.searchsorted(apart, steps, "right"), group[rows[:, 0]] % FOLDS
        return cls(rows, group, concordant.astype(float), turn, step, steps, ends, fold)

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
        share = counted / np.maximum(within, 1.0) / counted.sum()
        return of_pair * share[self.group[self.rows[:, 0]]], float((own * share).sum())


def _gained(turned: np.ndarray, pairs: _Pairs) -> np.ndarray:
    """Return ``[k]`` by how much the accuracy rises as pairs up to each ε tie."""
    return np.concatenate([[0.0], np.cumsum(turned)])[pairs.ends]


def _first_of_best(gained: np.ndarray) -> int:
    # Sums differ in their last bits: of equal maxima the first is meant.
    return int(np.flatnonzero(gained >= gained.max() - 1e-12)[0])


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
