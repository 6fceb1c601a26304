"""``generate_until``: a captioner writes, metrics score."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...adapters import Box, Captioned, CaptionRequest
from ...errors import DataError
from ..inputs.empty_captions import EmptyCaption, scored_caption
from ..inputs.failures import Failure, FailureLog
from ..inputs.items import (
    CaptionRow,
    gather,
    objects_fault,
    references_fault,
    references_of,
    text_fault,
)
from ..inputs.pixels import boxes_of, pixels_value, view_fault
from ..statistics.bootstrap import resample_values
from ..statistics.contract import Interval, Statistic
from ..statistics.influence import by_influence
from .asking.answered import answered, require_captioner
from .asking.asked import Asked
from .checks import DataCheck, run_checks
from .comparisons import ComparedRows, Draws, PairedEstimates, compare_means
from .contract import EmptyCaptionSettings, Protocol
from .document_reader import DocumentReader
from .job import Collected, Job, Shard, Summary, caption_columns, caption_content
from .results import Result, ScoredMetric, expected_result

_NAMED_IDS = 3


class GenerateUntil(Protocol[EmptyCaptionSettings]):
    """Captions of a model, each against the references of its image; system-level values.

    ``doc_to_text`` gives the instruction to the captioner; plain text is taken as it is.
    """

    Settings = EmptyCaptionSettings
    reads = (
        "doc_to_id", "doc_to_text", "doc_to_image", "doc_to_pixels", "doc_to_target", "image_folder", "video_folder",
        "doc_to_boxes", "doc_to_objects", "generation_kwargs", "metric_list",
    )  # fmt: skip
    needs = frozenset({"doc_to_text", "metric_list"})
    subject = "model"
    needs_captioner = True
    statistic = "mean"
    resampled = "documents"
    comparable = True
    lm_eval = True

    def read(self, job: Job, failures: FailureLog) -> tuple[int, list[DataCheck]]:
        """Return how many documents a caption can be asked for, and the data checks."""
        asked = sum(1 for _ in _documents(job, self.document_keys, failures))
        return asked, _checks(job, asked)

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Ask the captioner for every document; what it says nothing of counts as the settings say.

        Raises:
            DataError: As of ``Protocol.collect``, or a recorded source lacks documents and was not said to.
        """
        require_captioner(job)
        found = _Found(job)
        documents = _documents(job, self.document_keys, failures)
        for some, given in answered(job, documents, lambda document: document.request):
            samples = list(_samples(some, given, self.settings.empty_caption, found, failures))
            # What a source holds for a part of the documents is not scored unless that is what is wanted.
            if samples and found.may_be_part:
                # A document is an image here, so no item is in two shards.
                items, item_of_sample = gather(samples)
                yield Shard(
                    items,
                    item_of_sample,
                    caption_columns(samples, [None] * len(samples)),
                    content=[caption_content(sample, []) for sample in samples],
                )
        return found.summary(failures)

    def results(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
    ) -> list[Result]:
        """Return the system-level value of each metric, with an interval over images."""
        weights = collected.weights
        values = {one.name: one.value_of_all(weights) for one in scored}
        intervals = _intervals(job, weights, [one for one in scored if values[one.name] is not None])
        return [_result(job, weights, one, values[one.name], intervals.get(one.name)) for one in scored]

    def expected(
        self, metrics: Sequence[ScoredMetric], statistics: Mapping[str, Statistic], categories: Sequence[str]
    ) -> list[Result]:
        """Return the system-level value of each metric, without a value."""
        return [expected_result(one, one.aggregation, one.metric.higher_is_better) for one in metrics]

    def compare(self, rows: ComparedRows, statistic: Statistic | None, draws: Draws) -> PairedEstimates:
        """Return the mean of each captioner's values over the documents that all of them captioned."""
        return compare_means(rows, draws)


def _intervals(job: Job, weights: np.ndarray, scored: Sequence[ScoredMetric]) -> dict[str, Interval]:
    """Return the interval of each metric that has a value; all of them see the same resamples, drawn once."""
    settings = job.settings
    if not settings.resamples:
        return {}
    found: dict[str, Interval] = {}
    if by_influence(settings.intervals, len(weights)):
        # One after the other: the influences of one metric are in memory at a time.
        found = {one.name: spread.interval(settings.level) for one in scored if (spread := one.influence())}
    others = {one.name: one.value_of_weights() for one in scored if one.name not in found}
    if others:
        resampled = resample_values(
            others,
            np.arange(len(weights)),
            resamples=settings.resamples,
            seed=settings.seed,
            progress=job.progress("intervals"),
        )
        found |= {name: one.interval(settings.level) for name, one in resampled.items()}
    return found


def _result(
    job: Job, weights: np.ndarray, scored: ScoredMetric, value: float | None, interval: Interval | None
) -> Result:
    n = 0
    if scored.scores is not None and value is not None:
        n = int(weights[np.isfinite(scored.scores.values)].sum())
    return Result(
        scored.name,
        scored.aggregation,
        (scored.metric.label, scored.aggregation),
        value,
        n,
        scored.metric.higher_is_better,
        # A count has no upper end, and is never printed as a percentage.
        job.task.scale if math.isfinite(scored.metric.range[1]) else 1.0,
        interval,
        "" if value is not None else scored.error or scored.aggregate.undefined,
    )


