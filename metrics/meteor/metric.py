"""METEOR 1.5."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from ...batches import grouped
from ...downloads import Resource
from ...errors import MetricError
from ..contract import PARSEABLE, Context, kept
from ..items import Items, Scores
from ..words import ptb
from ..words.ptb import tokenize_text
from . import resources as meteor_resources
from . import text as meteor_text
from .aligner import alignments, counted
from .lexicon import Lexicon
from .resources import MeteorTables

How = Literal["exact", "stem", "synonym", "paraphrase"]
HOWS: tuple[How, ...] = ("exact", "stem", "synonym", "paraphrase")
N_STATISTICS = 23
"""Numbers of an alignment; columns as in ``meteor``."""


@dataclass(frozen=True)
class PhraseMatch:
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
    """How METEOR compared a candidate with one reference.

    Attributes:
        candidate: The candidate's words as METEOR reads them.
        reference: The reference's.
        aligned: The alignment, from left to right in the reference.
        chunks: Runs of aligned words that stand in the same order on both sides.
        factors: Weighted precision and recall of words, their harmonic mean, and the penalty for fragmentation.
        value: METEOR of the two.
    """

    candidate: list[str]
    reference: list[str]
    aligned: list[PhraseMatch]
    chunks: int
    factors: dict[str, float]
    value: float


def explain(candidate: str, references: Sequence[str], *, timeout: float = 60.0) -> list[Alignment]:
    """Return how a candidate is aligned with each reference; the greatest of the values is its score.

    Args:
        candidate: The caption.
        references: Captions to compare it with.
        timeout: Seconds that it may take.

    Raises:
        MetricError: METEOR's tables are missing, or it takes longer.
    """
    resources = meteor_resources.load()
    read = [cleaned(tokenize_text(text)) for text in (candidate, *references)]
    texts = lexicon_of(resources).read(read)
    of_candidate, of_reference = np.zeros(len(references), np.int64), np.arange(1, len(read))
    try:
        table = alignments(texts, of_candidate, of_reference, time.perf_counter() + timeout)
    except TimeoutError as error:
        raise MetricError(f"METEOR did not align it within {timeout:g} s") from error
    statistics = counted(table, texts, of_candidate, of_reference)
    words = [meteor_text.words(text, resources.prefixes) for text in read]
    aligned: list[list[PhraseMatch]] = [[] for _ in references]
    columns = (table.pair, table.matcher, table.candidate_start, table.candidate_length, table.start, table.length)
    for pair, matcher, first, length, start, size in zip(*(column.tolist() for column in columns), strict=True):
        aligned[pair].append(PhraseMatch(HOWS[matcher], (first, first + length), (start, start + size)))
    exempted, chunks = exempt(statistics), statistics[:, 20].astype(int).tolist()
    factors, values = np.nan_to_num(_factors(exempted)).T.tolist(), meteor(exempted).tolist()
    return [
        Alignment(words[0], *of_pair[:3], dict(zip(_FACTORS, of_pair[3], strict=True)), of_pair[4])
        for of_pair in zip(words[1:], aligned, chunks, factors, values, strict=True)
    ]


# Items that are aligned together: about 1,200 captions of COCO with their references, or fewer longer ones.
_CHARACTERS_A_BATCH = 400_000


def align(keys: Sequence[str], timeout: float) -> Iterator[dict[str, list[float] | str]]:
    """Yield batches of answers in the order of the keys.

    Args:
        keys: Items, each a candidate and its references as a JSON list; distinct.
        timeout: Seconds an item may take.

    Yields:
        For each key of a batch its statistics with the best reference, or why it has none.

    Raises:
        MetricError: The jar or the paraphrase table is missing.
    """
    lexicon = lexicon_of(meteor_resources.load())
    for batch in grouped(keys, len, _CHARACTERS_A_BATCH):
        texts = [json.loads(key) for key in batch]
        yield dict(zip(batch, _answers(texts, lexicon, timeout), strict=True))


@cache
def lexicon_of(resources: MeteorTables) -> Lexicon:
    """Return the lexicon of this process, which knows the words of all that was aligned before."""
    return Lexicon(resources)


def _answers(items: Sequence[Sequence[str]], lexicon: Lexicon, timeout: float) -> list[list[float] | str]:
    """Return for each item the statistics with the reference, the first of equals, that scores most."""
    numbers: dict[str, int] = {}
    of_item = [[numbers.setdefault(text, len(numbers)) for text in item] for item in items]
    texts = lexicon.read(list(numbers))
    candidates = np.array([candidate for candidate, *references in of_item for _ in references])
    references = np.array([reference for _, *references in of_item for reference in references])
    try:
        chosen = alignments(texts, candidates, references, time.perf_counter() + timeout)
    except TimeoutError:
        if len(items) == 1:
            return [f"METEOR did not align it within {timeout:g} s"]
        # Each has the time for itself.
        return [answer for item in items for answer in _answers([item], lexicon, timeout)]
    rows = counted(chosen, texts, candidates, references)
    values, sizes = meteor(exempt(rows)), np.array([len(item) - 1 for item in items])
    starts = np.cumsum(sizes) - sizes
    best = np.flatnonzero(values == np.repeat(np.maximum.reduceat(values, starts), sizes))
    return rows[best[np.diff(np.searchsorted(starts, best, side="right"), prepend=0) != 0]].tolist()


# The values for English that the jar uses with "-l en" (section 3).
ALPHA = 0.85
BETA = 0.2
GAMMA = 0.6
DELTA = 0.75
_FACTORS = ("precision", "recall", "mean", "penalty")
MODULE_WEIGHTS = (1.0, 0.6, 0.8, 0.6)  # exact, stem, synonym, paraphrase


def meteor(statistics: np.ndarray) -> np.ndarray:
    """Return METEOR ``[m]``, 0 to 1, of statistics.

    Args:
        statistics: ``[m, 23]``, of single items or sums over items: words of candidate and reference
            (columns 0, 1), function words among them (2, 3); then for exact, stem, synonym and
            paraphrase matches in turn the matched content words of candidate and reference and the
            matched function words of both (4 to 19); chunks, after ``exempt`` (20); all matched words
            of candidate and reference (21, 22).
    """
    _, _, mean, penalty = _factors(statistics)
    return np.nan_to_num(mean * (1 - penalty), nan=0.0)


def _factors(statistics: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return precision, recall, their mean and the penalty, each ``[m]``; NaN where nothing matched."""
    # In the jar's order, to the last bit: of two references with the same value it takes the first.
    words, function_words = statistics[:, 0:2], statistics[:, 2:4]
    matches = statistics[:, 4:20].reshape(-1, 4, 2, 2)
    weighted_matches = np.zeros(words.shape)
    for kind, weight_of_kind in enumerate((DELTA, 1 - DELTA)):
        for module, weight in enumerate(MODULE_WEIGHTS):
            weighted_matches += matches[:, module, kind] * weight * weight_of_kind
    weighted_words = DELTA * (words - function_words) + (1 - DELTA) * function_words
    # Nothing matched: 0 / 0, and no value but 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = (weighted_matches / weighted_words).T
        mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
        fragmentation = statistics[:, 20] / (statistics[:, 21:23].sum(axis=1) / 2)
        return precision, recall, mean, GAMMA * fragmentation**BETA


