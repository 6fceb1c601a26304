"""Soft pairwise accuracy: are people and the metric equally sure which of two systems is better?"""

from functools import lru_cache

import numpy as np

from ..contract import RatedScores, Statistic, UndefinedStatistic
from .means import FEW_SYSTEMS, said_of_systems, systems_of

_PERMUTATIONS, _SEED = 1000, 4


class SoftPairwiseAccuracy(Statistic):
    """``1 - mean |p_human - p_metric|`` over pairs of systems (Thompson et al. 2024, arXiv 2409.09598).

    A ``p`` is that of a paired permutation test, one-sided: the share of random signs of the differences, image by
    image, whose sum is at least the observed one. Signs are the same for all pairs, for people and metric. Images count
    that have captions of all systems; several ratings of a caption are averaged. Equal sums count as greater, in
    float32, as in google-research/mt-metrics-eval (``pce.py``): the value depends on the order in which systems first
    occur in the data, and scores that contradict people are not at 0.
    """

    label = "SPA"
    range = (0.0, 1.0)
    needs = ("doc_to_system",)
    caution = FEW_SYSTEMS

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return the accuracy, from 0 to 1; rows of an image have one weight."""
        scores, human, first_row = rated.derived("complete images", _complete)
        drawn = np.repeat(np.arange(len(first_row)), weights[first_row].astype(np.int64))
        if not len(drawn):
            raise UndefinedStatistic("no image has captions of all systems")
        of_scores, of_human = (self._ps(column[:, drawn]) for column in (scores, human))
        return 1.0 - float(np.mean(np.abs(of_human - of_scores)))

    def remark(self, rated: RatedScores) -> str:
        """Return how many systems there are, and how many images count."""
        complete, images = len(rated.derived("complete images", _complete)[2]), len(np.unique(rated.groups))
        counted = "" if complete == images else f"; {complete:,} of {images:,} images have all"
        return said_of_systems(rated) + counted

    def _ps(self, values: np.ndarray) -> np.ndarray:
        """Return ``[pairs]`` the p of each pair of ``[systems, images]``."""
        first, other = np.triu_indices(len(values), 1)
        # Sums of float32 depend on their order, which is that of memory.
        values = np.ascontiguousarray(values, np.float32)
        sums, seen = np.matmul(_signs(values.shape[1]), values.T), values.sum(axis=1)
        return np.mean(sums[:, first] - sums[:, other] >= seen[first] - seen[other], axis=0)


def _complete(rated: RatedScores) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean scores and ratings ``[systems, images]`` of the images that have captions of all systems.

    And ``[images]`` a row of each.
    """
    systems = systems_of(rated)
    _, first_row, image = np.unique(rated.groups, return_index=True, return_inverse=True)
    shape = (int(systems.max()) + 1, len(first_row))
    cell = systems * shape[1] + image
    counts = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    whole = np.flatnonzero(counts.all(axis=0))
    scores, human = (
        np.bincount(cell, column, minlength=counts.size).reshape(shape)[:, whole] / counts[:, whole]
        for column in (rated.scores, rated.human)
    )
    return scores, human, first_row[whole]


@lru_cache(maxsize=2)
def _signs(images: int) -> np.ndarray:
    """Return ``[permutations, images]`` signs, float32; cached, as people and metric have the same."""
    drawn = np.random.default_rng(_SEED).random((_PERMUTATIONS, images), dtype=np.float32)
    return 2 * np.rint(drawn) - 1
