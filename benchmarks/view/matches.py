"""Matches of CAPTURE and METEOR between a caption and its references, as text spans to highlight."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ...errors import BenchError, MetricError
from ...tasks.schema import MetricEntry
from ..explaining.rows import HOWS as CAPTURE_HOWS
from ..explaining.rows import ReferenceMatches, TextSpan, reference_matches
from ..inputs.settings import read_metric
from ..records.record import Record

if TYPE_CHECKING:
    from ...metrics.capture.metric import Capture
    from ...metrics.meteor.metric import Alignment

METEOR_HOWS: Mapping[str, str] = {
    "exact": "the same word",
    "stem": "the same stem",
    "synonym": "synonyms",
    "paraphrase": "paraphrases, of one word or several",
}
_SAME = 1e-6
"""Maximum difference between explained and recorded score; both are from 0 to 1."""


@dataclass(frozen=True)
class SampleExplanation:
    """Explanation of a score.

    Attributes:
        hows: Types of matches, each with its meaning.
        method: How the score is aggregated over references.
        of_references: Matches with each reference.
    """

    hows: Mapping[str, str]
    method: str
    of_references: Sequence[ReferenceMatches]


_Explained = tuple[SampleExplanation, float]
"""An explanation, and the recomputed score."""


def can_explain(record: Record, metric: str) -> bool:
    """Return whether matches of a metric can be explained, given its requirements are installed."""
    return record.registered_name(metric) in _EXPLAINERS


def explain(record: Record, metric: str, row: Mapping[str, Any]) -> SampleExplanation:
    """Return the matches of a metric in a sample, by its own matching, which must give the recorded score. Thread-safe.

    Args:
        record: The run's record.
        metric: Name of CAPTURE or METEOR in the run.
        row: The sample.

    Raises:
        BenchError: The sample has no single caption with references, a requirement is missing on this machine, or the
            recomputed score differs.
    """
    candidate, references, score = row.get("candidate"), row.get("references"), row.get(metric)
    if not isinstance(candidate, str) or not references:
        raise MetricError("cannot explain: the sample has no caption with references")
    if score is None or not math.isfinite(score):
        raise MetricError("cannot explain: the sample has no score of this metric")
    with _LOCK:
        explanation, value = _EXPLAINERS[record.registered_name(metric)](record, metric, candidate, references)
    if abs(value - score) > _SAME:
        raise MetricError(
            f"cannot explain: the recomputed score is {value:.4f}, but the recorded score is {score:.4f}",
            "Models, word lists or versions differ. Run the task again on this machine.",
        )
    return explanation


def _capture_matches(record: Record, metric: str, candidate: str, references: Sequence[str]) -> _Explained:
    from ...metrics import Context
    from ..store.store import Store, parse_store

    with Store(parse_store(None).file) as store:
        scorer = _capture(_entry(record, metric).model_dump_json(exclude_defaults=True))
        matches = scorer.explain(candidate, references, Context(cache=store))
    parts = [reference_matches(candidate, *pair) for pair in zip(references, matches, strict=True)]
    method = f"the mean over references of {_what_capture_is(scorer)}"
    hows = {str(how): meaning for how, meaning in CAPTURE_HOWS.items()}
    return SampleExplanation(hows, method, parts), sum(match.value for match in matches) / len(matches)


def _meteor_matches(record: Record, metric: str, candidate: str, references: Sequence[str]) -> _Explained:
    from ...metrics.meteor.metric import explain

    alignments = explain(candidate, references)
    explanation = SampleExplanation(METEOR_HOWS, "the maximum over references", list(map(_of_meteor, alignments)))
    return explanation, max(alignment.value for alignment in alignments)


_EXPLAINERS = {"capture": _capture_matches, "meteor": _meteor_matches}
_LOCK = threading.Lock()


@cache
def _capture(entry: str) -> Capture:
    """Return CAPTURE with the settings of a metric, as JSON."""
    from ...metrics.capture.metric import Capture
    from ..running.planned_metrics import plan_metric

    planned = plan_metric(MetricEntry.model_validate_json(entry), frozenset({"references"}))
    if planned.error:
        message, _, hint = planned.error.partition("\n")
        raise MetricError(message, hint)
    if not isinstance(planned.metric, Capture):
        raise MetricError("the metric is not capbench's CAPTURE")
    return planned.metric


def _entry(record: Record, metric: str) -> MetricEntry:
    """Return a metric with the settings of the run, from the task or from the metric's name.

    Raises:
        BenchError: The settings cannot be read.
    """
    listed = record.config.get("metric_list", [])
    try:
        entries = [MetricEntry.model_validate({"metric": item} if isinstance(item, str) else item) for item in listed]
    except ValueError as error:
        raise BenchError(f"cannot read the settings of metric '{metric}': {error}") from error
    return next((entry for entry in entries if entry.called == metric), None) or read_metric(metric)


def _what_capture_is(scorer: Capture) -> str:
    kind, _, name = scorer.number.rpartition("_")
    spelled = name.capitalize() if name == "f1" else name
    if kind:
        return f"the {spelled} of {kind}s"
    weights = " : ".join(f"{weight:g}" for weight in scorer.weights.values())
    return f"the {spelled} of objects, attributes and relations, weighted {weights}"


def _of_meteor(alignment: Alignment) -> ReferenceMatches:
    spans: list[list[TextSpan]] = []
    counts: dict[str, str] = {}
    for name, words, places in (
        ("caption", alignment.candidate, [(pair.candidate, pair.how) for pair in alignment.aligned]),
        ("reference", alignment.reference, [(pair.reference, pair.how) for pair in alignment.aligned]),
    ):
        spans.append(list(_marked(words, places)))
        counts[f"aligned words of the {name}"] = f"{sum(end - start for (start, end), _ in places)} of {len(words)}"
    return ReferenceMatches(alignment.value, spans[0], spans[1], counts | {"chunks": str(alignment.chunks)})


def _marked(words: Sequence[str], places: Sequence[tuple[tuple[int, int], str]]) -> Iterator[Any]:
    """Yield spans of unmarked words and marked phrases."""
    end = 0
    for (start, stop), how in sorted(places):
        if start > end:
            yield TextSpan(" ".join(words[end:start]) + " ", None)
        yield TextSpan(" ".join(words[start:stop]), how)  # type: ignore[arg-type]
        yield TextSpan(" ", None)
        end = stop
    if end < len(words):
        yield TextSpan(" ".join(words[end:]), None)
