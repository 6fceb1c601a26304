"""``generate_until``: a captioner writes, metrics score."""

import json
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np

from ...adapters import Box
from ..inputs.failures import FailureLog
from ..inputs.items import CaptionRow, caption_columns, gather, scored_caption, text_fault
from ..statistics import Draws
from ..statistics.bootstrap import Value, by_influence, finite_value, resample_values
from ..statistics.contract import Interval, Statistic, Statistics, UndefinedStatistic
from ..statistics.influence import Influence
from ..statistics.paired import paired_means
from .asking import Question, RequestLog, answered, request_of, require_captioner
from .checks import no_rows, run_checks
from .contract import IMAGE_KEYS, TEXTS, ComparedRows, EmptyCaptionSettings, PairedEstimates, Protocol
from .document_reader import Document, read_each
from .job import INTERVALS, Collected, Job, Result, ScoredMetric, ScoredMetrics, Shard, Summary, shown_times

CategoryAggregate = Literal["all", "categories"]
"""The kinds of overall values next to categories: of all documents, or the unweighted mean of categories."""


class GenerateUntilSettings(EmptyCaptionSettings):
    """The settings of a captioning task that affect its numbers."""

    aggregate: CategoryAggregate = "all"
    """The overall value next to categories: that of all documents, or the unweighted mean of categories."""

    meanings: ClassVar = TEXTS["generate_until"]["meanings"]


class GenerateUntil(Protocol[GenerateUntilSettings]):
    """System-level values of a model's captions, each scored with the references of its image.

    ``doc_to_text`` gives the instruction to the captioner; plain text is a constant instruction. With
    ``doc_to_category`` values are also given by category; document frequencies are those of all documents.
    """

    Settings = GenerateUntilSettings
    reads = (
        "doc_to_text", *IMAGE_KEYS, "doc_to_boxes", "doc_to_objects", "doc_to_category", "generation_kwargs",
        "metric_list", "video_frames",
    )  # fmt: skip
    needs = frozenset({"doc_to_text", "metric_list"})
    category_key = "doc_to_category"
    subject = "model"
    needs_captioner = True
    statistic = "mean"
    resampled = "documents"
    steps = (INTERVALS,)
    comparable = True
    lm_eval = True

    def read(self, job: Job, failures: FailureLog) -> Summary:
        """Return the number of documents that can be captioned, the data checks and the categories."""
        categories = Counter(document.category for document in read_each(job, self.document_keys, _target, failures))
        documents = categories.total()
        checks = run_checks(job, categories=categories, images=documents)
        return Summary(documents, data_checks=checks, categories=list(categories))

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Request a caption of every document; the settings decide about empty captions.

        Raises:
            DataError: As of ``Protocol.collect``, or a recorded source lacks documents and ``subset`` is not set.
        """
        require_captioner(job)
        log, asked, categories = RequestLog(job), Counter[str](), dict[str, int]()
        scored, says_something = 0, False
        for some, captioned in answered(job, read_each(job, self.document_keys, _target, failures)):
            samples: list[tuple[CaptionRow, str]] = []
            for document, answer in log.take(some, captioned, failures):
                asked[document.category] += 1
                if answer is None:
                    continue
                request = document.request
                text = answer.text if text_fault(answer.text) else _finished(answer.text, request.generation_kwargs)
                caption = scored_caption(text, request.id, "caption", self.settings.empty_caption, failures)
                if caption is not None:
                    says_something = says_something or bool(caption)
                    categories.setdefault(document.category, len(categories))
                    samples.append((document.row(caption), document.category))
            scored += len(samples)
            # A source for a part of the documents is scored only with ``subset``.
            if samples and log.may_be_part:
                yield _shard(job, samples, categories)
        checks = run_checks(job, categories=asked, images=asked.total())
        log.require_all(failures)
        if not says_something:
            raise no_rows(job, "no caption can be scored", failures)
        return log.summary(scored, checks, list(categories))

    def results(self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics) -> list[Result]:
        """Return the system-level value of each metric by category, then overall, with intervals over documents."""
        parts = _parts(collected, self.settings.aggregate)
        results: list[Result] = []
        defined: dict[str, tuple[ScoredMetric, _ResultPart]] = {}
        for entry, part in product(scored, parts):
            value, reason, n = *_value(entry, part, collected.weights), 0
            if entry.scores is not None and value is not None:
                n = int((part.items & np.isfinite(entry.scores.values)).sum())
                defined[str(len(results))] = entry, part
            label = entry.metric.label, " ".join(filter(None, (entry.aggregation, part.name)))
            better, scale = entry.metric.direction, shown_times(job.task.scale, entry.metric.range)
            results.append(
                Result(entry.name, entry.aggregation, label, value, n, better, scale, None, reason, part.name)
            )
        for place, interval in _intervals(job, len(collected.weights), defined).items():
            results[int(place)] = results[int(place)].with_interval(interval)
        return results

    def row_influence(self, collected: Collected, scored: ScoredMetrics) -> dict[str, np.ndarray]:
        """Return the influence of each row on the overall corpus values; see ``Protocol.row_influence``."""
        everyone = _parts(collected, self.settings.aggregate)[-1]
        of_corpus = {entry.name: everyone.influence(entry) for entry in scored if entry.aggregation == "corpus"}
        return {
            name: collected.of_samples(influence.of_image)
            for name, influence in of_corpus.items()
            if influence is not None and not influence.fault()
        }

    def compare(self, rows: ComparedRows, statistic: Statistic | None, draws: Draws) -> PairedEstimates:
        """Return the mean of each captioner's values over their common documents."""
        usable = rows.usable
        n = int(usable.sum())
        if n < 2:
            raise UndefinedStatistic(f"{n} documents were scored in all runs")
        values = {name: values[usable] for name, values in rows.scores.items()}
        return PairedEstimates(paired_means(values, np.arange(n), draws), n, n)


