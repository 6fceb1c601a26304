"""METEOR's choice among matches that overlap: the released jar's beam search, for many pairs at a time.

From left to right through the reference, each path takes one of the matches that begin at a word, or none. It is
the search of the jar, with what the paper leaves out: equal paths keep their order, and the beam's distance counts
a match on the paths that do *not* take it. A single word that is matched otherwise than exactly weighs half a
word, rounded down, so it may be left out where it only adds a chunk.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ..words.ngrams import spans
from .lexicon import EXACT
from .matches import Matches

BEAM = 40
_INTEGERS = np.dtype(np.int64)
# Words of a candidate for which one integer tells whether they are used.
_BITS = 62
# What a path does where nothing is to be chosen, as a longer match goes on: the first of all options.
_WAIT = 0


@dataclass(frozen=True)
class _Options:
    """What a path can do at each word of each reference: its matches in their order, then nothing at all.

    Where a match overlaps with no other, it is all that can be done. Options of one word stand together.

    Attributes:
        first: Where the options of each word begin, words of all pairs one after the other; and their end.
        match: The number of the match; -1 for none.
        gain: What it adds to the order of a path.
        distance: What it adds to the order of paths that do not take it.
        candidate_start: Where it begins in the candidate.
        candidate_end: Where it ends there; -1 for none.
        end: Where it ends in the reference.
        used: ``[integers, options]`` the words of the candidate that it takes, of those that others may take.
    """

    first: np.ndarray
    match: np.ndarray
    gain: np.ndarray
    distance: np.ndarray
    candidate_start: np.ndarray
    candidate_end: np.ndarray
    end: np.ndarray
    used: np.ndarray


@dataclass(frozen=True)
class _Order:
    """A path's order, least first, as one number: the pair, most weight, fewest chunks, least distance.

    Attributes:
        chunk: The lowest bit of the number of chunks.
        weight: That of the weight.
        pair: That of the pair.
        dtype: Integers that it fits into.
    """

    chunk: int
    weight: int
    pair: int
    dtype: np.dtype


def search(
    matches: Matches,
    alone: np.ndarray,
    used: tuple[np.ndarray, np.ndarray],
    lengths: np.ndarray,
    deadline: float,
) -> np.ndarray:
    """Return ``[chosen]`` which matches the best path of each pair takes.

    Args:
        matches: Of pairs that are in the order of their references' lengths, longest first.
        alone: ``[m]`` whether a match overlaps with no other.
        used: For each match the first, and the one after the last, of the words it takes of its candidate,
            counting those alone that others may take.
        lengths: ``[p]`` words of the references.
        deadline: By ``time.perf_counter``.

    Raises:
        TimeoutError: It is not done at the deadline.
    """
    order = _order(matches, lengths)
    offsets = np.cumsum(lengths) - lengths
    options = _options(matches, alone, used, offsets[matches.pair] + matches.start, int(lengths.sum()), order)
    steps: list[tuple[np.ndarray, np.ndarray]] = []
    # How many pairs go on for so many words.
    n_pairs = np.searchsorted(-lengths, -np.arange(lengths[0] + 1), side="left").tolist()
    best = np.zeros(len(lengths), np.int64)
    paths = (np.arange(len(lengths)).astype(order.dtype) << order.pair) + (
        (1 << order.pair - order.weight) - 1 << order.weight
    )
    position, last = np.zeros(len(paths), np.int64), np.full(len(paths), -1)
    taken = np.zeros((len(options.used), len(paths)), np.int64)
    for current in range(lengths[0]):
        if time.perf_counter() > deadline:
            raise TimeoutError
        pair = (paths >> order.pair).astype(np.int64)
        parent, option, paths = _extended(
            options, offsets[pair] + current, position > current, paths, last, taken, order
        )
        in_order = _best(paths, order)
        parent, option, paths = parent[in_order], option[in_order], paths[in_order]
        waits = option == _WAIT
        position = np.where(waits, position[parent], options.end[option])
        last = np.where(waits, last[parent], options.candidate_end[option])
        taken = taken[:, parent] | options.used[:, option]
        left = int(np.searchsorted(paths, np.array(n_pairs[current + 1], order.dtype) << order.pair))
        best[n_pairs[current + 1] : n_pairs[current]] = left + _first_of_least(
            paths[left:], last[left:], order
        )
        steps.append((parent, option))
        paths, position, last, taken = paths[:left], position[:left], last[:left], taken[:, :left]
    chosen: list[np.ndarray] = []
    at = best[:0]
    for current in range(lengths[0] - 1, -1, -1):
        parent, option = steps[current]
        at = np.concatenate([at, best[len(at) : n_pairs[current]]])
        match = options.match[option[at]]
        chosen.append(match[match >= 0])
        at = parent[at]
    return np.sort(np.concatenate(chosen))


def _order(matches: Matches, lengths: np.ndarray) -> _Order:
    """Return how much room each part of an order needs."""
    distance = np.bincount(matches.pair, np.abs(matches.start - matches.candidate_start))
    words = lengths[0] + (matches.candidate_start + matches.candidate_length).max()
    bits = [int(most).bit_length() for most in (distance.max(), lengths[0] + 1, words, len(lengths))]
    chunk, weight_bit, pair = np.cumsum(bits)[:3].tolist()
    return _Order(chunk, weight_bit, pair, _INTEGERS if sum(bits) < 63 else np.dtype(object))


def _options(
    matches: Matches,
    alone: np.ndarray,
    used: tuple[np.ndarray, np.ndarray],
    place: np.ndarray,
    n_places: int,
    order: _Order,
) -> _Options:
    """Return the options of all words; ``place`` says at which of them a match begins."""
    counts = np.bincount(place, minlength=n_places)
    is_alone = np.zeros(n_places, bool)
    is_alone[place] = alone
    sizes = counts + ~is_alone
    first = 1 + np.concatenate([[0], np.cumsum(sizes)])
    of_match = first[place] + np.arange(len(place)) - (np.cumsum(counts) - counts)[place]

    def column(values: np.ndarray | int, of_none: int, dtype: np.dtype = _INTEGERS) -> np.ndarray:
        filled = np.full(first[-1], of_none, dtype)
        filled[of_match] = values
        return filled

    distance = np.abs(matches.start - matches.candidate_start)
    words = np.where(
        matches.matcher == EXACT,
        matches.length + matches.candidate_length,
        matches.length // 2 + matches.candidate_length // 2,
    )
    # A match that is alone bears its own distance, on every path.
    gain = np.where(alone, distance, 0) - (words.astype(order.dtype) << order.weight)
    low, high = used
    n_integers = int(high.max(initial=1) - 1) // _BITS + 1
    bits = [
        (1 << np.clip(high - _BITS * n, 0, _BITS)) - (1 << np.clip(low - _BITS * n, 0, _BITS))
        for n in range(n_integers)
    ]
    return _Options(
        first=first,
        match=column(np.arange(len(place)), -1),
        gain=column(gain, 0, order.dtype),
        distance=column(distance, 0),
        # After a match, none ends a chunk as another place would.
        candidate_start=column(matches.candidate_start, -2),
        candidate_end=column(matches.candidate_start + matches.candidate_length, -1),
        end=column(matches.start + matches.length, 0),
        used=np.stack([column(one, 0) for one in bits]),
    )


def _extended(
    options: _Options,
    place: np.ndarray,
    waits: np.ndarray,
    paths: np.ndarray,
    last: np.ndarray,
    taken: np.ndarray,
    order: _Order,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each continuation of paths the path that it is of, the option that it takes, and its order."""
    first = np.where(waits, _WAIT, options.first[place])
    sizes = np.where(waits, 1, options.first[place + 1] - first)
    option = spans(first, sizes)
    parent = np.repeat(np.arange(len(paths)), sizes)
    free = np.flatnonzero(~(taken[:, parent] & options.used[:, option]).any(axis=0))
    parent, option = parent[free], option[free]
    # The jar's slip: the matches that follow, and the path without any, bear the distance.
    distance = np.cumsum(options.distance[option]) - options.distance[option]
    of_path = distance[np.flatnonzero(np.diff(parent, prepend=-1))]
    before = last[parent]
    ends_chunk = (before != -1) & (before != options.candidate_start[option]) & (option != _WAIT)
    extended = paths[parent] + options.gain[option] + (distance - of_path[parent])
    return parent, option, extended + (ends_chunk.astype(order.dtype) << order.chunk)


def _best(paths: np.ndarray, order: _Order) -> np.ndarray:
    """Return which paths are in the beams of their pairs, in their order; equal paths keep theirs."""
    in_order = np.argsort(paths, kind="stable")
    pair = paths[in_order] >> order.pair
    kept = np.ones(len(paths), bool)
    kept[BEAM:] = pair[BEAM:] != pair[:-BEAM]
    return in_order[kept]


def _first_of_least(paths: np.ndarray, last: np.ndarray, order: _Order) -> np.ndarray:
    """Return for each pair the first of its paths of the least order, now that the text's end ends chunks."""
    pair = (paths >> order.pair).astype(np.int64)
    ended = paths + ((last != -1).astype(order.dtype) << order.chunk)
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    if not len(starts):
        return starts
    least = np.repeat(np.minimum.reduceat(ended, starts), np.diff(np.append(starts, len(pair))))
    at_least = np.flatnonzero(ended == least)
    return at_least[np.diff(pair[at_least], prepend=-1) != 0]
