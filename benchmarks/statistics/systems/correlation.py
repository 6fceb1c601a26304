"""Correlations of systems' mean scores and mean ratings, with an exact permutation test for few systems.

Each is one of Daniels' general coefficients (Daniels 1944): a sum over pairs of systems of products of scores' and
ratings' values for the pair. All have one test: it permutes the ratings over the systems, and p is the share of
permutations that agree with the scores at least as much as the observed one. The bootstrap draws images, with systems
fixed; only the test covers the sampling of systems.
"""

import itertools
import math
from abc import abstractmethod
from functools import lru_cache

import numpy as np

from ..contract import RatedScores, Statistic, UndefinedStatistic, dot
from .means import FEW_SYSTEMS, said_of_systems, system_means

MOST_PERMUTED = 8
"""Greatest number of systems that are permuted exhaustively: 40,320 orders."""


class OverPairs(Statistic):
    """A statistic of what scores and ratings say of each pair of systems."""

    needs = ("doc_to_system",)
    caution = FEW_SYSTEMS

    def of_pairs(self, values: np.ndarray) -> np.ndarray:
        """Return ``[systems, systems]`` what values say of each pair, positive where the first is the greater."""
        return np.sign(np.subtract.outer(values, values))

    @abstractmethod
    def agreement(self, scores: np.ndarray, human: np.ndarray) -> np.ndarray:
        """Return ``[...]`` the value, given what scores ``[pairs]`` and ratings ``[..., pairs]`` say of pairs.

        Raises:
            UndefinedStatistic: One side says the same of all.
        """

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return the statistic of the means of systems."""
        scores, human = map(self.of_pairs, system_means(rated, weights))
        pairs = np.triu_indices(len(scores), 1)
        return float(self.agreement(scores[pairs], human[pairs]))

    def p_value(self, rated: RatedScores) -> float | None:
        """Return the one-sided p of the exact permutation test; None for many systems."""
        scores, human = map(self.of_pairs, system_means(rated, np.ones(len(rated))))
        systems = len(scores)
        if systems > MOST_PERMUTED:
            return None
        first, other = np.triu_indices(systems, 1)
        orders = _orders(systems)
        values = self.agreement(scores[first, other], human[orders[:, first], orders[:, other]])
        return float(np.count_nonzero(values >= values[0] - 1e-12) / len(values))

    def remark(self, rated: RatedScores) -> str:
        """Return how many systems there are."""
        return said_of_systems(rated)


class _Coefficient(OverPairs):
    """``Σ ab / sqrt(Σ a² Σ b²)`` over pairs."""

    is_correlation = True

    def agreement(self, scores: np.ndarray, human: np.ndarray) -> np.ndarray:
        """Return the coefficient, from -1 to 1."""
        # The spread of ratings is that of any order of them.
        spreads = [dot(column, column) for column in (scores, human.reshape(-1, len(scores))[0])]
        for spread, noun in zip(spreads, ("scores", "ratings"), strict=True):
            if spread == 0:
                raise UndefinedStatistic(f"all systems have equal {noun}")
        return np.clip((human * scores).sum(axis=-1) / math.prod(map(math.sqrt, spreads)), -1, 1)


class SystemPearson(_Coefficient):
    """Pearson's r of the mean scores and the mean ratings of systems."""

    label = "system PCC"

    def of_pairs(self, values: np.ndarray) -> np.ndarray:
        """Return differences, of values moved to 0..1 so that squares neither overflow nor vanish."""
        low, high = float(values.min()), float(values.max())
        scaled = (values - low) / ((high - low) or 1.0)
        return np.subtract.outer(scaled, scaled)


class SystemSpearman(_Coefficient):
    """Pearson's r of the ranks of systems, tied ones sharing their mean rank."""

    label = "system ρ"

    def of_pairs(self, values: np.ndarray) -> np.ndarray:
        """Return differences of ranks."""
        ranks = super().of_pairs(values).sum(axis=1) / 2
        return np.subtract.outer(ranks, ranks)


class SystemKendall(_Coefficient):
    """Kendall's τ-b of systems."""

    label = "system τ-b"


class PairwiseAccuracy(OverPairs):
    """Share of pairs of systems that scores order as ratings do; a tie is right where it is one of both.

    Source: Kocmi et al. 2021; google-research/mt-metrics-eval, ``stats.Agreement``.
    """

    label = "pairwise accuracy"
    range = (0.0, 1.0)

    def agreement(self, scores: np.ndarray, human: np.ndarray) -> np.ndarray:
        """Return the share, from 0 to 1."""
        return np.mean(scores == human, axis=-1)


@lru_cache(maxsize=2)
def _orders(systems: int) -> np.ndarray:
    """Return ``[systems!, systems]`` all orders, the one that changes nothing first."""
    return np.array(list(itertools.permutations(range(systems))), np.int8)
