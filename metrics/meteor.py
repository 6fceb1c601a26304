"""METEOR 1.5."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np

from ..errors import MetricError
from . import meteor_jar, ptb
from .contract import Context, Metric
from .items import Items, Scores

# The values for English that the jar uses with "-l en" (Denkowski and Lavie 2014, section 3).
ALPHA = 0.85
BETA = 0.2
GAMMA = 0.6
DELTA = 0.75
MODULE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])  # exact, stem, synonym, paraphrase


class Meteor(Metric):
    """Harmonic mean of weighted word matches with the best reference, less a penalty for fragmentation.

    The released jar aligns (exact words, stems, synonyms, paraphrases) and picks the reference; the
    value is computed here from its statistics, so the corpus value of any weighting needs no Java.

    ``Scores.parts["statistics"]``: ``[n, 23]``, columns as in ``meteor``.

    Args:
        processes: Java processes at most, of 0.6 to 1.3 GB each; by default one a core, up to 4.
        timeout: Seconds an item may take; one that takes longer has no value.

    Raises:
        MetricError: An argument is out of range.
    """

    label = "METEOR"
    needs = frozenset({"references"})
    aggregation = "corpus"
    source = "Denkowski and Lavie, WMT 2014; meteor-1.5.jar, -l en -norm, as pycocoevalcap meteor/meteor.py"

    def __init__(self, processes: int | None = None, timeout: float = 60.0) -> None:
        if (processes is not None and processes < 1) or timeout <= 0:
            raise MetricError("METEOR's processes must be at least 1, and its timeout above 0 seconds.")
        # Private, as neither changes a value: fingerprint() passes them over.
        self._processes = processes
        self._timeout = timeout

    def check(self) -> None:
        """Raise if Java, METEOR's jar or the tokeniser's jar is missing."""
        meteor_jar.check()

    def fingerprint(self) -> dict[str, Any]:
        """Return what aligns and what tokenises."""
        return {**super().fingerprint(), **meteor_jar.fingerprint(), "tokenizer": ptb.FINGERPRINT}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: The jar's processes die one after the other, or do not answer.
        """
        tokenized = ptb.tokenize_items(items)
        failures = dict(tokenized.failures)
        set_of_item = items.reference_sets[1].tolist()
        keys = {
            item: _key(candidate, tokenized.reference_sets[set_of_item[item]])
            for item, candidate in enumerate(tokenized.candidates)
            if item not in failures
        }
        known, reasons = self._statistics(list(dict.fromkeys(keys.values())), context)
        statistics = np.zeros((len(items), meteor_jar.N_STATISTICS))
        for item, key in keys.items():
            if key in known:
                statistics[item] = known[key]
            else:
                failures[item] = reasons[key]
        statistics = exempt(statistics)
        values = meteor(statistics)
        values[list(failures)] = np.nan
        return Scores(values=values, parts={"statistics": statistics}, failures=failures)

    def corpus(self, scores: Scores, weights: np.ndarray) -> float:
        """Return METEOR of the summed statistics, each item counted as often as it weighs."""
        return float(meteor((weights @ scores.parts["statistics"])[None])[0])

    def _statistics(
        self, keys: Sequence[str], context: Context
    ) -> tuple[dict[str, list[float]], dict[str, str]]:
        """Return the statistics of keys, and for keys without any the reason."""
        producer = meteor_jar.fingerprint()
        known: dict[str, list[float]] = dict(context.cache.get(producer, keys))
        reasons: dict[str, str] = {}
        missing = [key for key in keys if key not in known]
        context.progress(len(known), len(keys))
        with closing(meteor_jar.align(missing, _line, self._processes, self._timeout)) as batches:
            for answers in batches:
                new = {key: answer for key, answer in answers.items() if not isinstance(answer, str)}
                context.cache.put(producer, new)
                known.update(new)
                reasons.update((key, answer) for key, answer in answers.items() if isinstance(answer, str))
                context.progress(len(known) + len(reasons), len(keys))
        return known, reasons


def meteor(statistics: np.ndarray) -> np.ndarray:
    """Return METEOR ``[m]``, 0 to 1, of statistics (Denkowski and Lavie 2014, equations 1 to 5).

    Args:
        statistics: ``[m, 23]``, of single items or sums over items: words of candidate and reference
            (columns 0, 1), function words among them (2, 3); then for exact, stem, synonym and
            paraphrase matches in turn the matched content words of candidate and reference and the
            matched function words of both (4 to 19); chunks, after ``exempt`` (20); all matched words
            of candidate and reference (21, 22).
    """
    words, function_words = statistics[:, 0:2], statistics[:, 2:4]
    matches = np.einsum("w,mwks->mks", MODULE_WEIGHTS, statistics[:, 4:20].reshape(-1, 4, 2, 2))
    weighted_matches = DELTA * matches[:, 0] + (1 - DELTA) * matches[:, 1]
    weighted_words = DELTA * (words - function_words) + (1 - DELTA) * function_words
    precision, recall = _ratio(weighted_matches, weighted_words).T
    mean = _ratio(precision * recall, ALPHA * precision + (1 - ALPHA) * recall)
    fragmentation = _ratio(statistics[:, 20], statistics[:, 21:23].mean(axis=1))
    return mean * (1 - GAMMA * fragmentation**BETA)


def exempt(statistics: np.ndarray) -> np.ndarray:
    """Return the jar's statistics with no chunk where candidate and reference match wholly in one.

    The paper does not say so, but the jar neither penalises such an item nor counts its chunk when it
    sums items: without this step the corpus value is off in the fifth decimal.

    Args:
        statistics: ``[m, 23]`` of single items, as the jar answers.
    """
    matched = statistics[:, 4:20].reshape(-1, 8, 2).sum(axis=1)
    whole = (matched == statistics[:, 0:2]).all(axis=1) & (statistics[:, 20] == 1)
    exempted = statistics.copy()
    exempted[whole, 20] = 0.0
    return exempted


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return ``above / below``, 0 where ``below`` is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)


def _key(candidate: str, references: Sequence[str]) -> str:
    """Return the texts of an item as one JSON string, under which its statistics are kept."""
    return json.dumps([_clean(candidate), *map(_clean, references)], ensure_ascii=False)


def _clean(text: str) -> str:
    """Return a text without what separates texts in the jar's protocol."""
    # pycocoevalcap cleans the candidate only; "|||" in a reference would make it two references.
    return text.replace("|||", "").replace("  ", " ")


def _line(key: str) -> str:
    """Return the question to the jar for a key."""
    candidate, *references = json.loads(key)
    return " ||| ".join(["SCORE", *references, candidate])
