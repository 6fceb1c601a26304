"""METEOR 1.5 without Java: the jar's statistics, many items at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Sequence
from functools import cache

import numpy as np

from . import resources as meteor_resources
from .aligner import statistics
from .formula import exempt, meteor
from .lexicon import Lexicon
from .resources import Resources

# What is aligned together: about 1,200 captions of COCO with their references, or fewer longer ones.
_CHARACTERS_A_BATCH = 400_000


def align(keys: Sequence[str], timeout: float) -> Generator[dict[str, list[float] | str], None, None]:
    """Yield batches of answers in the order of the keys; see ``meteor_jar.align``.

    Args:
        keys: Items, each a candidate and its references as a JSON list; distinct.
        timeout: Seconds an item may take.

    Yields:
        For each key of a batch its statistics with the best reference, or why it has none.

    Raises:
        MetricError: The jar or the paraphrase table is missing.
    """
    if not keys:
        return
    lexicon = lexicon_of(meteor_resources.load())
    for batch in _batches(keys):
        texts = [json.loads(key) for key in batch]
        yield dict(zip(batch, _answers(texts, lexicon, timeout), strict=True))


@cache
def lexicon_of(resources: Resources) -> Lexicon:
    """Return the lexicon of this process, which knows the words of all that was aligned before."""
    return Lexicon(resources)


def _batches(keys: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for key in keys:
        if batch and size + len(key) > _CHARACTERS_A_BATCH:
            yield batch
            batch, size = [], 0
        batch.append(key)
        size += len(key)
    yield batch


def _answers(items: Sequence[Sequence[str]], lexicon: Lexicon, timeout: float) -> list[list[float] | str]:
    """Return for each item the statistics with the reference, the first of equals, that scores most."""
    numbers: dict[str, int] = {}
    of_item = [[numbers.setdefault(text, len(numbers)) for text in item] for item in items]
    texts = lexicon.read(list(numbers))
    candidates = np.array([candidate for candidate, *references in of_item for _ in references])
    references = np.array([reference for _, *references in of_item for reference in references])
    try:
        rows = statistics(texts, candidates, references, time.perf_counter() + timeout)
    except TimeoutError:
        if len(items) == 1:
            return [f"METEOR did not align it within {timeout:g} s"]
        # Each has the time for itself.
        return [answer for item in items for answer in _answers([item], lexicon, timeout)]
    sizes = np.array([len(item) - 1 for item in items])
    return rows[_first_best(meteor(exempt(rows)), sizes)].tolist()


def _first_best(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the first of the greatest values of each group; groups of these sizes stand side by side."""
    starts = np.cumsum(sizes) - sizes
    best = np.flatnonzero(values == np.repeat(np.maximum.reduceat(values, starts), sizes))
    return best[np.diff(np.searchsorted(starts, best, side="right"), prepend=0) != 0]
