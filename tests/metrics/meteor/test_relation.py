from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capbench.metrics.meteor import lexicon as meteor_relation
from capbench.metrics.meteor.lexicon import Spans, WordRelation, distinct_with_numbers, sharing, sorted_with

# Some fit into an integer together, some do not.
most = st.sampled_from([5, 1 << 20, 1 << 31, (1 << 63) - 1])
pairs = st.tuples(most, most).flatmap(
    lambda bounds: st.lists(st.tuples(*(st.integers(0, bound) for bound in bounds)), max_size=20)
)


@given(pairs)
def test_keys_are_sorted_and_numbered_in_their_order_and_keep_their_values(pairs: list[tuple[int, int]]):
    keys, values = np.array(pairs, np.int64).reshape(-1, 2).T
    found = sorted_with(keys, values)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == sorted(pairs)
    distinct, numbers = distinct_with_numbers(keys)
    assert distinct.tolist() == sorted(set(keys.tolist()))
    assert distinct[numbers].tolist() == keys.tolist()


@pytest.mark.parametrize("size", [5, 4096, 9000])
def test_what_is_related_is_found_and_nothing_else(size: int, monkeypatch: pytest.MonkeyPatch):
    # Above 4,096 numbers a byte of the table stands for more than one pair.
    monkeypatch.setattr(meteor_relation, "_CELLS_AT_A_TIME", 100)
    generator = np.random.default_rng(size)
    words = generator.integers(0, size, 400)
    starts = np.sort(generator.integers(0, 380, 40))
    lengths = generator.integers(0, 20, 40)
    left = Spans(words, starts, lengths)
    right = Spans(words, starts[::-1], lengths[::-1])
    keys = np.unique(
        np.append(
            generator.integers(0, size * size, 50), generator.choice(words, 200) * size + generator.choice(words, 200)
        )
    )
    expected = [
        (pair, i, j, keys.tolist().index(words[i] * size + words[j]))
        for pair in range(40)
        for i in range(starts[pair], starts[pair] + lengths[pair])
        for j in range(starts[39 - pair], starts[39 - pair] + lengths[39 - pair])
        if words[i] * size + words[j] in keys
    ]
    found = WordRelation(keys, size).find(left, right)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected
    assert expected


def test_pairs_that_share_a_byte_of_the_table_are_told_apart():
    # 8,192 rows of 8,192 numbers: rows 0 and 2,048 begin at the same byte.
    size = 8192
    words = np.array([0, 2048, 7])
    relation = WordRelation(np.array([0 * size + 7]), size)
    found = relation.find(Spans(words, np.array([0]), np.array([2])), Spans(words, np.array([2]), np.array([1])))
    assert [column.tolist() for column in found] == [[0], [0], [2], [0]]


def test_nothing_is_related_where_there_is_nothing():
    none = np.empty(0, np.int64)
    assert [len(column) for column in WordRelation(none, 0).find(*[Spans(none, none, none)] * 2)] == [0] * 4
    empty = Spans(none, np.array([0, 0]), np.array([0, 0]))
    assert [len(column) for column in WordRelation(none, 0).find(empty, empty)] == [0] * 4


def test_members_that_share_a_property_are_paired_both_ways():
    left, right = sharing(np.array([0, 1, 2, 0]), np.array([5, 4, 5, 4]))
    assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == sorted(
        [(0, 0), (0, 2), (2, 0), (2, 2), (0, 0), (0, 1), (1, 0), (1, 1)]
    )
    assert [len(one) for one in sharing(np.empty(0, int), np.empty(0, int))] == [0, 0]
