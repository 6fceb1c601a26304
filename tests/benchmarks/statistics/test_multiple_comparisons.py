"""Holm's correction, significance letters, and rankings by both."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capbench.benchmarks.statistics.bootstrap import Resamples
from capbench.benchmarks.statistics.significance import holm, holm_of, rank, rank_ranges, significance_letters


def letters_in(label: str) -> set[int]:
    """Return the letters of a label as numbers, ranges written out, as docs/leaderboard.md says they are read."""
    held = set()
    for part in re.findall(r"[a-z]-[a-z]|[a-z]", label):
        first, _, last = part.partition("-")
        held |= set(range(ord(first), ord(last or first) + 1))
    return held


def shared(labels: list[str]) -> set[tuple[int, int]]:
    held = [letters_in(label) for label in labels]
    return {(i, j) for i, j in itertools.combinations(range(len(held)), 2) if held[i] & held[j]}


def test_holm_multiplies_by_the_tests_that_are_left_never_passes_1_and_does_not_count_missing_tests():
    # 0.01 x 4, 0.02 x 3, max(0.06, 0.03 x 2), max(0.06, 0.04 x 1); the order of the tests is kept.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, None, 0.9]) == [1.0, None, 1.0]
    assert holm([0.01, None]) == [0.01, None]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("count", "different", "letters"),
    [
        # Best and worst differ; the middle one differs from neither, and shares a letter with each.
        (3, [(0, 2)], ["a", "ab", "b"]),
        (3, [], ["a", "a", "a"]),
        (3, [(0, 1), (0, 2), (1, 2)], ["a", "b", "c"]),
        (0, [], []),
        # 1-2, 1-4 and 3-4 differ; the largest sets without such a pair are {1,3}, {2,3} and {2,4}.
        (4, [(0, 1), (0, 3), (2, 3)], ["a", "bc", "ab", "c"]),
    ],
)
def test_letters_of_few_worked_by_hand(count, different, letters):
    assert significance_letters(count, different) == letters


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.sampled_from(
    list(itertools.combinations(range(n), 2)) or [(0, 0)]))))
)  # fmt: skip
def test_two_share_a_letter_if_and_only_if_they_do_not_differ(case):
    count, different = case
    different = {pair for pair in different if pair[0] != pair[1]}
    letters = significance_letters(count, different)
    assert all(letters)
    assert shared(letters) == set(itertools.combinations(range(count), 2)) - different


def test_three_neighbours_are_written_as_a_range():
    # A window of five slides over eight metrics by one: the fourth is in all of the first four windows.
    far = [(i, j) for i, j in itertools.combinations(range(8), 2) if j - i > 4]
    assert significance_letters(8, far) == ["a", "ab", "a-c", "a-d", "a-d", "b-d", "cd", "d"]


def test_more_groups_than_the_alphabet_go_on_as_spreadsheets_name_columns():
    letters = significance_letters(710, itertools.combinations(range(710), 2))
    assert letters[24:29] == ["y", "z", "aa", "ab", "ac"]
    assert letters[701:704] == ["zz", "aaa", "aab"]
    apart = [(i, j) for i, j in itertools.combinations(range(32), 2) if j - i > 3]
    assert significance_letters(32, apart)[25:29] == ["w-z", "x-aa", "y-ab", "z-ac"]


@given(st.lists(st.floats(0, 1), max_size=40))
def test_holm_of_an_array_is_that_of_the_list(ps: list[float]):
    assert holm_of(np.array(ps)).tolist() == holm(ps)
    order = sorted(range(len(ps)), key=lambda number: ps[number])
    largest = 0.0
    for place, number in enumerate(order):
        largest = max(largest, min(1.0, ps[number] * (len(ps) - place)))
        assert holm(ps)[number] == largest


def test_ranks_that_tests_leave_open():
    # The best differs from the last two, the second from the last.
    assert rank_ranges(4, [(0, 2), (0, 3), (1, 3)]) == [(1, 2), (1, 3), (2, 4), (3, 4)]
    assert rank_ranges(3, []) == [(1, 3)] * 3
    assert rank_ranges(2, [(0, 1)]) == [(1, 1), (2, 2)]
    # Only the middle one is told from both, which the order alone would not say.
    assert rank_ranges(3, [(0, 1), (1, 2)]) == [(1, 2), (2, 2), (2, 3)]


# --- rankings of estimates that were made on the same resamples


def estimates(**values: float) -> dict[str, Resamples]:
    """Return values that scatter by 0.1 over 200 resamples, each in its own way."""
    generator = np.random.default_rng(0)
    return {name: Resamples(value + generator.normal(0, 0.1, 200), value, 50) for name, value in values.items()}


def test_best_comes_first_and_those_that_do_not_differ_share_a_letter():
    ranking = rank(estimates(poor=0.1, good=2.0, fair=0.15), higher_is_better=True)
    assert list(ranking.groups) == ["good", "fair", "poor"]
    assert ranking.groups == {"good": "a", "fair": "b", "poor": "b"}
    assert ranking.pairs == [("good", "fair"), ("good", "poor"), ("fair", "poor")]
    assert ranking.differences[1].value == pytest.approx(1.9)
    # Where less is better the least is.
    assert rank(estimates(poor=2.0, good=0.1), higher_is_better=False).groups == {"good": "a", "poor": "b"}


def test_level_decides_who_differs():
    compared = estimates(one=0.0, two=0.4)
    assert rank(compared, higher_is_better=True, alpha=0.05).groups == {"two": "a", "one": "b"}
    # No p of 200 resamples falls below 1 / 201.
    assert rank(compared, higher_is_better=True, alpha=0.004).groups == {"two": "a", "one": "a"}


def test_pair_that_is_undefined_on_the_resamples_does_not_differ():
    compared = estimates(one=0.0, two=2.0)
    compared["one"].values[:] = np.nan
    ranking = rank(compared, higher_is_better=True)
    assert ranking.corrected == [None]
    assert ranking.groups == {"two": "a", "one": "a"}
