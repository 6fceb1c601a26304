from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from capbench.metrics.words.ngrams import Counts, distinct_with_numbers, sorted_with

# Some fit into an integer together, some do not.
most = st.sampled_from([5, 1 << 20, 1 << 31, (1 << 63) - 1])
pairs = st.tuples(most, most).flatmap(
    lambda bounds: st.lists(st.tuples(*(st.integers(0, bound) for bound in bounds)), max_size=20)
)


@given(pairs)
def test_keys_are_sorted_and_keep_their_values(pairs: list[tuple[int, int]]):
    keys, values = np.array(pairs, np.int64).reshape(-1, 2).T
    found = sorted_with(keys, values)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == sorted(pairs)


@given(most.flatmap(lambda bound: st.lists(st.integers(0, bound), max_size=20)))
def test_keys_are_numbered_in_their_order(keys: list[int]):
    distinct, numbers = distinct_with_numbers(np.array(keys, np.int64))
    assert distinct.tolist() == sorted(set(keys))
    assert distinct[numbers].tolist() == keys


@given(st.lists(st.lists(st.integers(0, 4), max_size=8), min_size=1, max_size=6), st.data())
def test_largest_count_of_a_group_is_the_largest_of_its_rows(rows: list[list[int]], data: st.DataObject):
    groups = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    counted = [Counter(row) for row in rows]
    keys = [(row * 5 + ngram, count) for row, found in enumerate(counted) for ngram, count in found.items()]
    found_keys, found_counts = np.array(sorted(keys), np.int64).reshape(-1, 2).T
    counts = Counts(found_keys, found_counts, 5)
    assert (counts.rows * 5 + counts.ngrams).tolist() == counts.keys.tolist()
    largest = counts.largest(np.array(groups))
    expected: Counter[int] = Counter()
    for group, found in zip(groups, counted, strict=True):
        expected |= Counter({group * 5 + ngram: count for ngram, count in found.items()})
    assert list(zip(largest.keys.tolist(), largest.counts.tolist(), strict=True)) == sorted(expected.items())