@dataclass(frozen=True)
class _CaptionTarget(Question):
    """The request to the captioner, and the references of its answer."""

    references: tuple[str, ...]
    objects: frozenset[str] | None
    boxes: tuple[Box, ...] | None
    category: str

    def content(self) -> bytes:
        """Return id, references and objects, as JSON."""
        objects = None if self.objects is None else sorted(self.objects)
        return json.dumps([self.request.id, self.references, objects]).encode()

    def row(self, caption: str) -> CaptionRow:
        """Return a caption with its references, to score."""
        # Each document is one image; file names may repeat, so its id identifies the image.
        identity, pixels = self.request.id, self.request.pixels
        return CaptionRow(
            identity, identity, caption, self.references, objects=self.objects, pixels=pixels, boxes=self.boxes
        )


def _target(document: Document) -> Iterator[_CaptionTarget]:
    """Yield a document that can be captioned."""
    # The first fault in this order is reported.
    references, objects, boxes = document.references, document.objects, document.boxes
    category = document.category
    yield _CaptionTarget(request_of(document), references, objects, boxes, category)


def _shard(job: Job, samples: Sequence[tuple[CaptionRow, str]], categories: Mapping[str, int]) -> Shard:
    """Return a shard of captions, each with its category."""
    rows, names = [row for row, _ in samples], [category for _, category in samples]
    # A document is an image here, so no item is in two shards.
    items, item_of_sample, _ = gather(rows, job.by_id)
    columns = {**caption_columns(rows), "ratings": [None] * len(rows)}
    numbers: dict[str, np.ndarray] = {}
    content = [row.content() for row in rows]
    if "doc_to_category" in job.task.templates:
        columns["category"] = names
        numbers["category"] = np.array([categories[name] for name in names])
        content = [[*row, {"category": name}] for row, name in zip(content, names, strict=True)]
    return Shard(items, item_of_sample, columns, numbers, content)


