"""``generate_until``: a captioner writes, metrics score."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...adapters import Box, Caption, Captioned, Captioner, CaptionRequest, ImageHandle, VideoHandle
from ...errors import DataError, UsageError
from ..inputs.empty_captions import scored_caption
from ..inputs.failures import Failure, FailureLog
from ..inputs.items import (
    CaptionRow,
    gather,
    image_key,
    objects_fault,
    references_fault,
    references_of,
    text_fault,
)
from ..inputs.pixels import boxes_of, pixels_value, view_fault
from ..statistics.bootstrap import bootstrap_value
from ..statistics.contract import Statistic, UndefinedStatistic
from .checks import DataCheck, run_checks
from .comparisons import ComparedRows, Draws, PairedEstimates, compare_means
from .contract import EmptyCaptionSettings, Protocol
from .document_reader import DocumentReader
from .job import Collected, Job, Subset
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
        asked = _requests(job, self.document_keys, failures)
        return len(asked.requests), asked.data_checks

    def collect(self, job: Job, failures: FailureLog) -> Collected:
        """Ask the captioner for every document; what it says nothing of counts as the settings say.

        Raises:
            DataError: As of ``Protocol.collect``, or a recorded source lacks documents and was not said to.
        """
        asked = _requests(job, self.document_keys, failures)
        answers = _answers(job, asked.requests)
        captioner = job.models.captioner
        assert captioner is not None  # noqa: S101 - _answers has asked it
        unclaimed = captioner.unclaimed() if job.settings.limit is None else ()
        subset = _subset(job, asked, answers, captioner, unclaimed)
        for bad in captioner.bad_rows:
            failures.add(bad.place, "caption", bad.reason)
        for key in unclaimed:
            failures.add(key, "caption", "is recorded for no usable document of the task")
        samples: list[CaptionRow] = []
        for number, (request, known) in enumerate(zip(asked.requests, asked.known, strict=True)):
            if (answer := answers.captions.get(number)) is None:
                if number in answers.unseen:
                    failures.add(request.id, "image", answers.unseen[number])
                elif number not in answers.absent:
                    failures.add(request.id, "model", answers.failures[number])
                continue
            text = (
                answer.text if text_fault(answer.text) else _finished(answer.text, request.generation_kwargs)
            )
            rule = self.settings.empty_caption
            if (caption := scored_caption(text, request.id, "caption", rule, failures)) is not None:
                # A document is an image: several may share a file name, so its id tells images apart.
                samples.append(
                    CaptionRow(
                        request.id,
                        request.id,
                        caption,
                        known.references,
                        objects=known.objects,
                        pixels=known.pixels,
                        boxes=known.boxes,
                    )
                )
        if not any(sample.candidate for sample in samples):
            raise _nothing_to_score(job, failures)
        items, item_of_sample = gather(samples)
        written = [one for one in answers.captions.values() if text_fault(one.text) is None]
        return Collected(
            samples,
            items,
            item_of_sample,
            data_checks=asked.data_checks,
            generation=_generation(written),
            remarks=[
                Failure(request.id, "image", answers.captions[number].remark)
                for number, request in enumerate(asked.requests)
                if number in answers.captions and answers.captions[number].remark
            ],
            documents_hash=asked.digest(),
            subset=subset,
        )

    def results(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
    ) -> list[Result]:
        """Return the system-level value of each metric, with an interval over images."""
        return [self._result(job, collected, metric) for metric in scored]

    def _result(self, job: Job, collected: Collected, scored: ScoredMetric) -> Result:
        items = collected.items
        value = scored.system_value(items.weights)
        interval, n = None, 0
        if scored.scores is not None and value is not None:

            def resampled(weights: np.ndarray) -> float:
                found = scored.system_value(weights)
                if found is None:
                    raise UndefinedStatistic("no item was scored")
                return found

            n = int(items.weights[np.isfinite(scored.scores.values)].sum())
            interval = bootstrap_value(
                resampled,
                np.arange(len(items)),
                resamples=job.settings.resamples,
                seed=job.settings.seed,
                level=job.settings.level,
            )
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
            "" if value is not None else scored.error or "no item was scored",
        )

    def expected(
        self, metrics: Sequence[ScoredMetric], statistics: Mapping[str, Statistic], categories: Sequence[str]
    ) -> list[Result]:
        """Return the system-level value of each metric, without a value."""
        return [expected_result(one, one.aggregation, one.metric.higher_is_better) for one in metrics]

    def compare(self, rows: ComparedRows, statistic: Statistic | None, draws: Draws) -> PairedEstimates:
        """Return the mean of each captioner's values over the documents that all of them captioned."""
        return compare_means(rows, draws)


@dataclass(frozen=True)
class _Known:
    """What an answer is held against."""

    references: tuple[str, ...]
    objects: frozenset[str] | None
    pixels: ImageHandle | VideoHandle | None
    boxes: tuple[Box, ...] | None