def exempt(statistics: np.ndarray) -> np.ndarray:
    """Return the jar's statistics with no chunk where candidate and reference match wholly in one.

    Not in the paper: the jar neither penalises such an item nor counts its chunk when it
    sums items. Without this step the corpus value is off in the fifth decimal.

    Args:
        statistics: ``[m, 23]`` of single items, as the jar answers.
    """
    matched = statistics[:, 4:20].reshape(-1, 8, 2).sum(axis=1)
    whole = (matched == statistics[:, 0:2]).all(axis=1) & (statistics[:, 20] == 1)
    exempted = statistics.copy()
    exempted[whole, 20] = 0.0
    return exempted


class Meteor(ptb.TokenMetric):
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
        timeout: Seconds an item may take; one that takes longer has no value.

    Raises:
        ValueError: An argument is out of range.
    """

    english_only = True
    longest_caption = PARSEABLE
    label = "METEOR"
    needs = frozenset({"references"})
    aggregation = "corpus"
    source = "Denkowski and Lavie, WMT 2014; meteor-1.5.jar, -l en -norm, as pycocoevalcap meteor/meteor.py"

    is_plain = True

    def __init__(self, timeout: float = 60.0) -> None:
        if timeout <= 0:
            raise ValueError(f"'timeout' must be above 0 seconds, not {timeout:g}")
        # Private, as it changes no value: fingerprint() passes it over.
        self._timeout = timeout

    def check(self) -> None:
        """Raise if METEOR's jar or paraphrase table is missing."""
        meteor_resources.check()

    def resources(self) -> Sequence[Resource]:
        """Return what ``bench fetch`` fetches for it."""
        return [meteor_resources.resource()]

    def fingerprint(self) -> dict[str, Any]:
        """Return whose alignment it is and what tokenises."""
        return {**super().fingerprint(), **meteor_resources.fingerprint()}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: METEOR's tables are missing.
        """
        tokenized = ptb.tokenize_items(items)
        failures = dict(tokenized.failures)
        set_of_item = items.reference_sets[1].tolist()
        keys = {
            item: _key(candidate, tokenized.reference_sets[set_of_item[item]])
            for item, candidate in enumerate(tokenized.candidates)
            if item not in failures
        }
        reasons: dict[str, str] = {}

        def compute(missing: list[str]) -> Iterator[dict[str, list[float]]]:
            for answers in align(missing, self._timeout):
                reasons.update((key, answer) for key, answer in answers.items() if isinstance(answer, str))
                yield {key: answer for key, answer in answers.items() if not isinstance(answer, str)}

        producer = meteor_resources.fingerprint()
        known = kept(context.cache, producer, keys.values(), compute, context.progress, reasons)
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


def _key(candidate: str, references: Sequence[str]) -> str:
    """Return the texts of an item as one JSON string, under which its statistics are kept."""
    return json.dumps([cleaned(candidate), *map(cleaned, references)], ensure_ascii=False)


def cleaned(text: str) -> str:
    """Return a text without what separates texts in the jar's protocol."""
    # pycocoevalcap cleans the candidate only; "|||" in a reference would make it two references.
    return text.replace("|||", "").replace("  ", " ")
