"""Pairs of rows: their counts, and what is in memory besides rows, scores and ratings, a row."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capbench.benchmarks.statistics.concordance import Concordance, PairCounts


def count_by_comparing_all_pairs(scores, human):
    signs = [
        (np.sign(scores[i] - scores[j]), np.sign(human[i] - human[j]))
        for i, j in itertools.combinations(range(len(scores)), 2)
    ]
    return PairCounts(
        pairs=len(signs),
        balance=int(sum(score * rating for score, rating in signs)),
        tied_scores=sum(score == 0 for score, _ in signs),
        tied_human=sum(rating == 0 for _, rating in signs),
        distinct_scores=len(set(scores)),
        distinct_human=len(set(human)),
    )


@given(
    st.integers(1, 12).flatmap(
        lambda levels: st.lists(
            st.tuples(st.integers(0, 12), st.integers(0, levels), st.integers(0, 3)), min_size=1, max_size=25
        )
    )
)
def test_counts_equal_a_comparison_of_all_pairs_of_repeated_rows(rows):
    scores, human, weights = np.array(rows).T
    counts = Concordance(scores.astype(float), human.astype(float)).counts(weights)
    repeated = count_by_comparing_all_pairs(np.repeat(scores, weights).tolist(), np.repeat(human, weights).tolist())
    assert counts == repeated


def test_counts_stay_exact_for_a_million_rows_of_weight():
    # Two blocks of half a million equal rows: every pair across them is concordant.
    counts = Concordance(np.array([0.0, 1]), np.array([0.0, 1])).counts(np.array([500_000, 499_999]))
    assert counts.balance == 500_000 * 499_999


@pytest.mark.parametrize("read_only", [True, False])
def test_changed_weights_are_counted_anew(read_only):
    rows = Concordance(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]))
    weights = np.array([1, 1, 0])
    weights.flags.writeable = not read_only
    assert rows.counts(weights).balance == 1
    weights.flags.writeable = True
    weights = np.array([0, 1, 1]) if read_only else weights
    weights[:] = [0, 1, 1]
    assert rows.counts(weights).balance == -1


def test_no_weight_has_no_pairs():
    assert Concordance(np.array([1.0, 2]), np.array([1.0, 2])).counts(np.zeros(2)).pairs == 0
