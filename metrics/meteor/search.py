"""METEOR's choice among matches that overlap: the released jar's beam search, for many pairs at a time.

From left to right through the reference, each path takes one of the matches that begin at a word, or none. It is
the search of the jar, with what the paper leaves out: equal paths keep their order, and the beam's distance counts
a match on the paths that do *not* take it. A single word that is matched otherwise than exactly weighs half a
word, rounded down, so it may be left out where it only adds a chunk.
"""

from __future__ import annotations

import time

import numpy as np

from ..words.ngrams import spans
from .matches import Matches
from .options import WAIT, Options, Order, options_of

BEAM = 40


def search(
    matches: Matches,
    alone: np.ndarray,
    used: tuple[np.ndarray, np.ndarray],
    lengths: np.ndarray,
    deadline: float,
) -> np.ndarray:
    """Return ``[chosen]`` which matches the best path of each pair takes, in their order.

    Args:
        matches: Of pairs that each have some.
        alone: ``[m]`` whether a match overlaps with no other.
        used: For each match the first, and the one after the last, of the words it takes of its candidate,
            counting those alone that others may take.
        lengths: ``[p]`` words of the references.
        deadline: By ``time.perf_counter``.

    Raises:
        TimeoutError: It is not done at the deadline.
    """
    order = Order.of(matches, lengths)
    options = options_of(matches, alone, used, lengths, order)
    # Pairs in the order of their steps, most first: those that go on are always the first.
    pairs = np.argsort(-options.steps, kind="stable")
    steps, offsets = options.steps[pairs], (np.cumsum(options.steps) - options.steps)[pairs]
    n_pairs = np.searchsorted(-steps, -np.arange(steps[0] + 1), side="left").tolist()
    best = np.zeros(len(pairs), np.int64)
    paths = (np.arange(len(pairs)).astype(order.dtype) << order.pair) + (
        (1 << order.pair - order.weight) - 1 << order.weight
    )
    position, last = np.zeros(len(paths), np.int64), np.full(len(paths), -1)
    taken = np.zeros((len(options.used), len(paths)), np.int64)
    history: list[tuple[np.ndarray, np.ndarray]] = []
    for number in range(steps[0]):
        if time.perf_counter() > deadline:
            raise TimeoutError
        step = offsets[(paths >> order.pair).astype(np.int64)] + number
        waits = position > options.starts[step]
        parent, option, paths = _extended(options, step, waits, paths, last, taken, order)
        in_order = _best(paths, order)
        parent, option, paths = parent[in_order], option[in_order], paths[in_order]
        waits = option == WAIT
        position = np.where(waits, position[parent], options.end[option])
        last = np.where(waits, last[parent], options.candidate_end[option])
        taken = taken.take(parent, axis=1) | options.used.take(option, axis=1)
        left = int(np.searchsorted(paths, np.array(n_pairs[number + 1], order.dtype) << order.pair))
        best[n_pairs[number + 1] : n_pairs[number]] = left + _first_of_least(paths[left:], last[left:], order)
        history.append((parent, option))
        paths, position, last, taken = paths[:left], position[:left], last[:left], taken[:, :left]
    chosen = alone.copy()
    at = best[:0]
    for number in range(steps[0] - 1, -1, -1):
        parent, option = history[number]
        at = np.concatenate([at, best[len(at) : n_pairs[number]]])
        match = options.match[option[at]]
        chosen[match[match >= 0]] = True
        at = parent[at]
    return np.flatnonzero(chosen)


def _extended(
    options: Options,
    step: np.ndarray,
    waits: np.ndarray,
    paths: np.ndarray,
    last: np.ndarray,
    taken: np.ndarray,
    order: Order,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each continuation of paths the path that it is of, the option that it takes, and its order."""
    first = np.where(waits, WAIT, options.first[step])
    sizes = np.where(waits, 1, options.first[step + 1] - first)
    option = spans(first, sizes)
    parent = np.repeat(np.arange(len(paths)), sizes)
    free = np.flatnonzero(~(taken.take(parent, axis=1) & options.used.take(option, axis=1)).any(axis=0))
    parent, option = parent[free], option[free]
    # The jar's slip: the matches that follow, and the path without any, bear the distance.
    distance = options.distance[option]
    distance = np.cumsum(distance) - distance
    of_path = distance[np.flatnonzero(np.diff(parent, prepend=-1))]
    before = last[parent]
    ends_chunk = (before != -1) & (before != options.candidate_start[option]) & (option != WAIT)
    extended = paths[parent] + options.gain[option] + (distance - of_path[parent])
    return parent, option, extended + (ends_chunk.astype(order.dtype) << order.chunk)


def _best(paths: np.ndarray, order: Order) -> np.ndarray:
    """Return which paths are in the beams of their pairs, in their order; equal paths keep theirs."""
    in_order = np.argsort(paths, kind="stable")
    pair = paths[in_order] >> order.pair
    kept = np.ones(len(paths), bool)
    kept[BEAM:] = pair[BEAM:] != pair[:-BEAM]
    return in_order[kept]


def _first_of_least(paths: np.ndarray, last: np.ndarray, order: Order) -> np.ndarray:
    """Return for each pair the first of its paths of the least order, now that the text's end ends chunks."""
    pair = (paths >> order.pair).astype(np.int64)
    ended = paths + ((last != -1).astype(order.dtype) << order.chunk)
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    if not len(starts):
        return starts
    least = np.repeat(np.minimum.reduceat(ended, starts), np.diff(np.append(starts, len(pair))))
    at_least = np.flatnonzero(ended == least)
    return at_least[np.diff(pair[at_least], prepend=-1) != 0]
