"""Elo ratings as CapArena computes them: battle by battle, medians over shuffled resamples."""

from __future__ import annotations

import numpy as np

K, SCALE, START = 4.0, 400.0, 1000.0


def online_elo(
    first: np.ndarray, second: np.ndarray, share: np.ndarray, systems: int, rounds: int = 1000, seed: int = 42
) -> np.ndarray:
    """Return ``[systems]`` median ratings over resamples of battles, each of which is gone through in a random order.

    A battle moves both systems by ``4 · (result - expected result)``, so that ratings depend on the order and, of few
    battles, have not gone far from 1,000; medians over resamples take most of the order away. A system that a resample
    has no battle of does not count in it; one without any battle is NaN. Source: CapArena (arXiv 2503.12329),
    ``cal_ranking.py``, draws included.

    Args:
        first: ``[battles]`` a system, from 0.
        second: ``[battles]`` the other.
        share: ``[battles]`` what the first one gets: 1, a half or 0.
        systems: How many there are.
        rounds: How many resamples.
        seed: Seed of the draws.
    """
    battles = len(first)
    # The generator that pandas draws from.
    generator = np.random.RandomState(seed)
    drawn = np.stack([generator.choice(battles, battles) for _ in range(rounds)])
    ratings = np.full((rounds, systems), START)
    every = np.arange(rounds)
    for battle in drawn.T:
        one, other = first[battle], second[battle]
        expected = 1 / (1 + 10 ** ((ratings[every, other] - ratings[every, one]) / SCALE))
        moved = K * (share[battle] - expected)
        ratings[every, one] += moved
        ratings[every, other] -= moved
    fought = np.zeros((rounds, systems), bool)
    for side in (first, second):
        fought[every[:, None], side[drawn]] = True
    medians = np.full(systems, np.nan)
    for system in np.flatnonzero(fought.any(axis=0)).tolist():
        medians[system] = np.median(ratings[fought[:, system], system])
    return medians
