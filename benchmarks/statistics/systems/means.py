"""Mean score and mean rating of each system over its captions."""

import numpy as np

from ..contract import RatedScores, UndefinedStatistic
from ..near_ties import settle

FEW_SYSTEMS = "interval biased by resampling few systems"
"""The caution of statistics over systems: their means scatter on resamples, which pulls a correlation down."""


def systems_of(rated: RatedScores) -> np.ndarray:
    """Return ``[n]`` the system of each row, from 0.

    Raises:
        UndefinedStatistic: The rows do not say, or name fewer than two.
    """
    if rated.systems is None:
        raise UndefinedStatistic("the rows name no systems: the task needs doc_to_system")
    if len(rated) == 0 or rated.systems.max() < 1:
        raise UndefinedStatistic("fewer than 2 systems")
    return rated.systems


def system_means(rated: RatedScores, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``[systems]`` mean scores and mean ratings, each over the rows that a system has.

    Args:
        rated: ``n`` rows.
        weights: ``[n]`` how often each row counts.

    Raises:
        UndefinedStatistic: There are fewer than two systems, or one has no row of positive weight.
    """
    systems = systems_of(rated)
    counts = np.bincount(systems, weights)
    if not counts.all():
        raise UndefinedStatistic("a system has no caption")
    scores, human = (np.bincount(systems, weights * column) / counts for column in (rated.scores, rated.human))
    return settle(scores), settle(human)


def said_of_systems(rated: RatedScores) -> str:
    """Return how many systems there are, and how many captions each has where these differ."""
    counts = np.bincount(systems_of(rated))
    if counts.min() == counts.max():
        return f"{len(counts)} systems"
    return f"{len(counts)} systems of {counts.min():,} to {counts.max():,} ratings"
