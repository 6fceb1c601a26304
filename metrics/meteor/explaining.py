"""What METEOR aligned, word by word."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...errors import MetricError
from ..words.ptb import tokenize_text
from . import resources as meteor_resources
from . import text as meteor_text
from .aligner import alignments, counted
from .formula import exempt, meteor
from .in_python import lexicon_of
from .metric import cleaned

How = Literal["exact", "stem", "synonym", "paraphrase"]
HOWS: tuple[How, ...] = ("exact", "stem", "synonym", "paraphrase")


@dataclass(frozen=True)
class Aligned:
    """A phrase of the candidate and the one of the reference that it is aligned with.

    Attributes:
        how: The matcher that found it.
        candidate: First word, and the one after the last, of the candidate's phrase.
        reference: The same of the reference's.
    """

    how: How
    candidate: tuple[int, int]
    reference: tuple[int, int]


@dataclass(frozen=True)
class Alignment:
    """How METEOR held a candidate against one reference.

    Attributes:
        candidate: The candidate's words as METEOR reads them.
        reference: The reference's.
        aligned: What was aligned, from left to right in the reference.
        chunks: Runs of aligned words that stand in the same order on both sides.
        value: METEOR of the two.
    """

    candidate: list[str]
    reference: list[str]
    aligned: list[Aligned]
    chunks: int
    value: float


def explain(candidate: str, references: Sequence[str], *, timeout: float = 60.0) -> list[Alignment]:
    """Return how a candidate is aligned with each reference; the greatest of the values is its score.

    Args:
        candidate: The caption.
        references: Captions to hold it against.
        timeout: Seconds that it may take.

    Raises:
        MetricError: METEOR's tables are missing, or it takes longer.
    """
    resources = meteor_resources.load()
    read = [cleaned(tokenize_text(one)) for one in (candidate, *references)]
    texts = lexicon_of(resources).read(read)
    mine, theirs = np.zeros(len(references), np.int64), np.arange(1, len(read))
    try:
        found = alignments(texts, mine, theirs, time.perf_counter() + timeout)
    except TimeoutError as error:
        raise MetricError(f"METEOR did not align it within {timeout:g} s") from error
    statistics = counted(found, texts, mine, theirs)
    words = [meteor_text.words(one, resources.prefixes) for one in read]
    aligned: list[list[Aligned]] = [[] for _ in references]
    columns = (
        found.pair,
        found.matcher,
        found.candidate_start,
        found.candidate_length,
        found.start,
        found.length,
    )
    for pair, matcher, first, length, start, size in zip(*(one.tolist() for one in columns), strict=True):
        aligned[pair].append(Aligned(HOWS[matcher], (first, first + length), (start, start + size)))
    values = meteor(exempt(statistics)).tolist()
    chunks = statistics[:, 20].astype(int).tolist()
    return [
        Alignment(words[0], its, its_aligned, its_chunks, value)
        for its, its_aligned, its_chunks, value in zip(words[1:], aligned, chunks, values, strict=True)
    ]
