"""What the search can do at each step through a reference: the matches that it can take, or none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..words.ngrams import spans
from .lexicon import EXACT
from .matches import Matches

# Words of a candidate for which one integer tells whether they are used.
_BITS = 62
_INTEGERS = np.dtype(np.int64)
WAIT = 0
"""The option of a path whose last match goes on: to do nothing. It is the first of all options."""


@dataclass(frozen=True)
class Order:
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

    @classmethod
    def of(cls, matches: Matches, lengths: np.ndarray) -> Order:
        """Return how much room each part needs for matches with references of so many words."""
        distance = np.bincount(matches.pair, np.abs(matches.start - matches.candidate_start)).max()
        weight = lengths.max() + (matches.candidate_start + matches.candidate_length).max()
        chunks, pairs = lengths.max() + 1, len(lengths)
        bits = [int(most).bit_length() for most in (distance, chunks, weight, pairs)]
        chunk, weight_bit, pair = np.cumsum(bits)[:3].tolist()
        return cls(chunk, weight_bit, pair, _INTEGERS if sum(bits) < 63 else np.dtype(object))


@dataclass(frozen=True)
class Options:
    """The options of all steps, those of a step in the order in which a path tries them.

    A step is a word of a reference at which there is a choice: its matches, then none of them. All words between two
    such words are one step with one option, as all paths do the same there: they take the matches that overlap with
    no other.

    Attributes:
        steps: ``[p]`` how many steps the reference of each pair has; steps of pairs stand one after the other.
        starts: ``[steps]`` the word at which each begins.
        first: ``[steps + 1]`` where the options of each begin.
        match: ``[options]`` the number of the match; -1 for none, and for those that all paths take.
        gain: What it adds to the order of a path.
        distance: What it adds to the order of paths that do not take it.
        candidate_start: Where it begins in the candidate; -2 where no match does.
        candidate_end: Where it ends there; -1 where no match does.
        end: Where it ends in the reference, for those that may go on beyond the next step.
        used: ``[integers, options]`` the words of the candidate that it takes, of those that others may take.
    """

    steps: np.ndarray
    starts: np.ndarray
    first: np.ndarray
    match: np.ndarray
    gain: np.ndarray
    distance: np.ndarray
    candidate_start: np.ndarray
    candidate_end: np.ndarray
    end: np.ndarray
    used: np.ndarray


@dataclass(frozen=True)
class _Steps:
    """The words of all references, one after the other, in steps.

    Attributes:
        places: ``[w]`` the words, but for those at which a match goes on that overlaps with no other.
        first: ``[steps]`` the first word of each step, as an index into ``places``.
        pair: ``[steps]`` the pair of each.
        of_place: The step of each word.
        forced: ``[steps]`` whether all paths do the same there.
    """

    places: np.ndarray
    first: np.ndarray
    pair: np.ndarray
    of_place: np.ndarray
    forced: np.ndarray


def options_of(
    matches: Matches,
    alone: np.ndarray,
    used: tuple[np.ndarray, np.ndarray],
    lengths: np.ndarray,
    order: Order,
) -> Options:
    """Return the options of pairs of texts; for the arguments see ``search``."""
    offsets = np.cumsum(lengths) - lengths
    place = offsets[matches.pair] + matches.start
    counts = np.bincount(place, minlength=int(lengths.sum()))
    steps = _steps(matches, alone, place, counts, lengths)
    starts = steps.places[steps.first]
    first = 1 + np.append(0, np.cumsum(np.where(steps.forced, 1, counts[starts] + 1)))
    contending = np.flatnonzero(~alone)
    within = np.arange(len(contending)) - np.searchsorted(place[contending], place[contending])
    of_match = first[steps.of_place[place[contending]]] + within
    of_forced = first[:-1][steps.forced]

    def column(of_none: int, forced: np.ndarray | int, of_matches: np.ndarray) -> np.ndarray:
        filled = np.full(int(first[-1]), of_none, of_matches.dtype)
        filled[of_forced] = forced
        filled[of_match] = of_matches[contending]
        return filled

    words = np.where(
        matches.matcher == EXACT,
        matches.length + matches.candidate_length,
        matches.length // 2 + matches.candidate_length // 2,
    )
    gain = -(words.astype(order.dtype) << order.weight)
    distance = np.abs(matches.start - matches.candidate_start)
    candidate_end = matches.candidate_start + matches.candidate_length
    forced_gain, forced_start, forced_end = _forced(
        steps,
        place[alone],
        matches.candidate_start[alone],
        candidate_end[alone],
        (gain + distance)[alone],
        order,
    )
    return Options(
        steps=np.bincount(steps.pair, minlength=len(lengths)),
        starts=starts - offsets[steps.pair],
        first=first,
        match=column(-1, -1, np.arange(len(place))),
        gain=column(0, forced_gain, gain),
        distance=column(0, 0, distance),
        candidate_start=column(-2, forced_start, matches.candidate_start),
        candidate_end=column(-1, forced_end, candidate_end),
        end=column(0, 0, matches.start + matches.length),
        used=np.stack([column(0, 0, bits) for bits in _bits(*used)]),
    )


def _steps(
    matches: Matches, alone: np.ndarray, place: np.ndarray, counts: np.ndarray, lengths: np.ndarray
) -> _Steps:
    """Return the steps; ``counts`` says how many matches begin at each word."""
    forced = counts == 0
    forced[place[alone]] = True
    # Where a longer match goes on, paths may wait; or all do, if it overlaps with no other.
    tails, of_alone = spans(place + 1, matches.length - 1), np.repeat(alone, matches.length - 1)
    forced[tails[~of_alone]] = False
    there = np.ones(len(counts), bool)
    there[tails[of_alone]] = False
    places = np.flatnonzero(there)
    pair = np.repeat(np.arange(len(lengths)), lengths)[places]
    choice = ~forced[places]
    begins = choice | np.append(True, choice[:-1]) | (np.diff(pair, prepend=-1) != 0)
    first = np.flatnonzero(begins)
    of_place = np.zeros(len(counts), np.int64)
    of_place[places] = np.cumsum(begins) - 1
    return _Steps(places, first, pair[first], of_place, ~choice[first])


def _forced(
    steps: _Steps,
    place: np.ndarray,
    candidate_start: np.ndarray,
    candidate_end: np.ndarray,
    gain: np.ndarray,
    order: Order,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what forced steps add to the order of a path, and where they begin and end in the candidate.

    Args:
        steps: All steps.
        place: At which words the matches begin that overlap with no other.
        candidate_start: Where each begins in the candidate.
        candidate_end: Where each ends there.
        gain: What each adds, its own distance included.
        order: What an order consists of.
    """
    of_place = np.full((2, len(steps.of_place)), [[-2], [-1]])
    of_place[:, place] = candidate_start, candidate_end
    start, end = of_place[:, steps.places]
    gains = np.zeros(len(steps.of_place), order.dtype)
    gains[place] = gain
    before = np.append(-1, end[:-1])
    ends_chunk = (before != -1) & (before != start)
    ends_chunk[steps.first] = False
    gains = gains[steps.places] + (ends_chunk.astype(order.dtype) << order.chunk)
    last = np.append(steps.first[1:], len(start)) - 1
    total = np.add.reduceat(gains, steps.first)
    return total[steps.forced], start[steps.first][steps.forced], end[last][steps.forced]


def _bits(low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """Return integers, as many as are needed, of which the bits from ``low`` to before ``high`` are set."""
    n_integers = int(high.max(initial=1) - 1) // _BITS + 1
    return [
        (1 << np.clip(high - _BITS * n, 0, _BITS)) - (1 << np.clip(low - _BITS * n, 0, _BITS))
        for n in range(n_integers)
    ]
