"""METEOR 1.5 without Java: the jar's statistics, item by item."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Sequence
from itertools import islice

import numpy as np

from . import resources as meteor_resources
from .aligner import statistics
from .formula import N_STATISTICS, exempt, meteor
from .lexicon import Lexicon, Text

_BATCH = 256
# References are kept for the items that share them: about 5 KB each.
_TEXTS_KEPT = 20_000


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
    lexicon = Lexicon(meteor_resources.load())
    known: dict[str, Text] = {}
    for start in range(0, len(keys), _BATCH):
        batch = {key: json.loads(key) for key in keys[start : start + _BATCH]}
        if len(known) > _TEXTS_KEPT:
            known.clear()
        new = list(dict.fromkeys(text for texts in batch.values() for text in texts if text not in known))
        known.update(zip(new, lexicon.read(new), strict=True))
        yield _answers(batch, known, lexicon, timeout)


def _answers(
    batch: dict[str, list[str]], known: dict[str, Text], lexicon: Lexicon, timeout: float
) -> dict[str, list[float] | str]:
    """Return for each item the statistics with the reference, the first of equals, that scores most."""
    answers: dict[str, list[float] | str] = {}
    each: dict[str, list[list[int]]] = {}
    for key, (candidate, *references) in batch.items():
        deadline = time.perf_counter() + timeout
        try:
            each[key] = [
                statistics(known[candidate], known[reference], lexicon, deadline) for reference in references
            ]
        except TimeoutError:
            answers[key] = f"METEOR did not align it within {timeout:g} s"
    rows = np.array([row for of_item in each.values() for row in of_item], dtype=float)
    values = iter(meteor(exempt(rows.reshape(-1, N_STATISTICS))).tolist())
    for key, of_item in each.items():
        scores = list(islice(values, len(of_item)))
        answers[key] = [float(number) for number in of_item[scores.index(max(scores))]]
    return answers
