"""Williams' test: published examples, and samples with a known truth."""

from __future__ import annotations

import numpy as np
import pytest

from capbench.benchmarks.statistics.classical import williams_test
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
    result = williams_test(r12, r13, r23, n)
    assert round(result.t, decimals) == t
    assert round(result.p, decimals) == p
    assert result.degrees == n - 3


def correlations(generator, samples, rows, noise):
    """Return r12, r13 and r23 ``[samples]`` of two metrics that add noise to the ratings."""
    human, *noises = generator.normal(size=(3, samples, rows))
    first, second = (human + scale * one for scale, one in zip(noise, noises, strict=True))

    def r(one, other):
        one, other = (x - x.mean(axis=1, keepdims=True) for x in (one, other))
        return (one * other).sum(axis=1) / np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))

    return r(human, first), r(human, second), r(first, second)


@pytest.mark.parametrize("rows", [20, 100])
def test_equal_correlations_of_independent_rows_are_told_apart_in_about_5_percent_of_samples(rows):
    # 4,000 samples: the binomial standard error of a share of 0.05 is 0.0034.
    found = correlations(np.random.default_rng(0), 4000, rows, noise=(1.0, 1.0))
    rejected = np.mean([williams_test(*one, rows).p <= 0.05 for one in zip(*found, strict=True)])
    assert 0.04 <= rejected <= 0.06


def test_a_real_difference_is_found():
    # True correlations 0.71 and 0.45 on 100 rows: in about 81 % of samples.
    found = correlations(np.random.default_rng(0), 300, 100, noise=(1.0, 2.0))
    assert np.mean([williams_test(*one, 100).p <= 0.05 for one in zip(*found, strict=True)]) > 0.75


def test_a_metric_does_not_differ_from_itself():
    assert williams_test(0.5, 0.5, 1.0, 100).p == 1


def test_swapping_the_metrics_turns_the_sign():
    one, other = williams_test(0.5, 0.3, 0.6, 50), williams_test(0.3, 0.5, 0.6, 50)
    assert one.t == pytest.approx(-other.t)
    assert one.p == pytest.approx(other.p)


def test_fewer_than_four_rows_leave_it_undefined():
    with pytest.raises(UndefinedStatistic, match="4 rows"):
        williams_test(0.5, 0.3, 0.6, 3)


@pytest.mark.parametrize("place", range(3))
def test_a_correlation_that_is_not_finite_leaves_it_undefined(place):
    correlations = [0.5, 0.4, 0.3]
    correlations[place] = float("nan")
    with pytest.raises(UndefinedStatistic, match="finite correlations"):
        williams_test(*correlations, 100)
