"""Rankings: order, letters, and pairs, of estimates that were made on the same resamples."""

from __future__ import annotations

import numpy as np
import pytest

from capbench.benchmarks.statistics.bootstrap import Resamples
from capbench.benchmarks.statistics.paired import SpreadEstimate
from capbench.benchmarks.statistics.significance import rank


def estimates(**values: float) -> dict[str, SpreadEstimate]:
    """Return values that scatter by 0.1 over 200 resamples, each in its own way."""
    generator = np.random.default_rng(0)
    return {
        name: SpreadEstimate(value, Resamples(value + generator.normal(0, 0.1, 200), 50))
        for name, value in values.items()
    }


def test_best_comes_first_and_those_that_do_not_differ_share_a_letter():
    ranking = rank(estimates(poor=0.1, good=2.0, fair=0.15), higher_is_better=True)
    assert ranking.names == ["good", "fair", "poor"]
    assert ranking.groups == {"good": "a", "fair": "b", "poor": "b"}
    assert ranking.pairs == [("good", "fair"), ("good", "poor"), ("fair", "poor")]
    assert ranking.differences[1].value == pytest.approx(1.9)
    # Where less is better the least is.
    assert rank(estimates(poor=2.0, good=0.1), higher_is_better=False).groups == {"good": "a", "poor": "b"}


def test_level_decides_who_differs():
    found = estimates(one=0.0, two=0.4)
    assert rank(found, higher_is_better=True, alpha=0.05).groups == {"two": "a", "one": "b"}
    # No p of 200 resamples falls below 1 / 201.
    assert rank(found, higher_is_better=True, alpha=0.004).groups == {"two": "a", "one": "a"}


def test_pair_that_is_undefined_on_the_resamples_does_not_differ():
    found = estimates(one=0.0, two=2.0)
    found["one"].resampled.values[:] = np.nan
    ranking = rank(found, higher_is_better=True)
    assert ranking.corrected == [None]
    assert ranking.groups == {"two": "a", "one": "a"}