def _finished(text: str, generation_kwargs: Mapping[str, Any]) -> str:
    """Return a caption for scoring: cut at the first ``until`` and stripped, for all models."""
    until = generation_kwargs.get("until") or ()
    for stop in [until] if isinstance(until, str) else until:
        text = text.partition(stop)[0]
    return text.strip()


@dataclass(frozen=True)
class _ResultPart:
    """The scope of a value: one category, all of them together, or their mean.

    Attributes:
        name: The category; empty for the overall value.
        members: ``[items]`` masks of items; the value is the mean over the masks.
    """

    name: str
    members: Sequence[np.ndarray]

    @property
    def items(self) -> np.ndarray:
        """``[items]`` whether an item counts in any of them."""
        return np.logical_or.reduce(self.members)

    def value(self, scored: ScoredMetric) -> Value:
        """Return the function from weights of items to the value."""
        values = [scored.value_of_weights(members) for members in self.members]
        return values[0] if len(values) == 1 else lambda weights: float(np.mean([of(weights) for of in values]))

    def share_of(self, scored: ScoredMetric) -> int | None:
        """Return the number of items that add to the denominator of a share; None where it has no sums."""
        if scored.terms is None:
            return None
        return int(np.count_nonzero(self.items & (np.concatenate([terms[:, 1] for terms in scored.terms()]) > 0)))

    def influence(self, scored: ScoredMetric) -> Influence | None:
        """Return the terms of items in the value; None where the metric has no sums."""
        influences = [scored.influence(members) for members in self.members]
        known = [influence for influence in influences if influence is not None]
        return Influence.mean(known) if len(known) == len(influences) else None


def _parts(collected: Collected, aggregate: CategoryAggregate) -> list[_ResultPart]:
    """Return the scopes: categories, where there are several, and the overall value."""
    names, everyone = collected.summary.categories, np.ones(len(collected.weights), bool)
    if len(names) < 2:
        return [_ResultPart("", [everyone])]
    category, items = collected.numbers["category"], np.arange(len(everyone))
    members = [np.isin(items, collected.item_of_sample[category == number]) for number in range(len(names))]
    of_all = members if aggregate == "categories" else [everyone]
    return [
        *(_ResultPart(name, [member]) for name, member in zip(names, members, strict=True)),
        _ResultPart("", of_all),
    ]


def _value(scored: ScoredMetric, part: _ResultPart, weights: np.ndarray) -> tuple[float | None, str]:
    """Return a value, or None and the reason."""
    if not part.name and len(part.members) == 1:
        value = scored.value_of_all(weights)
        return value, "" if value is not None else scored.error or scored.aggregate.undefined
    if scored.scores is None:
        return None, scored.error
    try:
        return finite_value(part.value(scored), np.ones(len(scored.scores.values))), ""
    except UndefinedStatistic as error:
        return None, str(error)


def _intervals(job: Job, documents: int, asked: Mapping[str, tuple[ScoredMetric, _ResultPart]]) -> dict[str, Interval]:
    """Return the interval of each value, all from the same resamples."""
    settings = job.settings
    if not settings.resamples:
        return {}
    intervals: dict[str, Interval] = {}
    if by_influence(settings.intervals, documents):
        # The influences of only one value are in memory at a time.
        for key, (metric, part) in asked.items():
            if spread := part.influence(metric):
                is_share = metric.metric.is_share
                of = part.share_of(metric) if is_share else None
                intervals[key] = spread.interval(settings.level, is_share=is_share, of=of)
    if waiting := {key: part.value(metric) for key, (metric, part) in asked.items() if key not in intervals}:
        resampled = resample_values(waiting, np.arange(documents), settings.draws(job.progress(INTERVALS)))
        for key, spread in resampled.items():
            metric, part = asked[key]
            is_share = metric.metric.is_share
            of = part.share_of(metric) if is_share else None
            intervals[key] = spread.interval(settings.level, is_share=is_share, of=of)
    return intervals
