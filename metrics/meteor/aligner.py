"""METEOR 1.5's alignment of candidates with references (Denkowski and Lavie 2014, section 2).

All matches of all matchers are collected; where some overlap, a search chooses among them. The statistics equal
those of the released jar.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ..words.ngrams import concat_ranges
from .lexicon import EXACT, PARAPHRASE, SYNONYM, Spans, Texts

# Words of a candidate whose use fits into the bits of one integer.
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
    def of(cls, matches: MatchTable, lengths: np.ndarray) -> Order:
        """Return how many bits each part needs for matches with references of these lengths in words."""
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
    matches: MatchTable, alone: np.ndarray, used: tuple[np.ndarray, np.ndarray], lengths: np.ndarray, order: Order
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
        steps, place[alone], matches.candidate_start[alone], candidate_end[alone], (gain + distance)[alone], order
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
    matches: MatchTable, alone: np.ndarray, place: np.ndarray, counts: np.ndarray, lengths: np.ndarray
) -> _Steps:
    """Return the steps; ``counts`` says how many matches begin at each word."""
    forced = counts == 0
    forced[place[alone]] = True
    # Where a longer match goes on, paths may wait; or all do, if it overlaps with no other.
    tails, of_alone = concat_ranges(place + 1, matches.length - 1), np.repeat(alone, matches.length - 1)
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


BEAM = 40


def search(
    matches: MatchTable, alone: np.ndarray, used: tuple[np.ndarray, np.ndarray], lengths: np.ndarray, deadline: float
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
    option = concat_ranges(first, sizes)
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


@dataclass(frozen=True)
class MatchTable:
    """Matches of phrases of references with phrases of candidates.

    They are in the order of pairs, then of where they begin in the reference; those that begin there are in the
    order in which the jar finds them.

    Attributes:
        pair: ``[m]`` in which pair each is.
        start: Where it begins in the reference.
        length: How many words of the reference it takes.
        candidate_start: Where it begins in the candidate.
        candidate_length: How many words of the candidate it takes.
        matcher: What found it.
    """

    pair: np.ndarray
    start: np.ndarray
    length: np.ndarray
    candidate_start: np.ndarray
    candidate_length: np.ndarray
    matcher: np.ndarray

    def __len__(self) -> int:
        return len(self.pair)

    def take(self, which: np.ndarray) -> MatchTable:
        """Return some of them."""
        return MatchTable(*(column[which] for column in vars(self).values()))

    @classmethod
    def of(cls, *parts: MatchTable) -> MatchTable:
        """Return matches of parts, one part after the other."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))


def find_matches(texts: Texts, candidates: np.ndarray, references: np.ndarray) -> MatchTable:
    """Return the matches of candidates with references.

    Args:
        texts: Texts.
        candidates: ``[p]`` which of them are the candidates of pairs.
        references: ``[p]`` which of them are the references.
    """
    by_word = _by_word(texts, candidates, references)
    # A text matches with itself word by word, and in no other way.
    exact = by_word[EXACT]
    in_place = np.bincount(exact.pair[exact.start == exact.candidate_start], minlength=len(candidates))
    lengths = texts.lengths[references]
    identical = (in_place == lengths) & (texts.lengths[candidates] == lengths)
    parts = [exact, *by_word[EXACT + 1 :], *_by_phrase(texts, candidates, references)]
    matches = MatchTable.of(exact, *(part.take(np.flatnonzero(~identical[part.pair])) for part in parts[1:]))
    return matches.take(np.argsort(_place(matches.pair, matches.start, lengths), kind="stable"))