@dataclass(frozen=True)
class _Document:
    """What the captioner is asked, and what its answer is held against."""

    request: CaptionRequest
    references: tuple[str, ...]
    objects: frozenset[str] | None
    boxes: tuple[Box, ...] | None

    def content(self) -> bytes:
        """Return id, references and objects, as JSON."""
        objects = None if self.objects is None else sorted(self.objects)
        return json.dumps([self.request.id, self.references, objects]).encode()


class _Found(Asked):
    """Counts what shards hold."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._scored = 0
        self._said = False

    def add_sample(self, caption: str) -> None:
        """Count a caption that is scored."""
        self._scored += 1
        self._said = self._said or bool(caption)

    def summary(self, failures: FailureLog) -> Summary:
        """Return what is to be said of all documents.

        Raises:
            DataError: Captions are of a part of them, and nobody said so; or none says anything.
        """
        checks = _checks(self._job, self.asked)
        self.require_all(failures)
        if not self._said:
            raise _nothing_to_score(self._job, failures)
        return self.told(self._scored, checks)


def _documents(job: Job, keys: Sequence[str], failures: FailureLog) -> Iterator[_Document]:
    """Yield the documents for which a caption can be asked."""
    settings = {**job.task.generation_kwargs, **job.settings.generation_kwargs}
    for identity, values in DocumentReader(job, keys).read(failures):
        target = references_of(values["doc_to_target"])
        if "doc_to_target" in job.task.templates and (fault := references_fault(target)):
            failures.add(identity, "reference", fault)
            continue
        objects = values["doc_to_objects"]
        if "doc_to_objects" in job.task.templates and (fault := objects_fault(objects)):
            failures.add(identity, "objects", fault)
            continue
        if fault := view_fault(job.task, values):
            failures.add(identity, "image", fault)
            continue
        request = CaptionRequest(
            identity,
            values["doc_to_image"],
            str(values["doc_to_text"]),
            settings,
            numbered="doc_to_id" not in job.task.templates,
            pixels=job.pixels(pixels_value(values)),
        )
        yield _Document(
            request,
            tuple(target),
            None if objects is None else frozenset(objects),
            boxes_of(values["doc_to_boxes"]),
        )


def _checks(job: Job, asked: int) -> list[DataCheck]:
    return run_checks(job, documents=len(job.documents.rows), images=asked)


def _samples(
    documents: Sequence[_Document],
    given: Captioned,
    rule: EmptyCaption,
    found: _Found,
    failures: FailureLog,
) -> Iterator[CaptionRow]:
    """Yield the captions to score."""
    for number, document in enumerate(documents):
        request, answer = document.request, given.captions.get(number)
        found.add(request.id, document.content(), answer, number in given.absent)
        if answer is None:
            if number in given.unseen:
                failures.add(request.id, "image", given.unseen[number])
            elif number not in given.absent:
                failures.add(request.id, "model", given.failures[number])
            continue
        text = answer.text if text_fault(answer.text) else _finished(answer.text, request.generation_kwargs)
        if (caption := scored_caption(text, request.id, "caption", rule, failures)) is not None:
            found.add_sample(caption)
            # A document is an image: several may share a file name, so its id tells images apart.
            yield CaptionRow(
                request.id,
                request.id,
                caption,
                document.references,
                objects=document.objects,
                pixels=request.pixels,
                boxes=document.boxes,
            )


def _nothing_to_score(job: Job, failures: FailureLog) -> DataError:
    """Return the error of a run without a caption that says anything, with the remedy of what failed most."""
    every = [*failures.entries, *failures.empty]
    steps = Counter(one.stage for one in every)
    first = next((one for one in every if one.stage == steps.most_common(1)[0][0]), None)
    return DataError(
        f"task '{job.task.task}': no caption can be scored"
        + (f"; first failure: {first.sample}: {first.subject} {first.reason}" if first else ""),
        _remedy(job, first),
    )


def _remedy(job: Job, failure: Failure | None) -> str:
    match failure.stage if failure else "data":
        case "model":
            return "So the model, or its server, says: a run of one document (--limit 1) shows whether it works at all."
        case "image":
            return "Are the images here? A task names their folder, in the data's own, by image_folder (docs/tasks.md)"
        case "caption":
            return (
                "Does the model write at all? Of recorded captions: is the text in the column that is read?"
            )
        case _:
            return f"'bench data {job.task.task}' says what the task expects of its data."


def _finished(text: str, generation_kwargs: Mapping[str, Any]) -> str:
    """Return a caption as it is scored, by one rule for all models: cut at the first ``until``, stripped."""
    until = generation_kwargs.get("until") or ()
    for stop in [until] if isinstance(until, str) else until:
        text = text.partition(stop)[0]
    return text.strip()
