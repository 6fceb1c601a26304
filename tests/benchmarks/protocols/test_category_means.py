"""Means over categories, against calculations by hand."""

from __future__ import annotations

import numpy as np
import pytest

from capbench.benchmarks.protocols.matching.protocol import CategoryMeans
from capbench.benchmarks.statistics.contract import UndefinedStatistic

NAMES = ["a/x", "a/y", "b/z"]
OF_ROW = np.array([0, 0, 0, 0, 1, 2, 2])
CREDIT = np.array([1.0, 0, 0, 0, 1, 1, 0])
ONES = np.ones(7)


def test_each_category_of_a_level_weighs_the_same():
    # a: (1/4 + 1) / 2 = 5/8; b: 1/2.
    assert CategoryMeans(NAMES, OF_ROW).value(CREDIT, ONES) == pytest.approx((5 / 8 + 1 / 2) / 2)


def test_mean_of_entries_takes_no_heed_of_categories():
    means = CategoryMeans(NAMES, OF_ROW, average_over="entries")
    assert means.value(CREDIT, ONES) == pytest.approx(3 / 7)


def test_categories_are_named_with_parents_before_their_children():
    means = CategoryMeans(["a/x", "b/z", "a/y"], np.array([0, 1, 2]))
    assert means.names(0) == []
    assert means.names(1) == ["a", "b"]
    assert means.names(2) == ["a", "a/x", "a/y", "b", "b/z"]


def test_single_category_is_that_of_all():
    assert CategoryMeans(["only"], np.zeros(3, dtype=int)).names(1) == []


def test_mean_of_a_category_is_made_of_its_rows_alone():
    mask, means = CategoryMeans(NAMES, OF_ROW).below("a")
    assert mask.tolist() == [True] * 5 + [False] * 2
    assert means.rows == 5
    assert means.value(CREDIT[mask], ONES[mask]) == pytest.approx(5 / 8)
    mask, means = CategoryMeans(NAMES, OF_ROW).below("b/z")
    assert means.value(CREDIT[mask], ONES[mask]) == pytest.approx(1 / 2)


def test_category_whose_name_begins_alike_is_another():
    mask, _ = CategoryMeans(["a", "ab"], np.array([0, 1])).below("a")
    assert mask.tolist() == [True, False]


def test_categories_with_too_few_rows_are_in_no_mean():
    means = CategoryMeans(NAMES, OF_ROW, least=2)
    assert means.rows == 6
    assert means.names(2) == ["a", "a/x", "b", "b/z"]
    assert means.value(CREDIT, ONES) == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert CategoryMeans(NAMES, OF_ROW, least=2, average_over="entries").value(CREDIT, ONES) == pytest.approx(2 / 6)
    mask, _ = means.below("a")
    assert mask.tolist() == [True] * 4 + [False] * 3
    with pytest.raises(UndefinedStatistic, match="no category has 9 entries"):
        CategoryMeans(NAMES, OF_ROW, least=9).value(CREDIT, ONES)


def test_category_of_which_nothing_is_drawn_is_left_out_of_that_draw():
    weights = np.array([1.0, 1, 1, 1, 0, 1, 1])
    assert CategoryMeans(NAMES, OF_ROW).value(CREDIT, weights) == pytest.approx((1 / 4 + 1 / 2) / 2)
    with pytest.raises(UndefinedStatistic, match="no entry is drawn"):
        CategoryMeans(NAMES, OF_ROW).value(CREDIT, np.zeros(7))


def test_values_of_categories_are_rounded_before_their_mean_is_made():
    # 1/3 and 2/3 become 0.3 and 0.7; of their parents nothing is rounded.
    means = CategoryMeans(["a/x", "a/y", "b"], np.array([0, 0, 0, 1, 1, 1, 2]), decimals=1)
    credit = np.array([1.0, 0, 0, 1, 1, 0, 1])
    assert means.value(credit, ONES) == pytest.approx((0.5 + 1) / 2)
    mask, below = means.below("a/x")
    assert below.value(credit[mask], ONES[mask]) == pytest.approx(0.3)


@pytest.mark.parametrize("settings", [{}, {"least": 2}, {"average_over": "entries"}])
def test_influence_of_a_row_is_the_derivative_by_its_weight(settings: dict):
    means = CategoryMeans(NAMES, OF_ROW, **settings)
    step = 1e-6
    slopes = [
        (means.value(CREDIT, ONES + step * np.eye(7)[row]) - means.value(CREDIT, ONES)) / step for row in range(7)
    ]
    assert means.influence(CREDIT) == pytest.approx(slopes, abs=1e-5)


def test_categories_that_are_left_out_are_in_no_mean():
    means = CategoryMeans(NAMES, OF_ROW, left_out=["a/x", "b/z"])
    assert means.rows == 1
    assert means.value(CREDIT, ONES) == 1
    assert CategoryMeans(NAMES, OF_ROW, left_out=["a"]).rows == 7