def _place(pair: np.ndarray, start: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the numbers of words, counted through all pairs, of which each has ``lengths`` words."""
    return (np.cumsum(lengths) - lengths)[pair] + start


def _by_word(texts: Texts, candidates: np.ndarray, references: np.ndarray) -> list[MatchTable]:
    """Return the matches of words by the matchers for words, each in the order of pairs and places."""
    related = texts.word_matches.relation.find(
        Spans(texts.words, texts.starts[references], texts.lengths[references]),
        Spans(texts.words, texts.starts[candidates], texts.lengths[candidates]),
    )
    start = related.left - texts.starts[references[related.pair]]
    candidate_start = related.right - texts.starts[candidates[related.pair]]
    matchers = texts.word_matches.matchers[related.at]
    by_matcher = []
    for matcher in range(SYNONYM + 1):
        by_it = np.flatnonzero(matchers >> matcher & 1)
        ones, kind = np.ones(len(by_it), np.int64), np.full(len(by_it), matcher)
        by_matcher.append(MatchTable(related.pair[by_it], start[by_it], ones, candidate_start[by_it], ones, kind))
    return by_matcher


def _by_phrase(texts: Texts, candidates: np.ndarray, references: np.ndarray) -> list[MatchTable]:
    """Return the matches of paraphrases of references' phrases, then of candidates', each in the jar's order."""
    known = texts.phrase_matches
    sizes = np.diff(known.first)
    related = known.relation.find(
        Spans(known.phrases, known.first[references], sizes[references]),
        Spans(known.phrases, known.first[candidates], sizes[candidates]),
    )
    matches = MatchTable(
        related.pair,
        known.starts[related.left],
        known.lengths[related.left],
        known.starts[related.right],
        known.lengths[related.right],
        np.full(len(related.pair), PARAPHRASE),
    )
    place = _place(matches.pair, matches.start, texts.lengths[references])
    ranks = known.rank[related.at], known.rank_back[related.at]
    orders = (
        (matches.candidate_start, ranks[0], matches.length, place),
        (ranks[1], matches.candidate_length, matches.candidate_start, place),
    )
    there = [np.flatnonzero(rank >= 0) for rank in ranks]
    return [
        matches.take(rows[np.lexsort([key[rows] for key in order])]) for rows, order in zip(there, orders, strict=True)
    ]


def contended_words(
    matches: MatchTable, candidate_lengths: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the words for which matches compete, and the matches that overlap with no other.

    Args:
        matches: Matches of pairs.
        candidate_lengths: ``[p]`` words of the candidates.
        lengths: ``[p]`` words of the references.

    Returns:
        Of the words of its candidate that are in more than one match, numbered from 0, ``[m]`` the first that a
        match takes, and ``[m]`` the one after the last; and ``[m]`` whether a match overlaps with no other.
    """
    place = _place(matches.pair, matches.start, lengths)
    before = _contended_before(place, matches.length, lengths)
    alone = before[place] == before[place + matches.length]
    place = _place(matches.pair, matches.candidate_start, candidate_lengths)
    before = _contended_before(place, matches.candidate_length, candidate_lengths)
    base = before[(np.cumsum(candidate_lengths) - candidate_lengths)[matches.pair]]
    first, last = before[place], before[place + matches.candidate_length]
    return first - base, last - base, alone & (first == last)


def _contended_before(place: np.ndarray, length: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return for each word of all texts, and for their end, how many words before it are in more than one match."""
    coverage = np.bincount(concat_ranges(place, length), minlength=int(lengths.sum()))
    return np.concatenate([[0], np.cumsum(coverage > 1)])


def alignments(texts: Texts, candidates: np.ndarray, references: np.ndarray, deadline: float) -> MatchTable:
    """Return the matches that the alignments of candidates, each with one reference, consist of.

    Args:
        texts: Texts.
        candidates: ``[p]`` which of them are the candidates of pairs.
        references: ``[p]`` which of them are the references.
        deadline: By ``time.perf_counter``.

    Raises:
        TimeoutError: The search is not done at the deadline.
    """
    matches, lengths = find_matches(texts, candidates, references), texts.lengths[references]
    first, last, alone = contended_words(matches, texts.lengths[candidates], lengths)
    contended = np.zeros(len(lengths), bool)
    contended[matches.pair[~alone]] = True
    if not contended.any():
        return matches
    searched = np.flatnonzero(contended[matches.pair])
    part = matches.take(searched)
    number = np.cumsum(contended) - 1
    part = MatchTable(number[part.pair], *list(vars(part).values())[1:])
    chosen = search(part, alone[searched], (first[searched], last[searched]), lengths[contended], deadline)
    kept = ~contended[matches.pair]
    kept[searched[chosen]] = True
    return matches.take(np.flatnonzero(kept))


def counted(chosen: MatchTable, texts: Texts, candidates: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Return ``[p, 23]`` statistics of pairs whose alignments are of these matches, columns as in ``meteor``."""
    n = len(references)
    of_candidate = _words(texts, candidates[chosen.pair], chosen.candidate_start, chosen.candidate_length)
    of_reference = _words(texts, references[chosen.pair], chosen.start, chosen.length)
    column = chosen.pair * (PARAPHRASE + 1) + chosen.matcher
    # Content words of candidate and reference, function words of both.
    matched = [
        np.bincount(column, words, minlength=n * (PARAPHRASE + 1))
        for words in (chosen.candidate_length - of_candidate, chosen.length - of_reference, of_candidate, of_reference)
    ]
    begins = np.ones(len(chosen), bool)
    begins[1:] = (
        (chosen.pair[1:] != chosen.pair[:-1])
        | (chosen.start[1:] != (chosen.start + chosen.length)[:-1])
        | (chosen.candidate_start[1:] != (chosen.candidate_start + chosen.candidate_length)[:-1])
    )
    return np.column_stack(
        [
            texts.lengths[candidates],
            texts.lengths[references],
            _words(texts, candidates, 0, texts.lengths[candidates]),
            _words(texts, references, 0, texts.lengths[references]),
            np.stack(matched, axis=1).reshape(n, -1),
            np.bincount(chosen.pair, begins, minlength=n),
            np.bincount(chosen.pair, chosen.candidate_length, minlength=n),
            np.bincount(chosen.pair, chosen.length, minlength=n),
        ]
    )


def _words(texts: Texts, which: np.ndarray, start: np.ndarray | int, length: np.ndarray) -> np.ndarray:
    """Return how many words of parts of texts are function words."""
    first = texts.starts[which] + start
    return texts.function_words[first + length] - texts.function_words[first]
