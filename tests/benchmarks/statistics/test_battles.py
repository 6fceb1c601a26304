"""Strengths of systems from battles: as CapArena's code and logistic regression give them."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from capbench.benchmarks.statistics.contract import UndefinedStatistic
from capbench.benchmarks.statistics.systems.battles import as_elo, online_elo, strengths, wins_of

GOLDEN = json.loads(Path(__file__).with_name("caparena.json").read_text(encoding="utf-8"))
NAMES: list[str] = GOLDEN["systems"]


def battles() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = GOLDEN["battles"]
    first, second = (np.array([NAMES.index(row[side]) for row in rows]) for side in (1, 2))
    share = np.array([{row[1]: 1.0, row[2]: 0.0, "equal": 0.5}[row[3]] for row in rows])
    return first, second, share


def test_medians_of_online_elo_are_the_released_ones():
    medians = online_elo(*battles(), len(NAMES), rounds=200)
    np.testing.assert_allclose(medians, [GOLDEN["medians"][name] for name in NAMES], rtol=1e-12)


def test_strengths_are_those_of_logistic_regression():
    fitted = strengths(wins_of(*battles(), len(NAMES)))
    np.testing.assert_allclose(fitted, [GOLDEN["strengths"][name] for name in NAMES], atol=2e-6)
    assert fitted.sum() == pytest.approx(0, abs=1e-12)


# Of the second, full steps would leap over the top: they are shortened.
LEAPING = [[0.0, 100, 1, 1], [1e5, 0, 0, 0], [1e4, 0, 0, 10], [0, 1e5, 10, 0]]


@pytest.mark.parametrize(("wins", "apart"), [(wins_of(*battles(), len(NAMES)), 1e-10), (np.array(LEAPING), 1e-6)])
def test_slope_of_the_likelihood_is_zero_at_the_strengths(wins: np.ndarray, apart: float):
    fitted = strengths(wins)
    chance = 1 / (1 + np.exp(fitted[None, :] - fitted[:, None]))
    np.testing.assert_allclose((wins - (wins + wins.T) * chance).sum(axis=1), 0, atol=apart)


def test_strengths_do_not_depend_on_the_order_of_battles_or_of_their_sides():
    first, second, share = battles()
    order = np.random.default_rng(0).permutation(len(first))
    turned = wins_of(second[order], first[order], 1 - share[order], len(NAMES))
    np.testing.assert_allclose(strengths(turned), strengths(wins_of(first, second, share, len(NAMES))))


def test_two_systems_have_the_odds_of_their_wins():
    fitted = strengths(np.array([[0.0, 3], [1, 0]]))
    assert fitted[0] - fitted[1] == pytest.approx(np.log(3))
    assert as_elo(np.array([np.log(10) / 2, -np.log(10) / 2])).tolist() == pytest.approx([1200, 800])


def test_lopsided_battles_are_solved_too():
    fitted = strengths(np.array([[0.0, 1e6, 0], [1, 0, 1e6], [0, 1, 0]]))
    np.testing.assert_allclose(-np.diff(fitted), np.log(1e6), rtol=1e-9)


@pytest.mark.parametrize(
    ("wins", "message"),
    [
        ([[0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], "'c', 'd' never met the others"),
        ([[0, 2, 1], [0, 0, 1], [0, 1, 0]], "'a' never lost to the others"),
        ([[0, 2, 1], [2, 0, 1], [0, 0, 0]], "'a', 'b' never lost to the others"),
        ([[0, 1, 1], [1, 0, 0], [0, 0, 0]], "'a', 'b' never lost to the others"),
        ([[0, 0], [0, 0]], "never met the others"),
    ],
)
def test_battles_that_say_too_little_are_refused_by_name(wins: list[list[float]], message: str):
    with pytest.raises(UndefinedStatistic, match=message):
        strengths(np.array(wins, float), "abcd")


def test_a_tie_leads_both_ways():
    first, second = map(np.array, zip(*itertools.combinations(range(3), 2), strict=True))
    wins = wins_of(first, second, np.array([0.5, 0.5, 0.5]), 3)
    np.testing.assert_allclose(strengths(wins), 0, atol=1e-12)


def test_system_without_a_battle_in_a_resample_does_not_count_in_it():
    # Of two battles both are drawn half the time: the median of the one that always wins is above the start.
    first, second = np.array([0, 2]), np.array([1, 3])
    ratings = online_elo(first, second, np.array([1.0, 1.0]), 5, rounds=100)
    assert (ratings[[0, 2]] > 1000).all()
    assert (ratings[[1, 3]] < 1000).all()
    assert np.isnan(ratings[4])
