import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capbench.benchmarks.statistics.contract import RatedScores, UndefinedStatistic
from capbench.benchmarks.statistics.one_minus_r2 import OneMinusR2


def test_denominator_is_the_spread_of_the_scores_by_hand():
    # Errors 0.5, 0.2, 0: 0.29. Scores 0.1, 0.2, 0.3 around 0.2: 0.02. (The spread of the ratings, 0.0467,
    # would give 6.2.)
    value = OneMinusR2()(np.array([0.1, 0.2, 0.3]), np.array([0.6, 0.4, 0.3]), np.zeros(3, int))
    assert value == pytest.approx(0.29 / 0.02)
    ratings = np.array([0.1, 0.7, 0.3])
    assert OneMinusR2()(ratings, ratings, np.zeros(3, int)) == 0
    # As CIDEr on long captions: ratings about 0.5 away, a spread of 1e-8.
    scores = np.array([0.0, 0.0001, 0.0001, 0.0])
    assert OneMinusR2()(scores, np.array([0.5, 0.5, 0.6, 0.4]), np.zeros(4, int)) > 1e7
    assert not OneMinusR2.higher_is_better


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 4)), min_size=2, max_size=30))
def test_a_row_of_weight_k_counts_as_k_equal_rows(rows):
    scores, human, weights = (np.round(column, 6) for column in np.array(rows).T)
    index = np.repeat(np.arange(len(rows)), weights.astype(int))
    try:
        expected = OneMinusR2()(scores[index], human[index], index)
    except (UndefinedStatistic, ValueError):
        return
    rated = RatedScores(scores, human, np.arange(len(rows)))
    assert OneMinusR2().value(rated, weights) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("scores", "reason"), [([0.3], "fewer than 2 rows"), ([0.3, 0.3, 0.3], "all scores are equal")]
)
def test_undefined_value_says_why(scores, reason):
    with pytest.raises(UndefinedStatistic, match=reason):
        OneMinusR2()(np.array(scores), np.arange(len(scores)), np.zeros(len(scores), int))
