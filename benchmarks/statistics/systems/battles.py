"""Battles of systems, two captions of an image compared: Bradley-Terry strengths, and online Elo.

Strengths do not depend on the order of battles; Elo ratings are medians over shuffled resamples, as CapArena
computes them.
"""

import math
from collections.abc import Sequence

import numpy as np

from ..contract import UndefinedStatistic

ELO_SCALE = 400 / math.log(10)
ELO_START = 1000.0
_STEPS = 100


def wins_of(
    first: np.ndarray, second: np.ndarray, share: np.ndarray, systems: int, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return ``[systems, systems]`` wins of the row's system over the column's; a tie is half a win of both.

    Args:
        first: ``[battles]`` a system, from 0.
        second: ``[battles]`` the other.
        share: ``[battles]`` score of the first one: 1, a half or 0, or anything between.
        systems: How many there are.
        weights: ``[battles]`` how often each counts; None for once.
    """
    count = np.ones(len(first)) if weights is None else weights
    wins = np.bincount(first * systems + second, count * share, minlength=systems * systems)
    wins += np.bincount(second * systems + first, count * (1 - share), minlength=systems * systems)
    return wins.reshape(systems, systems)


def strengths(wins: np.ndarray, names: Sequence[str] = ()) -> np.ndarray:
    """Return ``[systems]`` maximum-likelihood strengths θ, of sum 0: one beats another at odds ``exp(θi - θj)``.

    Ties count as half a win of both (Bradley & Terry 1952; Hunter 2004, section 1).

    Args:
        wins: ``[systems, systems]`` as of :func:`wins_of`.
        names: What systems are called; by their number unless given.

    Raises:
        UndefinedStatistic: The likelihood has no maximum, as wins (or ties) do not connect each system to each other
            one: some never met, directly or through others, or some never lost. The message names them.
    """
    if fault := _fault(wins, names or [str(number) for number in range(len(wins))]):
        raise UndefinedStatistic(fault)
    met: np.ndarray = wins + wins.T
    logits: np.ndarray = np.zeros(len(wins))
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(np.subtract.outer(logits, logits).T))
        slope = (wins - met * chance).sum(axis=1)
        spread = met * chance * (1 - chance)
        # Strengths that all grow alike change nothing: the share of 1 holds their sum.
        curvature = np.diag(spread.sum(axis=1)) - spread + 1 / len(wins)
        step = np.asarray(np.linalg.solve(curvature, slope), np.float64)
        longest = float(np.abs(step).max())
        # A full step may leap over the top where one hardly ever wins.
        logits = logits + step / max(longest, 1.0)
        if longest < 1e-12:
            break
    return logits - logits.mean()


def _fault(wins: np.ndarray, names: Sequence[str]) -> str:
    """Return why there are no strengths; empty where there are."""
    leads = (wins > 0) | np.eye(len(wins), dtype=bool)
    for _ in range(len(wins).bit_length()):
        leads = leads @ leads
    both = leads & leads.T
    if both.all():
        return ""
    groups = [np.flatnonzero(row) for row in np.unique(both, axis=0)]
    met = leads | leads.T
    if len(apart := [group for group in groups if not np.delete(met[group[0]], group).any()]) > 0:
        return f"{_named(apart[0], names)} never met the others, nor any that did"
    undefeated = [group for group in groups if not np.delete(leads[:, group[0]], group).any()]
    return f"{_named(undefeated[0], names)} never lost to the others"


def _named(systems: np.ndarray, names: Sequence[str]) -> str:
    return ", ".join(f"'{names[number]}'" for number in systems.tolist())


def as_elo(logits: np.ndarray) -> np.ndarray:
    """Return strengths on Elo's scale: 400 for odds of ten, 1,000 for the mean."""
    return ELO_SCALE * logits + ELO_START


_ELO_STEP = 4.0


def online_elo(
    first: np.ndarray, second: np.ndarray, share: np.ndarray, systems: int, rounds: int = 1000, seed: int = 42
) -> np.ndarray:
    """Return ``[systems]`` median Elo ratings over resamples of battles, each in a random order.

    A battle moves both systems by ``4 · (result - expected result)``, so that ratings depend on the order and, of few
    battles, have not gone far from 1,000; medians over resamples take most of the order away. A system that a resample
    has no battle of does not count in it; one without any battle is NaN. Source: CapArena (arXiv 2503.12329),
    ``cal_ranking.py``, draws included.

    Args:
        first: ``[battles]`` a system, from 0.
        second: ``[battles]`` the other.
        share: ``[battles]`` score of the first one: 1, a half or 0.
        systems: How many there are.
        rounds: How many resamples.
        seed: Seed of the draws.
    """
    battles = len(first)
    # The generator that pandas draws from.
    generator = np.random.RandomState(seed)
    drawn = np.stack([generator.choice(battles, battles) for _ in range(rounds)])
    ratings = np.full((rounds, systems), ELO_START)
    every = np.arange(rounds)
    for battle in drawn.T:
        own, other = first[battle], second[battle]
        expected = 1 / (1 + 10 ** ((ratings[every, other] - ratings[every, own]) / 400.0))
        moved = _ELO_STEP * (share[battle] - expected)
        ratings[every, own] += moved
        ratings[every, other] -= moved
    fought = np.zeros((rounds, systems), bool)
    for side in (first, second):
        fought[every[:, None], side[drawn]] = True
    medians = np.full(systems, np.nan)
    for system in np.flatnonzero(fought.any(axis=0)).tolist():
        medians[system] = np.median(ratings[fought[:, system], system])
    return medians
