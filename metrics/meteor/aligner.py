"""METEOR 1.5's alignment of a candidate with a reference (Denkowski and Lavie 2014, section 2).

All matches of all matchers are collected; a beam search from left to right through the reference
then chooses among those that overlap. It is the search of the released jar, with what the paper
leaves out: equal paths keep their order, and the beam's distance counts a match on the paths that
do *not* take it. A single word that is matched otherwise than exactly weighs half a word, rounded down,
so it may be left out where it only adds a chunk. The statistics equal the jar's.
"""

from __future__ import annotations

import time
from math import inf
from operator import itemgetter
from typing import NamedTuple

from .lexicon import EXACT, PARAPHRASE, Lexicon, Text

BEAM = 40
# What a word counts in the search by matcher; the jar rounds down for each match. Not the weights of the score.
_SEARCH_WEIGHTS = (1.0, 0.5, 0.5, 0.5)

# A path's order, least first, is one number: most weight, then fewest chunks, then least distance.
_CHUNK = 1 << 40
_WEIGHT = 1 << 80


class Match(NamedTuple):
    """A match of a phrase of the reference with one of the candidate.

    Attributes:
        start: Where it begins in the reference.
        end: Where it ends there.
        candidate_start: Where it begins in the candidate.
        candidate_end: Where it ends there.
        matcher: What found it.
        used: A bit for each word of the candidate that it takes.
        weight: What it adds to the order of a path.
        distance: How far apart its beginnings are.
    """

    start: int
    end: int
    candidate_start: int
    candidate_end: int
    matcher: int
    used: int
    weight: int
    distance: int


Taken = tuple[Match, "Taken"] | None
Path = tuple[int, int, int, int, Taken]
"""Order; next word of the reference; end in the candidate of the match before, or -1; words of the
candidate that are used; the matches taken, last one first, as nested pairs."""

_ORDER = itemgetter(0)


def statistics(candidate: Text, reference: Text, lexicon: Lexicon, deadline: float = inf) -> list[int]:
    """Return the 23 statistics of a candidate and one reference, columns as in ``meteor``.

    Args:
        candidate: A text that the lexicon has read.
        reference: Another.
        lexicon: What read them.
        deadline: By ``time.perf_counter``.

    Raises:
        TimeoutError: The search is not done at the deadline.
    """
    matches, coverage, candidate_coverage = _matches(candidate, reference, lexicon)
    chosen = _search(matches, _fixed(matches, coverage, candidate_coverage), deadline)
    counts = [0] * 16
    n_chunks = n_candidate = n_reference = 0
    end = candidate_end = -1
    for match in chosen:
        n_chunks += match.start != end or match.candidate_start != candidate_end
        end, candidate_end = match.end, match.candidate_end
        column = 4 * match.matcher
        length = match.candidate_end - match.candidate_start
        function_words = (candidate.function_words & match.used).bit_count()
        counts[column] += length - function_words
        counts[column + 2] += function_words
        n_candidate += length
        length = match.end - match.start
        function_words = (reference.function_words >> match.start & (1 << length) - 1).bit_count()
        counts[column + 1] += length - function_words
        counts[column + 3] += function_words
        n_reference += length
    return [
        len(candidate.words),
        len(reference.words),
        candidate.function_words.bit_count(),
        reference.function_words.bit_count(),
        *counts,
        n_chunks,
        n_candidate,
        n_reference,
    ]


def _match(start: int, length: int, candidate_start: int, candidate_length: int, matcher: int) -> Match:
    """Return a match of so many words of the reference with so many of the candidate."""
    weight = _SEARCH_WEIGHTS[matcher]
    return Match(
        start,
        start + length,
        candidate_start,
        candidate_start + candidate_length,
        matcher,
        ((1 << candidate_length) - 1) << candidate_start,
        -(int(length * weight) + int(candidate_length * weight)) * _WEIGHT,
        abs(start - candidate_start),
    )


