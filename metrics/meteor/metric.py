"""METEOR 1.5."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any, Literal

import numpy as np

from ..contract import PARSEABLE, Context, Metric
from ..items import Items, Scores
from ..words import ptb
from . import in_python as meteor_python
from . import jar as meteor_jar
from . import resources as meteor_resources
from .formula import N_STATISTICS, exempt, meteor


class Meteor(Metric):
    """Harmonic mean of weighted word matches with the best reference, less a penalty for fragmentation.

    With ``P`` and ``R``, the matched shares of the caption's and the reference's words, and ``f``, the chunks of
    matches in a row per matched word: ``(1 - γ f^β) / ((1 - α) / P + α / R)``, with α 0.85, β 0.2, γ 0.6. Content
    words weigh 0.75, function words 0.25; an equal word counts 1, a stem 0.6, a synonym 0.8, a paraphrase 0.6. A
    caption that is one chunk with the whole reference has no penalty.

    Words are aligned with the tables of the released jar (exact words, stems, synonyms, paraphrases);
    the value is computed from the statistics of the alignment, so the corpus value of any weighting
    needs no second one.

    ``Scores.parts["statistics"]``: ``[n, 23]``, columns as in ``meteor``.

    Args:
        backend: What aligns: our own code, or the released jar. Both give the same statistics.
        processes: Java processes at most, of 0.6 to 1.3 GB each; by default one a core, up to 4.
        timeout: Seconds an item may take; one that takes longer has no value.

    Raises:
        ValueError: An argument is out of range.
    """

    splits_words = True
    longest_caption = PARSEABLE
    label = "METEOR"
    needs = frozenset({"references"})
    aggregation = "corpus"
    source = "Denkowski and Lavie, WMT 2014; meteor-1.5.jar, -l en -norm, as pycocoevalcap meteor/meteor.py"

    def __init__(
        self,
        backend: Literal["python", "jar"] = "python",
        processes: int | None = None,
        timeout: float = 60.0,
    ) -> None:
        if backend not in ("python", "jar"):
            raise ValueError(f"METEOR's backend must be 'python' or 'jar', not {backend!r}.")
        if (processes is not None and processes < 1) or timeout <= 0:
            raise ValueError("METEOR's processes must be at least 1, and its timeout above 0 seconds.")
        # Private, as none changes a value: fingerprint() passes them over.
        self._backend = backend
        self.is_plain = backend == "python"
        self._processes = processes
        self._timeout = timeout

    def check(self) -> None:
        """Raise if METEOR's jar or paraphrase table, or the Java that runs it, is missing."""
        if self._backend == "jar":
            meteor_jar.check()
        else:
            meteor_resources.check()

    def fingerprint(self) -> dict[str, Any]:
        """Return whose alignment it is and what tokenises."""
        # The statistics are the jar's, whichever backend finds them: what one has kept the other uses.
        own = {"metric": type(self).__name__, "tokenizer": ptb.FINGERPRINT}
        return {**own, **meteor_jar.fingerprint()}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: METEOR's tables are missing, or the jar's processes die one after the other.
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
        statistics = np.zeros((len(items), N_STATISTICS))
        for item, key in keys.items():
            if key in known:
                statistics[item] = known[key]
            else:
                failures[item] = reasons[key]
        statistics = exempt(statistics)
        values = meteor(statistics)
        values[list(failures)] = np.nan
        return Scores(values=values, parts={"statistics": statistics}, failures=failures)

    def terms(self, scores: Scores) -> np.ndarray:
        """Return the statistics of each item, which are counts."""
        return scores.parts["statistics"]

    def pool(self, totals: np.ndarray) -> float:
        """Return METEOR of the summed statistics, each item counted as often as it weighs."""
        return float(meteor(totals[None])[0])

    def _statistics(
        self, keys: Sequence[str], context: Context
    ) -> tuple[dict[str, list[float]], dict[str, str]]:
        """Return the statistics of keys, and for keys without any the reason."""
        producer = meteor_jar.fingerprint()
        known: dict[str, list[float]] = dict(context.cache.get(producer, keys))
        reasons: dict[str, str] = {}
        missing = [key for key in keys if key not in known]
        context.progress(len(known), len(keys))
        with closing(self._align(missing)) as batches:
            for answers in batches:
                new = {key: answer for key, answer in answers.items() if not isinstance(answer, str)}
                context.cache.put(producer, new)
                known.update(new)
                reasons.update((key, answer) for key, answer in answers.items() if isinstance(answer, str))
                context.progress(len(known) + len(reasons), len(keys))
        return known, reasons

    def _align(self, keys: Sequence[str]) -> Generator[dict[str, list[float] | str], None, None]:
        """Return batches of statistics, or of reasons why there are none, by key."""
        if self._backend == "jar":
            return meteor_jar.align(keys, _line, self._processes, self._timeout)
        return meteor_python.align(keys, self._timeout)


def _key(candidate: str, references: Sequence[str]) -> str:
    """Return the texts of an item as one JSON string, under which its statistics are kept."""
    return json.dumps([cleaned(candidate), *map(cleaned, references)], ensure_ascii=False)


def cleaned(text: str) -> str:
    """Return a text without what separates texts in the jar's protocol."""
    # pycocoevalcap cleans the candidate only; "|||" in a reference would make it two references.
    return text.replace("|||", "").replace("  ", " ")


def _line(key: str) -> str:
    """Return the question to the jar for a key."""
    candidate, *references = json.loads(key)
    return " ||| ".join(["SCORE", *references, candidate])
