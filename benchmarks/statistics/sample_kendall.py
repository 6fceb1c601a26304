"""Kendall's τ inside each image, averaged over the images ("sample τ")."""

from typing import Literal

import numpy as np

from .contract import RatedScores, Statistic, UndefinedStatistic, dot

Variant = Literal["a", "b", "c"]


class SampleKendall(Statistic):
    """Mean over images of the τ of the image's own rows.

    An image drawn ``k`` times counts ``k`` times in the mean, its τ unchanged: its copies are ``k`` images,
    not one image of repeated (tied) rows. For weights that differ inside an image, copy ``j`` holds the rows
    of weight above ``j``. An image with a single row has no pair and is always left out.

    Args:
        variant: ``"b"`` forgives ties; ``"a"`` is (C-D) / all pairs; ``"c"`` is Stuart's.
        undefined: What to do with an image whose scores, or whose ratings, are all equal: ``"skip"`` it, or
            count it as ``"zero"``.
    """

    label = "sample τ"

    def __init__(self, variant: Variant = "b", undefined: Literal["skip", "zero"] = "skip") -> None:
        if variant not in ("a", "b", "c"):
            raise ValueError(f"variant must be 'a', 'b' or 'c', not {variant!r}")
        if undefined not in ("skip", "zero"):
            raise ValueError(f"undefined must be 'skip' or 'zero', not {undefined!r}")
        self.variant: Variant = variant
        self.undefined = undefined

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return the mean τ, from -1 to 1."""
        first_row, group, taus = rated.derived(("sample_kendall", self.variant), self._groups)
        draws = weights[first_row]
        if np.array_equal(draws[group], weights):
            return self._mean(taus, draws)
        copies = [
            _taus(rated.scores[rows], rated.human[rows], group[rows], len(taus), self.variant)
            for rows in (weights > copy for copy in range(int(weights.max())))
        ]
        all_taus = np.concatenate(copies)
        return self._mean(all_taus, np.ones(len(all_taus)))

    def influence(self, rated: RatedScores) -> np.ndarray:
        """Return, of each row, its share of what its image adds to the mean; images that are left out add nothing."""
        value = self.value(rated, np.ones(len(rated)))
        _, group, taus = rated.derived(("sample_kendall", self.variant), self._groups)
        taus = self._counted(taus)
        counted = np.isfinite(taus)
        rows = np.bincount(group, minlength=len(taus))
        return (np.where(counted, taus - value, 0.0) / (counted.sum() * rows))[group]

    def _groups(self, rated: RatedScores) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first row of each image, the image of each row, and the τ of each image."""
        _, first_row, group = np.unique(rated.groups, return_index=True, return_inverse=True)
        return first_row, group, _taus(rated.scores, rated.human, group, len(first_row), self.variant)

    def _counted(self, taus: np.ndarray) -> np.ndarray:
        """Return τ as they count: zero for undefined ones if requested, not finite where an image is left out."""
        return np.nan_to_num(taus, nan=0.0, posinf=np.inf) if self.undefined == "zero" else taus

    def _mean(self, taus: np.ndarray, draws: np.ndarray) -> float:
        """Average τ (infinite: no pair; NaN: undefined) over images that count ``draws`` times."""
        taus = self._counted(taus)
        counted = np.isfinite(taus) & (draws > 0)
        if not counted.any():
            raise UndefinedStatistic("no image has two rows of different scores and different ratings")
        return dot(draws[counted], taus[counted]) / float(draws[counted].sum())


def _taus(scores: np.ndarray, human: np.ndarray, group: np.ndarray, groups: int, variant: Variant) -> np.ndarray:
    """Return the τ of each group (``[groups]``; infinite without a pair of rows, NaN where undefined).

    Compares all pairs inside a group, for all groups at once: quick because images have few rows.
    """
    order = np.argsort(group, kind="stable")
    scores, human, group = scores[order], human[order], group[order]
    sizes = np.bincount(group, minlength=groups)
    balance, untied_scores, untied_human = np.zeros((3, groups))
    for step in range(1, int(sizes.max(initial=1))):
        pair = np.flatnonzero(group[step:] == group[:-step])
        by_score = np.sign(scores[pair + step] - scores[pair])
        by_human = np.sign(human[pair + step] - human[pair])
        of = group[pair]
        balance += np.bincount(of, by_score * by_human, minlength=groups)
        untied_scores += np.bincount(of, by_score != 0, minlength=groups)
        untied_human += np.bincount(of, by_human != 0, minlength=groups)

    if variant == "a":
        scale = sizes * (sizes - 1) / 2
    elif variant == "b":
        scale = np.sqrt(untied_scores) * np.sqrt(untied_human)
    else:
        classes = np.minimum(_distinct(scores, group, groups), _distinct(human, group, groups))
        scale = sizes**2 * (classes - 1) / (2 * np.maximum(classes, 1))
    undefined = (untied_scores == 0) | (untied_human == 0)
    taus = np.clip(balance / np.where(undefined, 1, scale), -1, 1)
    return np.where(sizes < 2, np.inf, np.where(undefined, np.nan, taus))


def _distinct(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Return the number of distinct values in each group."""
    order = np.lexsort((values, group))
    values, group = values[order], group[order]
    new = np.ones(len(values), bool)
    new[1:] = (values[1:] != values[:-1]) | (group[1:] != group[:-1])
    return np.bincount(group[new], minlength=groups)