def _matches(
    candidate: Text, reference: Text, lexicon: Lexicon
) -> tuple[list[list[Match]], list[int], list[int]]:
    """Return the matches that begin at each word of the reference, in the order in which the jar finds them.

    Returns:
        Matches; how many cover each word of the reference, and of the candidate.
    """
    found: list[list[Match]] = [[] for _ in reference.words]
    coverage = [0] * len(reference.words)
    candidate_coverage = [0] * len(candidate.words)
    identical = len(candidate.words) == len(reference.words) and all(
        lexicon.key(one) == lexicon.key(other)
        for one, other in zip(candidate.words, reference.words, strict=True)
    )
    for word, starts in reference.positions.items():
        related = lexicon.matches[word]
        shared = related.keys() & candidate.positions.keys()
        if not shared:
            continue
        places = sorted(
            (matcher, place)
            for other in shared
            for matcher in related[other]
            for place in candidate.positions[other]
            if not identical or matcher == EXACT
        )
        for start in starts:
            found[start] = [_match(start, 1, place, 1, matcher) for matcher, place in places]
            coverage[start] = len(places)
        for _, place in places:
            candidate_coverage[place] += len(starts)
    if identical:
        return found, coverage, candidate_coverage
    phrases = _paraphrased(reference, candidate, lexicon)
    phrases += [
        (place, target_length, start, length)
        for start, length, place, target_length in _paraphrased(candidate, reference, lexicon)
    ]
    for start, length, candidate_start, candidate_length in phrases:
        found[start].append(_match(start, length, candidate_start, candidate_length, PARAPHRASE))
        for position in range(start, start + length):
            coverage[position] += 1
        for position in range(candidate_start, candidate_start + candidate_length):
            candidate_coverage[position] += 1
    return found, coverage, candidate_coverage


def _paraphrased(text: Text, other: Text, lexicon: Lexicon) -> list[tuple[int, int, int, int]]:
    """Return which phrases of a text have which paraphrases in another: starts and lengths of both."""
    found = []
    others = other.phrases
    for start, length, node in text.sources:
        targets = lexicon.paraphrases(node)
        if targets.keys().isdisjoint(others.keys()):
            continue
        for target in sorted(targets.keys() & others.keys(), key=targets.__getitem__):
            target_length, places = others[target]
            found += [(start, length, place, target_length) for place in places]
    return found


def _fixed(matches: list[list[Match]], coverage: list[int], candidate_coverage: list[int]) -> list[bool]:
    """Tell for each word of the reference whether the one match that begins there overlaps with no other."""
    return [
        len(of_word) == 1
        and all(covering == 1 for covering in coverage[of_word[0].start : of_word[0].end])
        and all(
            covering == 1
            for covering in candidate_coverage[of_word[0].candidate_start : of_word[0].candidate_end]
        )
        for of_word in matches
    ]


def _search(matches: list[list[Match]], fixed: list[bool], deadline: float) -> list[Match]:
    """Return the matches of the best path."""
    paths: list[Path] = [(0, 0, -1, 0, None)]
    for current, of_word in enumerate(matches):
        if len(paths) > 1:
            if time.perf_counter() > deadline:
                raise TimeoutError
            paths.sort(key=_ORDER)
            del paths[BEAM:]
        if fixed[current]:
            (match,) = of_word
            paths = [
                (
                    order
                    + match.weight
                    + match.distance
                    + _CHUNK * (last not in (-1, match.candidate_start)),
                    match.end,
                    match.candidate_end,
                    used,
                    (match, taken),
                )
                for order, _, last, used, taken in paths
            ]
            continue
        extended: list[Path] = []
        for path in paths:
            order, position, last, used, taken = path
            if current < position:
                extended.append(path)
                continue
            for match in of_word:
                if match.used & used:
                    continue
                through = order + match.weight
                if last != match.candidate_start and last != -1:
                    through += _CHUNK
                extended.append((through, match.end, match.candidate_end, used | match.used, (match, taken)))
                # The jar's slip: the matches that follow, and the path without any, bear the distance.
                order += match.distance
            extended.append((order + _CHUNK if last != -1 else order, current + 1, -1, used, taken))
        paths = extended
    paths.sort(key=_ORDER)
    # The last chunk ends with the text.
    best = min(paths[:BEAM], key=lambda path: path[0] + _CHUNK if path[2] != -1 else path[0])
    chosen: list[Match] = []
    taken = best[4]
    while taken is not None:
        match, taken = taken
        chosen.append(match)
    return chosen[::-1]
