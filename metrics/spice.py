"""SPICE: agreement with the references in scene graphs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .contract import PARSEABLE, Context, Metric
from .items import Items, Scores
from .java import spice as spice_jar
from .words import ptb

_BATCH = 2_000


class Spice(Metric):
    """F1 of the objects, attributes and relations of the caption against those of all references together.

    The released jar parses and compares; it needs the jars of Stanford CoreNLP 3.6.0, which no package
    ships (``bench score --metrics spice`` says which are missing and where they come from). As released, an
    item whose references hold no tuple scores 0. So does a caption without a token, which the jar is not asked
    about: it holds no tuple.

    ``Scores.parts``: ``precision [n]``, ``recall [n]``, and F1 of the tuples of one kind: ``object [n]``,
    ``attribute [n]``, ``relation [n]``, ``color [n]``, ``size [n]``, ``cardinality [n]``, NaN where the references
    have none of the kind.

    Args:
        timeout: Seconds that 2,000 items may take; what was finished before is kept.
        memory: Java's heap.

    Raises:
        ValueError: The timeout is not above 0.
    """

    splits_words = True
    longest_caption = PARSEABLE
    label = "SPICE"
    needs = frozenset({"references"})
    source = "Anderson et al., ECCV 2016; spice-1.0.jar with CoreNLP 3.6.0, as pycocoevalcap spice/spice.py"

    def __init__(self, timeout: float = 7200.0, memory: str = "8G") -> None:
        if timeout <= 0:
            raise ValueError("SPICE's timeout must be above 0 seconds")
        # Private, as neither changes a value.
        self._timeout = timeout
        self._memory = memory

    def check(self) -> None:
        """Raise if Java, the jar, CoreNLP's jars, a JavaScript engine or the tokeniser's jar is missing."""
        spice_jar.find_program()

    def fingerprint(self) -> dict[str, Any]:
        """Return what parses and what tokenises."""
        return {**super().fingerprint(), **spice_jar.fingerprint(), "tokenizer": ptb.FINGERPRINT}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: Something is missing, or the jar failed or did not finish in time.
        """
        tokenized = ptb.tokenize_items(items)
        failures = dict(tokenized.failures)
        set_of_item = items.reference_sets[1].tolist()
        keys = {
            item: json.dumps([candidate, *tokenized.reference_sets[set_of_item[item]]], ensure_ascii=False)
            for item, candidate in enumerate(tokenized.candidates)
            if candidate and item not in failures
        }
        known = self._evaluate(list(dict.fromkeys(keys.values())), context)
        f1, precision, recall = np.full((3, len(items)), np.nan)
        kinds = {category.lower(): np.full(len(items), np.nan) for category in spice_jar.CATEGORIES[1:]}
        for item, candidate in enumerate(tokenized.candidates):
            if not candidate and item not in failures:
                f1[item] = precision[item] = recall[item] = 0.0
        for item, key in keys.items():
            scores = known[key]
            f1[item], precision[item], recall[item] = (_or_nan(number) for number in scores["All"])
            for category in spice_jar.CATEGORIES[1:]:
                kinds[category.lower()][item] = _or_nan(scores[category][0])
            if np.isnan(f1[item]):
                failures[item] = "SPICE gave NaN: neither the caption nor its references hold a tuple"
        return Scores(values=f1, parts={"precision": precision, "recall": recall, **kinds}, failures=failures)

    def _evaluate(self, keys: list[str], context: Context) -> dict[str, Any]:
        """Return the jar's scores by key."""
        producer = spice_jar.fingerprint()
        known: dict[str, Any] = dict(context.cache.get(producer, keys))
        missing = [key for key in keys if key not in known]
        context.progress(len(known), len(keys))
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            texts = [(candidate, references) for candidate, *references in map(json.loads, batch)]
            new = dict(zip(batch, spice_jar.evaluate(texts, self._memory, self._timeout), strict=True))
            context.cache.put(producer, new)
            known.update(new)
            context.progress(len(known), len(keys))
        return known


def _or_nan(number: float | None) -> float:
    return np.nan if number is None else number
