"""Williams' and McNemar's tests: published examples, scipy, all signs by hand, and samples with a known truth."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from capbench.benchmarks.statistics.classical import mcnemar_test, williams_test
from capbench.benchmarks.statistics.contract import UndefinedStatistic


@pytest.mark.parametrize(
    ("r12", "r13", "r23", "n", "t", "p", "decimals"),
    [
        # Silver, Hittner & May 2006 (doi 10.1177/0146621605277132), as the tests of R's cocor quote it.
        (0.3, 0.4, 0.5, 100, -1.0767, 0.2843, 4),
        # Howell, Statistical Methods for Psychology, 6th ed., p. 262; output of B. Weaver's Williams1959.sps.
        (0.80, 0.72, 0.89, 26, 1.361, 0.187, 3),
    ],
)
def test_published_examples_are_reproduced(r12, r13, r23, n, t, p, decimals):
    assert [round(number, decimals) for number in williams_test(r12, r13, r23, n)] == [t, p]


def correlations(generator, samples, rows, noise):
    """Return r12, r13 and r23 ``[samples]`` of two metrics that add noise to the ratings."""
    human, *noises = generator.normal(size=(3, samples, rows))
    first, second = (human + scale * noise for scale, noise in zip(noise, noises, strict=True))

    def r(values, other):
        values, other = (x - x.mean(axis=1, keepdims=True) for x in (values, other))
        return (values * other).sum(axis=1) / np.sqrt((values**2).sum(axis=1) * (other**2).sum(axis=1))

    return r(human, first), r(human, second), r(first, second)


@pytest.mark.parametrize("rows", [20, 100])
def test_equal_correlations_of_independent_rows_are_told_apart_in_about_5_percent_of_samples(rows):
    # 1,500 samples: the binomial standard error of a share of 0.05 is 0.0056.
    r = correlations(np.random.default_rng(0), 1500, rows, noise=(1.0, 1.0))
    rejected = np.mean([williams_test(*three, rows)[1] <= 0.05 for three in zip(*r, strict=True)])
    assert 0.04 <= rejected <= 0.06


def test_a_metric_does_not_differ_from_itself_and_swapping_two_turns_the_sign():
    assert williams_test(0.5, 0.5, 1.0, 100)[1] == 1
    t, p = williams_test(0.5, 0.3, 0.6, 50)
    assert williams_test(0.3, 0.5, 0.6, 50) == pytest.approx((-t, p))


NAN = float("nan")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((0.5, 0.3, 0.6, 3), "4 rows"),
        ((NAN, 0.4, 0.3, 100), "finite correlations"),
        ((0.5, NAN, 0.3, 100), "finite correlations"),
        ((0.5, 0.4, NAN, 100), "finite correlations"),
    ],
)
def test_few_rows_and_correlations_that_are_not_finite_leave_it_undefined(arguments, reason):
    with pytest.raises(UndefinedStatistic, match=reason):
        williams_test(*arguments)


credits = st.sampled_from([0.0, 0.5, 1.0])


def pairs(first_better: int, second_better: int, equal: int = 5):
    first = np.array([1.0] * first_better + [0.0] * second_better + [1.0] * equal)
    second = np.array([0.0] * first_better + [1.0] * second_better + [1.0] * equal)
    return first, second


@pytest.mark.parametrize(("better", "worse"), [(8, 2), (2, 8), (5, 5), (1, 0), (0, 0), (40, 61), (900, 1000)])
def test_without_ties_it_is_the_binomial_test_of_the_pairs_that_differ(better: int, worse: int):
    p, _ = mcnemar_test(*pairs(better, worse))
    expected = binomtest(better, better + worse).pvalue if better + worse else 1.0
    assert p == pytest.approx(expected, rel=1e-9)


@given(st.lists(st.tuples(credits, credits), min_size=1, max_size=9))
def test_with_ties_p_is_the_share_of_all_signs_whose_sum_is_as_far_from_zero(rows):
    first, second = np.array(rows).T
    differences = [d for d in first - second if d]
    sums = np.abs([np.dot(signs, differences) for signs in itertools.product((-1, 1), repeat=len(differences))])
    seen = abs(sum(differences))
    p, mid_p = mcnemar_test(first, second)
    assert p == pytest.approx(np.mean(sums >= seen))
    assert mid_p == pytest.approx(np.mean(sums > seen) + np.mean(sums == seen) / 2)


def test_credits_of_other_sizes_are_refused():
    with pytest.raises(UndefinedStatistic, match="needs credits of 0"):
        mcnemar_test(np.array([0.2, 1.0]), np.array([0.0, 1.0]))
