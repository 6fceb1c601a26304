"""Rankings of systems from battles, and how far two of them agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...statistics.battles.bradley_terry import as_elo, strengths, wins_of
from ...statistics.battles.online_elo import online_elo
from ...statistics.contract import RatedScores, Statistic, UndefinedStatistic


@dataclass(frozen=True)
class Fought:
    """Who fought whom.

    Attributes:
        systems: Names of the systems, in the order in which they come.
        first: ``[battles]`` the system of the first caption, by its place.
        second: ``[battles]`` that of the second.
    """

    systems: Sequence[str]
    first: np.ndarray
    second: np.ndarray

    @property
    def met(self) -> int:
        """How many pairs of systems fought."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        return len(np.unique(low * len(self.systems) + high))


class Ranking:
    """What systems are worth, by the outcomes that people, a metric or a judge give battles.

    Args:
        battles: The battles.
        share: ``[battles]`` what the first one gets: 1, a half or 0; NaN where there is no outcome.
        prior: Ties that are added to each pair of systems.
    """

    def __init__(self, battles: Fought, share: np.ndarray, prior: float) -> None:
        self._battles, self._prior = battles, prior
        self._known = np.flatnonzero(np.isfinite(share))
        self._share = share[self._known]
        self._latest: tuple[np.ndarray, np.ndarray | UndefinedStatistic] | None = None

    def bradley_terry(self, weights: np.ndarray) -> np.ndarray:
        """Return ``[systems]`` strengths on Elo's scale; of the latest weights they are kept.

        Args:
            weights: ``[battles]`` how often each counts.

        Raises:
            UndefinedStatistic: As of :func:`~..statistics.battles.bradley_terry.strengths`.
        """
        if self._latest is None or self._latest[0] is not weights:
            self._latest = (weights, self._fitted(weights))
        found = self._latest[1]
        if isinstance(found, UndefinedStatistic):
            raise found
        return found

    def _fitted(self, weights: np.ndarray) -> np.ndarray | UndefinedStatistic:
        battles, systems = self._battles, len(self._battles.systems)
        drawn = weights[self._known]
        wins = wins_of(battles.first[self._known], battles.second[self._known], self._share, systems, drawn)
        wins += self._prior / 2 * (1 - np.eye(systems))
        try:
            return as_elo(strengths(wins, battles.systems))
        except UndefinedStatistic as error:
            return error

    def elo(self, rounds: int) -> np.ndarray:
        """Return ``[systems]`` medians of online Elo, as CapArena computes them."""
        first, second = self._battles.first[self._known], self._battles.second[self._known]
        return online_elo(first, second, self._share, len(self._battles.systems), rounds)


def agreement_of(first: np.ndarray, second: np.ndarray, statistic: Statistic) -> float:
    """Return a statistic of two rankings, over the systems that both have."""
    ranked = np.isfinite(first) & np.isfinite(second)
    rated = RatedScores(first[ranked], second[ranked], np.arange(int(ranked.sum())))
    return statistic.value(rated, np.ones(len(rated)))


def share_of_first(scores: np.ndarray) -> np.ndarray:
    """Return ``[battles]`` 1 where the first of two scores is greater, 0 where the second is, a half where they tie.

    NaN where one is missing.
    """
    apart = np.sign(scores[:, 0] - scores[:, 1])
    return (1 + apart) / 2
