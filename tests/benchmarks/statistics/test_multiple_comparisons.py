"""Holm's correction and significance letters."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capbench.benchmarks.statistics.multiple_comparisons import holm, significance_letters


def test_holm_multiplies_by_the_tests_that_are_left():
    # 0.01 x 4, 0.02 x 3, max(0.06, 0.03 x 2), max(0.06, 0.04 x 1); the order of the tests is kept.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])


def test_holm_never_passes_1_and_does_not_count_missing_tests():
    assert holm([0.6, None, 0.9]) == [1.0, None, 1.0]
    assert holm([0.01, None]) == [0.01, None]
    assert holm([]) == []


def test_holm_keeps_the_chance_of_any_false_finding_at_the_level():
    # 5,000 sets of ten tests without any difference; standard error 0.003.
    generator = np.random.default_rng(0)
    found = np.mean([min(holm(list(generator.random(10)))) < 0.05 for _ in range(5000)])
    assert 0.04 <= found <= 0.06


def test_letters_of_an_example():
    # Best and worst differ; the middle one differs from neither, and shares a letter with each.
    assert significance_letters(3, [(0, 2)]) == ["a", "ab", "b"]
    assert significance_letters(3, []) == ["a", "a", "a"]
    assert significance_letters(3, [(0, 1), (0, 2), (1, 2)]) == ["a", "b", "c"]
    assert significance_letters(0, []) == []


def test_letters_of_four_worked_by_hand():
    # 1-2, 1-4 and 3-4 differ; the largest sets without such a pair are {1,3}, {2,3} and {2,4}.
    assert significance_letters(4, [(0, 1), (0, 3), (2, 3)]) == ["a", "bc", "ab", "c"]


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.sampled_from(
    list(itertools.combinations(range(n), 2)) or [(0, 0)]))))
)  # fmt: skip
def test_two_share_a_letter_if_and_only_if_they_do_not_differ(case):
    count, different = case
    different = {pair for pair in different if pair[0] != pair[1]}
    letters = significance_letters(count, different)
    assert all(letters)
    for pair in itertools.combinations(range(count), 2):
        assert bool(set(letters[pair[0]]) & set(letters[pair[1]])) == (pair not in different)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9), st.integers(1, 20))
def test_letters_follow_the_order_where_differences_grow_with_distance(values, enough):
    # No letter is given that another one holds already, and "a" is the best one's.
    values = sorted(values, reverse=True)
    different = [
        (i, j) for i, j in itertools.combinations(range(len(values)), 2) if values[i] - values[j] > enough
    ]
    letters = significance_letters(len(values), different)
    assert letters[0] == "a"
    assert [min(one) for one in letters] == sorted(min(one) for one in letters)
    members = {letter: {i for i, one in enumerate(letters) if letter in one} for letter in "".join(letters)}
    assert not any(one < other for one in members.values() for other in members.values())


def test_more_groups_than_letters_are_numbered():
    letters = significance_letters(54, itertools.combinations(range(54), 2))
    assert letters[25:28] == ["z", "A", "B"]
    assert letters[52:] == ["(53)", "(54)"]