@dataclass(frozen=True)
class _Requests:
    """What the captioner is asked, and what is known of each image."""

    requests: list[CaptionRequest]
    known: list[_Known]
    data_checks: list[DataCheck]

    def digest(self, without: frozenset[int] = frozenset()) -> str:
        """Return a hash of the documents: ids, references and objects, in order."""
        digest = hashlib.sha256()
        for number, (request, known) in enumerate(zip(self.requests, self.known, strict=True)):
            if number in without:
                continue
            objects = None if known.objects is None else sorted(known.objects)
            digest.update(json.dumps([request.id, known.references, objects]).encode())
        return digest.hexdigest()


def _requests(job: Job, keys: Sequence[str], failures: FailureLog) -> _Requests:
    requests: list[CaptionRequest] = []
    known: list[_Known] = []
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
        pixels = job.pixels(pixels_value(values))
        requests.append(
            CaptionRequest(
                identity,
                values["doc_to_image"],
                str(values["doc_to_text"]),
                settings,
                numbered="doc_to_id" not in job.task.templates,
                pixels=pixels,
            )
        )
        known.append(
            _Known(
                tuple(target),
                None if objects is None else frozenset(objects),
                pixels,
                boxes_of(values["doc_to_boxes"]),
            )
        )
    checks = run_checks(job, documents=len(job.documents.rows), images=len(requests))
    return _Requests(requests, known, checks)


def _answers(job: Job, requests: Sequence[CaptionRequest]) -> Captioned:
    """Return what the captioner answers each request; what the store knows is not asked for again."""
    captioner = job.models.captioner
    if captioner is None:
        raise UsageError(
            f"task '{job.task.task}' needs a model that writes captions", "Name it with --model."
        )
    report = job.progress("captions")
    producer = captioner.fingerprint()
    keys = [_request_key(request) if captioner.keep else "" for request in requests]
    known: dict[str, Any] = job.cache.get(producer, keys) if captioner.keep else {}
    captions = {n: Caption(**known[key]) for n, key in enumerate(keys) if key in known}
    missing = [n for n in range(len(keys)) if n not in captions]
    failures = dict.fromkeys(missing, "was not given by the model")
    unseen: dict[int, str] = {}
    absent: set[int] = set()
    report(len(captions), len(requests))
    for batch in captioner.stream([requests[n] for n in missing], job.settings.batch_size):
        written = {missing[at]: caption for at, caption in batch.captions.items()}
        if captioner.keep:
            job.cache.put(producer, {keys[n]: asdict(caption) for n, caption in written.items()})
        captions |= written
        failures |= {missing[at]: reason for at, reason in batch.failures.items()}
        unseen |= {missing[at]: reason for at, reason in batch.unseen.items()}
        absent |= {missing[at] for at in batch.absent}
        report(len(captions), len(requests))
    return Captioned(dict(sorted(captions.items())), failures, unseen, frozenset(absent))


def _subset(
    job: Job, asked: _Requests, answers: Captioned, captioner: Captioner, unclaimed: Sequence[str]
) -> Subset | None:
    """Return the part of the documents of which captions are recorded; None if that is all of them.

    Raises:
        DataError: It is none of them, or a part, and nobody said that it would be.
    """
    absent, every = sorted(answers.absent), len(asked.requests)
    if not absent:
        return None
    if len(absent) < every and (job.settings.subset or captioner.subset):
        return Subset(every - len(absent), every, asked.digest(without=answers.absent))
    ids = ", ".join(f"'{asked.requests[number].id}'" for number in absent[:_NAMED_IDS])
    remedies: list[str] = []
    if captioner.bad_rows:
        bad = captioner.bad_rows[0]
        remedies.append(
            f"{len(captioner.bad_rows):,} of its rows cannot be used ({bad.place}: {bad.reason})."
        )
    if unclaimed:
        others = ", ".join(f"'{key}'" for key in unclaimed[:_NAMED_IDS])
        remedies.append(f"Do the ids match? Recorded for no document of the task: {others}.")
    if len(absent) < every:
        remedies.append("--subset scores the others, as a run of a part of the task.")
    raise DataError(
        f"task '{job.task.task}': no caption is recorded for {len(absent):,} of {every:,} documents: {ids}"
        + (", ..." if len(absent) > _NAMED_IDS else ""),
        " ".join(remedies) or "Is this the file for this task?",
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


def _generation(captions: Sequence[Caption]) -> dict[str, Any]:
    """Return how long the captions are, and how many ended because their allowed tokens were used up."""
    told = [caption for caption in captions if caption.cut is not None]
    tokens = [caption.tokens for caption in captions if caption.tokens is not None]
    return {
        "captions": len(captions),
        "mean_words": float(np.mean([len(caption.text.split()) for caption in captions]))
        if captions
        else 0.0,
        "mean_tokens": float(np.mean(tokens)) if tokens else None,
        "cut": sum(bool(caption.cut) for caption in told) if told else None,
    }


def _request_key(request: CaptionRequest) -> str:
    image = image_key(request.image)
    if request.pixels is not None:
        # A file that is missing is the captioner's to report.
        with contextlib.suppress(OSError):
            image = request.pixels.digest()
    return json.dumps(
        [request.prompt, dict(request.generation_kwargs), image, request.id],
        sort_keys=True,
        ensure_ascii=False,
        default=str,
    )
