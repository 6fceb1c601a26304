"""Scores are rounded to twelve significant digits, and then compared exactly."""

import numpy as np
import pytest

from capbench.benchmarks.statistics.contract import RatedScores
from capbench.benchmarks.statistics.correlation import KendallB
from capbench.benchmarks.statistics.near_ties import settle
from capbench.benchmarks.statistics.sample_kendall import SampleKendall


def test_numbers_are_rounded_to_twelve_digits_whatever_their_size():
    generator = np.random.default_rng(0)
    values = generator.normal(size=20_000) * 10.0 ** generator.integers(-280, 280, 20_000)
    expected = np.array([float(f"{value:.11e}") for value in values])

    settled = settle(values)

    # Beyond 1e22 powers of ten are no doubles: the last bit may be another, and so the side of a half.
    np.testing.assert_allclose(settled, expected, rtol=1.01e-11)
    assert np.count_nonzero(~np.isclose(settled, expected, rtol=5e-16, atol=0)) < 5
    ordinary = (np.abs(values) > 1e-6) & (np.abs(values) < 1e20)
    assert np.array_equal(settled[ordinary], expected[ordinary])
    assert np.array_equal(settle(settled), settled)


def test_what_differs_by_rounding_alone_is_the_same():
    values = settle(np.array([0.1 + 0.2, 1000.0, -0.1 - 0.2, 1e-7 * 3, 1e21 * 1.1]))
    assert np.array_equal(values, settle(np.array([0.3, 999.9999999999999, -0.3, 3e-7, 1.1e21])))


def test_what_differs_in_the_twelfth_digit_is_not_the_same():
    first, second, third = settle(np.array([0.123456789012, 0.123456789013, 0.1234567890124]))
    assert first < second
    assert first == third


def test_extremes_are_what_they_were():
    values = np.array([0.0, np.inf, -np.inf, 5e-324, -1e-300, 1.7e308, 1e-285, 1e300])
    assert np.array_equal(settle(values), values)
    assert np.isnan(settle(np.array([np.nan])))


def test_rows_of_statistics_are_settled_on_both_sides():
    rated = RatedScores(np.array([0.3, 0.1 + 0.2]), np.array([0.1 + 0.7, 0.8]), np.arange(2))
    assert rated.scores[0] == rated.scores[1]
    assert rated.human[0] == rated.human[1]


def test_statistics_see_ties_where_scores_differ_by_rounding():
    scores, human = np.array([0.1 + 0.2, 0.3, 0.5]), np.array([2.0, 1.0, 3.0])
    assert KendallB()(scores, human, np.arange(3)) == pytest.approx(2 / np.sqrt(6))
    assert SampleKendall("a")(scores, human, np.zeros(3)) == pytest.approx(2 / 3)
