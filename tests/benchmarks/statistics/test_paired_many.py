from __future__ import annotations

import itertools

import numpy as np
import pytest

from capbench.benchmarks.statistics.paired import MOST_RESAMPLED, difference, p_of_mean_differences, paired_means


def test_p_of_few_rows_is_that_of_the_single_pairs():
    values = np.random.default_rng(1).random((4, 60)) + np.array([[0.0], [0.02], [0.1], [0.3]])
    estimates = paired_means({str(n): one for n, one in enumerate(values)}, np.arange(60), seed=7)
    ps = p_of_mean_differences(values, seed=7)
    assert np.array_equal(ps, ps.T) and np.all(np.diag(ps) == 1)
    for one, other in itertools.combinations(range(4), 2):
        assert ps[one, other] == difference(estimates[str(one)], estimates[str(other)]).p


@pytest.mark.parametrize(
    ("rows", "alpha", "resamples"),
    # 4 resamples for each pair and 1/alpha: 66 pairs, 12 rows' worth, are the most; never fewer than 1,000.
    [(2, 0.05, 1000), (12, 0.05, 5280), (12, 0.1, 2640), (3, 0.01, 1200)],
)
def test_resamples_are_as_many_as_the_smallest_p_needs_after_correction(rows: int, alpha: float, resamples: int):
    # Every caption tells them apart, so no resample comes near: p is the least that the resamples can give.
    values = np.random.default_rng(6).random(40) + 10.0 * np.arange(rows)[:, None] * np.linspace(1, 1.1, 40)
    ps = p_of_mean_differences(values, alpha=alpha)
    assert ps[~np.eye(rows, dtype=bool)] == pytest.approx(1 / (1 + resamples))
    pairs = rows * (rows - 1) / 2
    assert pairs * ps.min() < alpha


def test_p_of_many_rows_is_that_of_the_normal_approximation():
    generator = np.random.default_rng(2)
    many = generator.random((MOST_RESAMPLED + 1, 400)) + generator.random((MOST_RESAMPLED + 1, 1)) * 0.1
    ps = p_of_mean_differences(many)
    few = p_of_mean_differences(many[:5])
    assert np.abs(ps[:5, :5] - few).max() < 0.05


@pytest.mark.parametrize("rows", [2, MOST_RESAMPLED + 1])
def test_rows_that_are_equal_or_all_zero_do_not_differ(rows: int):
    one = np.random.default_rng(3).random(30)
    assert np.all(p_of_mean_differences(np.stack([one] * rows)) == 1)
    assert np.all(p_of_mean_differences(np.zeros((rows, 30))) == 1)


@pytest.mark.parametrize("rows", [2, MOST_RESAMPLED + 1])
def test_rows_that_always_differ_by_the_same_are_different(rows: int):
    one = np.random.default_rng(4).random(30)
    shifted = one + np.arange(rows)[:, None]
    assert p_of_mean_differences(shifted)[0, 1] < 0.01


def test_two_captions_can_tell_rows_apart_and_one_cannot():
    apart = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert p_of_mean_differences(apart)[0, 1] == pytest.approx(1 / 1001)
    assert np.all(p_of_mean_differences(apart[:, :1]) == 1)


def test_p_does_not_depend_on_the_order_of_sums():
    values = np.random.default_rng(5).random((3, 101))
    assert np.array_equal(p_of_mean_differences(values), p_of_mean_differences(np.asfortranarray(values)))


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_the_same_scores_in_another_order_do_not_differ(seed: int):
    # As floats, sums of the same numbers in another order may differ by their last bits.
    generator = np.random.default_rng(seed)
    one = generator.random(25) * 10.0 ** generator.integers(-3, 1, 25)
    assert p_of_mean_differences(np.stack([one, generator.permutation(one)]))[0, 1] == 1
