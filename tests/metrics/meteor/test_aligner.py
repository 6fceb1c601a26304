from math import inf

import numpy as np
import plain_meteor
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_meteor import Match

from capbench.metrics.meteor.aligner import MatchTable, contended_words, search
from capbench.metrics.meteor.lexicon import Spans, WordRelation, distinct_with_numbers, sharing, sorted_with

WORDS = 7
places = st.integers(0, WORDS - 1)
match_lists = st.lists(
    st.builds(
        lambda start, length, candidate_start, candidate_length, matcher: Match(
            start, min(start + length, WORDS), candidate_start, min(candidate_start + candidate_length, WORDS), matcher
        ),
        *(places, st.integers(1, 3), places, st.integers(1, 3), st.integers(0, 3)),
    ),
    min_size=1,
    max_size=14,
)


def chosen(pairs: list[list[Match]], away: int = 0) -> list[list[Match]]:
    """Return what the search chooses of the matches of pairs of texts of seven words.

    Args:
        pairs: The matches, those that begin at one word of the reference in their order.
        away: By how much they are farther away in the candidates than in the references.
    """
    columns = np.array([(pair, *match) for pair, of_pair in enumerate(pairs) for match in of_pair]).T
    pair, start, end, candidate_start, candidate_end, matcher = columns
    lengths = np.full(len(pairs), WORDS)
    matches = MatchTable(pair, start, end - start, candidate_start, candidate_end - candidate_start, matcher)
    first, last, alone = contended_words(matches, lengths, lengths)
    matches = MatchTable(pair, start, end - start, candidate_start + away, candidate_end - candidate_start, matcher)
    taken: list[list[Match]] = [[] for _ in pairs]
    for number in search(matches, alone, (first, last), lengths, inf).tolist():
        taken[pair[number]].append(Match(*columns[1:, number].tolist()))
    return taken


def plain(pair: list[Match], away: int = 0) -> list[Match]:
    moved = [
        match._replace(candidate_start=match.candidate_start + away, candidate_end=match.candidate_end + away)
        for match in pair
    ]
    return [
        match._replace(candidate_start=match.candidate_start - away, candidate_end=match.candidate_end - away)
        for match in plain_meteor.search(moved, WORDS)
    ]


@given(st.lists(match_lists, min_size=1, max_size=4))
def test_choice_for_many_pairs_is_that_of_a_plain_search_for_each(pairs: list[list[Match]]):
    pairs = [sorted(pair, key=lambda match: match.start) for pair in pairs]
    assert chosen(pairs) == [plain(pair) for pair in pairs]


def test_beam_keeps_as_many_paths_as_a_plain_search():
    generator = np.random.default_rng(0)

    def competing() -> list[Match]:
        n = int(generator.integers(12, 30))
        starts, places, _ = (generator.integers(0, most, n).tolist() for most in (WORDS, WORDS, 1))
        lengths, others = (generator.integers(1, 3, n).tolist() for _ in range(2))
        matches = [
            Match(start, min(start + length, WORDS), place, min(place + other, WORDS), 0)
            for start, place, length, other in zip(starts, places, lengths, others, strict=True)
        ]
        return sorted(matches, key=lambda match: match.start)

    # Of one a beam of 41 paths would choose otherwise, of another a beam of 39.
    pairs = [competing() for _ in range(240)]
    pairs = pairs[105:115] + pairs[230:]
    assert chosen(pairs) == [plain(pair) for pair in pairs]


@pytest.mark.parametrize("away", [1 << 20, 1 << 57])
@given(pair=match_lists)
def test_distances_that_fit_no_integer_of_64_bits_are_added_up_all_the_same(away: int, pair: list[Match]):
    pair = sorted(pair, key=lambda match: match.start)
    assert chosen([pair], away) == [plain(pair, away)]


def test_search_that_is_not_done_in_time_is_an_error():
    ones, zero = np.ones(2, np.int64), np.zeros(2, np.int64)
    # Two words of the reference contend for the only one of the candidate.
    matches = MatchTable(zero, np.array([0, 1]), ones, zero, ones, zero)
    arguments = matches, zero.astype(bool), (zero, ones), np.array([2])
    assert search(*arguments, inf).tolist() == [1]
    with pytest.raises(TimeoutError):
        search(*arguments, -inf)


# Some fit into an integer together, some do not.
most = st.sampled_from([5, 1 << 20, 1 << 31, (1 << 63) - 1])
pairs = st.tuples(most, most).flatmap(
    lambda bounds: st.lists(st.tuples(*(st.integers(0, bound) for bound in bounds)), max_size=20)
)


@given(pairs)
def test_keys_are_sorted_and_numbered_in_their_order_and_keep_their_values(pairs: list[tuple[int, int]]):
    keys, values = np.array(pairs, np.int64).reshape(-1, 2).T
    columns = sorted_with(keys, values)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == sorted(pairs)
    distinct, numbers = distinct_with_numbers(keys)
    assert distinct.tolist() == sorted(set(keys.tolist()))
    assert distinct[numbers].tolist() == keys.tolist()


def test_pairs_that_share_a_byte_of_the_table_are_told_apart():
    # 8,192 rows of 8,192 numbers: rows 0 and 2,048 begin at the same byte.
    size = 8192
    words = np.array([0, 2048, 7])
    relation = WordRelation(np.array([0 * size + 7]), size)
    columns = relation.find(Spans(words, np.array([0]), np.array([2])), Spans(words, np.array([2]), np.array([1])))
    assert [column.tolist() for column in columns] == [[0], [0], [2], [0]]


def test_members_that_share_a_property_are_paired_both_ways():
    left, right = sharing(np.array([0, 1, 2, 0]), np.array([5, 4, 5, 4]))
    assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == sorted(
        [(0, 0), (0, 2), (2, 0), (2, 2), (0, 0), (0, 1), (1, 0), (1, 1)]
    )
    assert [len(column) for column in sharing(np.empty(0, int), np.empty(0, int))] == [0, 0]
