"""METEOR's alignment word by word and path by path, as the jar does it: slow, and short enough to be seen through."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from capbench.metrics.meteor.lexicon import java_hash
from capbench.metrics.meteor.resources import MeteorTables
from capbench.metrics.meteor.stem import stem
from capbench.metrics.meteor.text import words

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
BEAM = 40


class Match(NamedTuple):
    start: int
    end: int
    candidate_start: int
    candidate_end: int
    matcher: int

    @property
    def weight(self) -> int:
        share = 1.0 if self.matcher == EXACT else 0.5
        length, candidate_length = self.end - self.start, self.candidate_end - self.candidate_start
        return int(length * share) + int(candidate_length * share)

    @property
    def distance(self) -> int:
        return abs(self.start - self.candidate_start)


class Path(NamedTuple):
    weight: int
    chunks: int
    distance: int
    position: int
    last: int
    taken: tuple[Match, ...]

    @property
    def order(self) -> tuple[int, int, int]:
        return -self.weight, self.chunks, self.distance

    @property
    def ended(self) -> tuple[int, int, int]:
        return -self.weight, self.chunks + (self.last != -1), self.distance


def statistics(candidate: str, reference: str, resources: MeteorTables) -> list[int]:
    """Return the 23 statistics of a candidate and one reference."""
    candidates, references = words(candidate, resources.prefixes), words(reference, resources.prefixes)
    chosen = search(matches(candidates, references, resources), len(references))
    counts = [0] * 16
    for match in chosen:
        for side, part in enumerate(
            (candidates[match.candidate_start : match.candidate_end], references[match.start : match.end])
        ):
            functions = sum(word in resources.function_words for word in part)
            counts[4 * match.matcher + side] += len(part) - functions
            counts[4 * match.matcher + 2 + side] += functions
    breaks = sum(
        one.end != other.start or one.candidate_end != other.candidate_start for one, other in pairwise(chosen)
    )
    return [
        len(candidates),
        len(references),
        sum(word in resources.function_words for word in candidates),
        sum(word in resources.function_words for word in references),
        *counts,
        breaks + bool(chosen),
        sum(match.candidate_end - match.candidate_start for match in chosen),
        sum(match.end - match.start for match in chosen),
    ]


def matches(candidates: list[str], references: list[str], resources: MeteorTables) -> list[Match]:
    """Return all matches, those that begin at one word of the reference in the jar's order."""
    same = list(map(java_hash, candidates)) == list(map(java_hash, references))
    found = []
    for start, reference in enumerate(references):
        of_word = [
            (matcher, place)
            for place, candidate in enumerate(candidates)
            for matcher in matchers(candidate, reference, resources)
            if not same or matcher == EXACT
        ]
        found += [Match(start, start + 1, place, place + 1, matcher) for matcher, place in sorted(of_word)]
    if same:
        return found
    found += [
        Match(start, end, place, place_end, PARAPHRASE)
        for start, end, place, place_end in paraphrased(references, candidates, resources)
    ]
    found += [
        Match(place, place_end, start, end, PARAPHRASE)
        for start, end, place, place_end in paraphrased(candidates, references, resources)
    ]
    return sorted(found, key=lambda match: match.start)


def matchers(one: str, other: str, resources: MeteorTables) -> list[int]:
    hashed, stemmed, sets = properties(one, resources)
    other_hashed, other_stemmed, others = properties(other, resources)
    if hashed == other_hashed:
        return [EXACT]
    return [STEM] * (stemmed == other_stemmed) + [SYNONYM] * (not sets.isdisjoint(others))


@cache
def properties(word: str, resources: MeteorTables) -> tuple[int, int, frozenset[int]]:
    (sets,) = resources.synonyms.of([word])
    return java_hash(word), java_hash(stem(word)), frozenset(sets.tolist())


def paraphrased(texts: list[str], others: list[str], resources: MeteorTables) -> list[tuple[int, int, int, int]]:
    table = resources.paraphrases
    found = []
    for start, end, node in phrases(tuple(texts), resources):
        targets = table.targets[table.first[node] : table.first[node + 1]].tolist()
        rank = {target: rank for rank, target in enumerate(targets)}
        meant = [(rank[other], place, to) for place, to, other in phrases(tuple(others), resources) if other in rank]
        found += [(start, end, place, to) for _, place, to in sorted(meant)]
    return found


@cache
def phrases(text: tuple[str, ...], resources: MeteorTables) -> list[tuple[int, int, int]]:
    numbers = resources.paraphrases.words.find(text)
    found = []
    for start in range(len(text)):
        node = -1
        for end in range(start + 1, len(text) + 1):
            if numbers[end - 1] < 0:
                break
            node = int(resources.paraphrases.extend(np.array([node]), numbers[end - 1 : end])[0])
            if node < 0:
                break
            found.append((start, end, node))
    return found


def search(found: list[Match], n_references: int) -> tuple[Match, ...]:
    """Return the matches of the best path."""
    covered = Counter(place for match in found for place in range(match.start, match.end))
    candidate_covered = Counter(place for match in found for place in range(match.candidate_start, match.candidate_end))
    paths = [Path(0, 0, 0, 0, -1, ())]
    for current in range(n_references):
        here = [match for match in found if match.start == current]
        alone = len(here) == 1 and {
            *(covered[place] for place in range(here[0].start, here[0].end)),
            *(candidate_covered[place] for place in range(here[0].candidate_start, here[0].candidate_end)),
        } == {1}
        extended = []
        for path in sorted(paths, key=lambda path: path.order)[:BEAM]:
            if path.position > current:
                extended.append(path)
                continue
            distance = path.distance
            for match in here:
                if any(
                    match.candidate_start < other.candidate_end and other.candidate_start < match.candidate_end
                    for other in path.taken
                ):
                    continue
                breaks = path.last not in (-1, match.candidate_start)
                extended.append(
                    Path(
                        path.weight + match.weight,
                        path.chunks + breaks,
                        distance + match.distance * alone,
                        match.end,
                        match.candidate_end,
                        (*path.taken, match),
                    )
                )
                # The jar's slip: the matches that follow, and the path without any, bear the distance.
                distance += match.distance
            if not alone:
                extended.append(
                    Path(path.weight, path.chunks + (path.last != -1), distance, current + 1, -1, path.taken)
                )
        paths = extended
    return min(sorted(paths, key=lambda path: path.order)[:BEAM], key=lambda path: path.ended).taken
