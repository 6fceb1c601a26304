"""METEOR 1.5's alignment of candidates with references (Denkowski and Lavie 2014, section 2).

All matches of all matchers are collected; where some overlap, a search chooses among them. The statistics equal
those of the released jar.
"""

from __future__ import annotations

import numpy as np

from .lexicon import PARAPHRASE, Texts
from .matches import Matches, contended_words, find_matches
from .search import search


def statistics(texts: Texts, candidates: np.ndarray, references: np.ndarray, deadline: float) -> np.ndarray:
    """Return the statistics ``[p, 23]`` of candidates, each with one reference, columns as in ``meteor``.

    Args:
        texts: Texts.
        candidates: ``[p]`` which of them are the candidates of pairs.
        references: ``[p]`` which of them are the references.
        deadline: By ``time.perf_counter``.

    Raises:
        TimeoutError: The search is not done at the deadline.
    """
    return counted(alignments(texts, candidates, references, deadline), texts, candidates, references)


def alignments(texts: Texts, candidates: np.ndarray, references: np.ndarray, deadline: float) -> Matches:
    """Return the matches that the alignments of candidates, each with one reference, consist of.

    Args:
        texts: Texts.
        candidates: ``[p]`` which of them are the candidates of pairs.
        references: ``[p]`` which of them are the references.
        deadline: By ``time.perf_counter``.

    Raises:
        TimeoutError: The search is not done at the deadline.
    """
    matches = find_matches(texts, candidates, references)
    return _chosen(matches, texts.lengths[candidates], texts.lengths[references], deadline)


def _chosen(matches: Matches, candidate_lengths: np.ndarray, lengths: np.ndarray, deadline: float) -> Matches:
    """Return the matches that the alignments consist of."""
    first, last, alone = contended_words(matches, candidate_lengths, lengths)
    contended = np.zeros(len(lengths), bool)
    contended[matches.pair[~alone]] = True
    if not contended.any():
        return matches
    searched = np.flatnonzero(contended[matches.pair])
    part = matches.take(searched)
    number = np.cumsum(contended) - 1
    part = Matches(number[part.pair], *list(vars(part).values())[1:])
    chosen = search(part, alone[searched], (first[searched], last[searched]), lengths[contended], deadline)
    kept = ~contended[matches.pair]
    kept[searched[chosen]] = True
    return matches.take(np.flatnonzero(kept))


def counted(chosen: Matches, texts: Texts, candidates: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Return the statistics ``[p, 23]`` of pairs whose alignments consist of these matches."""
    n = len(references)
    of_candidate = _words(texts, candidates[chosen.pair], chosen.candidate_start, chosen.candidate_length)
    of_reference = _words(texts, references[chosen.pair], chosen.start, chosen.length)
    column = chosen.pair * (PARAPHRASE + 1) + chosen.matcher
    # Content words of candidate and reference, function words of both.
    matched = [
        np.bincount(column, words, minlength=n * (PARAPHRASE + 1))
        for words in (
            chosen.candidate_length - of_candidate,
            chosen.length - of_reference,
            of_candidate,
            of_reference,
        )
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
