"""All matches of all matchers between candidates and references, for many pairs at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..words.ngrams import spans
from .lexicon import EXACT, PARAPHRASE, SYNONYM, Texts
from .relation import Spans


@dataclass(frozen=True)
class Matches:
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

    def take(self, which: np.ndarray) -> Matches:
        """Return some of them."""
        return Matches(*(column[which] for column in vars(self).values()))

    @classmethod
    def of(cls, *parts: Matches) -> Matches:
        """Return matches of parts, one part after the other."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))


def find_matches(texts: Texts, candidates: np.ndarray, references: np.ndarray) -> Matches:
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
    found = Matches.of(exact, *(part.take(np.flatnonzero(~identical[part.pair])) for part in parts[1:]))
    return found.take(np.argsort(_place(found.pair, found.start, lengths), kind="stable"))


def _place(pair: np.ndarray, start: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the numbers of words, counted through all pairs, of which each has so many."""
    return (np.cumsum(lengths) - lengths)[pair] + start


def _by_word(texts: Texts, candidates: np.ndarray, references: np.ndarray) -> list[Matches]:
    """Return the matches of words by the matchers for words, each in the order of pairs and places."""
    found = texts.word_matches.relation.find(
        Spans(texts.words, texts.starts[references], texts.lengths[references]),
        Spans(texts.words, texts.starts[candidates], texts.lengths[candidates]),
    )
    start = found.left - texts.starts[references[found.pair]]
    candidate_start = found.right - texts.starts[candidates[found.pair]]
    matchers = texts.word_matches.matchers[found.at]
    by_matcher = []
    for matcher in range(SYNONYM + 1):
        by_it = np.flatnonzero(matchers >> matcher & 1)
        one, kind = np.ones(len(by_it), np.int64), np.full(len(by_it), matcher)
        by_matcher.append(Matches(found.pair[by_it], start[by_it], one, candidate_start[by_it], one, kind))
    return by_matcher


def _by_phrase(texts: Texts, candidates: np.ndarray, references: np.ndarray) -> list[Matches]:
    """Return the matches of paraphrases of references' phrases, then of candidates', each in the jar's order."""
    known = texts.phrase_matches
    sizes = np.diff(known.first)
    found = known.relation.find(
        Spans(known.phrases, known.first[references], sizes[references]),
        Spans(known.phrases, known.first[candidates], sizes[candidates]),
    )
    matches = Matches(
        found.pair,
        known.starts[found.left],
        known.lengths[found.left],
        known.starts[found.right],
        known.lengths[found.right],
        np.full(len(found.pair), PARAPHRASE),
    )
    place = _place(matches.pair, matches.start, texts.lengths[references])
    ranks = known.rank[found.at], known.rank_back[found.at]
    orders = (
        (matches.candidate_start, ranks[0], matches.length, place),
        (ranks[1], matches.candidate_length, matches.candidate_start, place),
    )
    there = [np.flatnonzero(rank >= 0) for rank in ranks]
    return [
        matches.take(one[np.lexsort([key[one] for key in order])])
        for one, order in zip(there, orders, strict=True)
    ]


def contended_words(
    matches: Matches, candidate_lengths: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tell which words matches take that others could take, and which matches overlap with no other.

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
    coverage = np.bincount(spans(place, length), minlength=int(lengths.sum()))
    return np.concatenate([[0], np.cumsum(coverage > 1)])
