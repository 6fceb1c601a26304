"""Runs planned tasks: load, collect, score, compute results, write."""

from __future__ import annotations

import hashlib
import time
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np

from ...adapters.contracts import PAIRWISE
from ...atomic_files import temporary_folder
from ...metrics import Cache, NoCache
from ...progress import Progress, numbered, silent
from ...tasks.documents import load_documents
from ...tasks.locate import DataLocations
from ...tasks.sources import load_source
from ..inputs.failures import Failure, FailureLog, summarise
from ..inputs.models import Models, facts_of_loaded
from ..inputs.settings import RunSettings
from ..protocols.document_reader import may_read_one_image
from ..protocols.job import SHARD, SHARD_OF_IMAGES, Job
from ..records.files import write_run
from ..records.pictures import pictures
from ..records.publishing import SampleContent, without_folders
from ..records.record import Record
from ..records.samples import SAMPLES_FILE, Samples, scores_alone, write_samples
from ..records.task_run import TaskRun
from ..store.store import Store
from .execution import IN_PROCESS, Execution, score_over_shards
from .plan import PlannedRun, published_results
from .planned_metrics import finds_by_id
from .recording import RunOutcome, values_of
from .scoring import Scored, Scorer, score_shards


def run(
    plan: PlannedRun,
    settings: RunSettings,
    models: Models | None = None,
    *,
    locations: DataLocations,
    store: Store,
    progress: Progress = silent,
    output: Path | None = None,
    samples_hold: SampleContent = "full",
    execution: Execution = IN_PROCESS,
) -> TaskRun:
    """Run one task with one model.

    Args:
        plan: The run.
        settings: The settings of the user.
        models: The loaded models; None where the run needs none.
        locations: Locations of local data.
        store: The store of cached results.
        progress: Returns a reporter for a step.
        output: Folder in which the run is written; None writes nothing.
        samples_hold: The content of the samples; with ``scores`` the record quotes no data, either.
        execution: How the run is executed.

    Raises:
        BenchError: The data is missing or wrong, or the model failed. A failure of a metric is recorded instead.
    """
    started, hits, computed = time.time(), store.hits, store.computed
    failures, laps = FailureLog(settings.strict), [perf_counter()]
    progress = numbered(progress, plan.steps(settings.resamples))

    job = prepare(plan, settings, models, locations=locations, cache=store, progress=progress)
    job = replace(job, shard=execution.shard_rows or job.shard)
    if plan.reads_images and not may_read_one_image(job) and job.pixels.outside:
        raise job.pixels.outside
    laps.append(perf_counter())

    with ExitStack() as stack:
        scored = score(plan, job, failures, execution, stack)
        laps.append(perf_counter())

        protocol, collected, metrics = plan.protocol, scored.corpus.collected, scored.metrics
        results = protocol.results(job, collected, metrics, plan.statistics)
        laps.append(perf_counter())
        rankings = protocol.ranking(job, collected, metrics, plan.statistics, results)
        laps.append(perf_counter())

        rows, samples = samples_of(plan, scored, failures)
        summary = collected.summary
        lost = any(failure.stage == "model" for failure in failures.entries)
        whole = settings.limit is None and summary.subset is None and not lost
        comparable = whole and all(check.passed for check in summary.data_checks)
        read = (Failure(remark.place, "data", remark.reason) for remark in job.documents.remarks)
        scoring = "captions and metrics" if plan.captioner else "metrics" if plan.metrics else "matches"
        steps = ["data", scoring, "statistics", "significance"]
        seconds = {step: round(end - start, 4) for step, (start, end) in zip(steps, pairwise(laps), strict=True)}
        outcome = RunOutcome(
            plan=plan,
            job=job,
            scored=scored,
            results=results,
            rankings=rankings,
            published=published_results(plan, results) if comparable else {},
            rows=rows,
            failures=failures,
            # A captioner and a metric may make the same remark.
            remarks=list(dict.fromkeys([*read, *summary.remarks, *scored.remarks])),
            card=load_source(plan.task, plan.path),
            started=started,
            seconds=seconds,
            cached=store.hits - hits,
            computed=store.computed - computed,
        )
        written = _write(outcome, samples, output, samples_hold)
        outside = job.pixels.outside if plan.reads_images else None
        return replace(written, outside=outside.in_one_line) if outside else written


def prepare(
    plan: PlannedRun,
    settings: RunSettings,
    models: Models | None = None,
    *,
    locations: DataLocations,
    cache: Cache | None = None,
    progress: Progress = silent,
) -> Job:
    """Load the documents of a planned run.

    Args:
        plan: The run.
        settings: The settings of the user.
        models: The loaded models; None for none.
        locations: Locations of local data.
        cache: The cache of results; None for none.
        progress: Returns a reporter for a step.

    Raises:
        DataError: The data is missing or wrong.
    """
    documents = load_documents(plan.task, plan.path, locations)
    shard = SHARD_OF_IMAGES if plan.reads_images else SHARD
    scores_pairs = plan.encoder is not None and plan.encoder.family == PAIRWISE
    return Job(
        plan.task,
        documents,
        models or Models(),
        settings,
        cache or NoCache(),
        progress,
        plan.pixels,
        shard,
        scores_pairs=scores_pairs,
        locations=locations,
        by_id=finds_by_id(plan.metrics),
    )


def score(
    plan: PlannedRun, job: Job, failures: FailureLog, execution: Execution = IN_PROCESS, stack: ExitStack | None = None
) -> Scored:
    """Collect the items of the protocol, and score them with each metric of the run.

    Args:
        plan: The run.
        job: The same, with its documents.
        failures: Receives unusable samples.
        execution: How the run is executed.
        stack: Closes the intermediate results of a large run; None keeps them.

    Raises:
        BenchError: The data is not what the task expects, the model failed, or nothing can be scored.
    """
    over_shards = partial(score_over_shards, plan, job, failures, execution, stack or ExitStack())
    if execution.maps(len(job.documents.rows) > job.shard):
        return over_shards()
    scorer = Scorer(plan.metrics, job.models, job.cache, job.progress)
    scored = score_shards(scorer, plan.protocol.collect(job, failures), failures, over_shards)
    return replace(scored, facts=facts_of_loaded(job.models))


def samples_of(plan: PlannedRun, scored: Scored, failures: FailureLog) -> tuple[dict[str, np.ndarray], Samples]:
    """Return metric to ``[n]`` values of samples, and the columns to write."""
    collected = scored.corpus.collected
    rows, reasons = plan.protocol.row_scores(collected, scored.metrics)
    # Names of metrics are those of the record, where a setting may be a path.
    scores = dict(zip(without_folders(dict.fromkeys(rows)), rows.values(), strict=True))
    details = plan.protocol.row_details(collected, scored.metrics)
    scores |= {f"scores.{without_folders(name)}": of_rows for name, of_rows in details.items()}
    influences = plan.protocol.row_influence(collected, scored.metrics)
    scores |= {f"influence.{without_folders(name)}": of_rows for name, of_rows in influences.items()}
    lost = [failure for failure in failures.entries if failure.stage != "metric"]
    return rows, Samples(scored.corpus.columns, scores, reasons, lost)


def _write(outcome: RunOutcome, samples: Samples, output: Path | None, samples_hold: SampleContent) -> TaskRun:
    """Make the record of a run, and write it with its samples.

    Args:
        outcome: The run.
        samples: One row per sample.
        output: Folder in which it is written; None writes nothing.
        samples_hold: The content of the samples; with ``scores`` the record quotes no data, either.

    Raises:
        DataError: The folder cannot be written.
    """
    files: dict[str, bytes | Path] = {}
    sums: dict[str, str] = {}
    paths: dict[str, str] = {}
    corpus = outcome.scored.corpus
    may_be_shown = corpus.has_images and (outcome.card is None or outcome.card.pictures)
    if output and samples_hold == outcome.redistribution == "full" and may_be_shown:
        # Where rows are not single captions, values by row are not values by item.
        values = list(outcome.scores.values()) if corpus.words is not None else []
        for identity, (name, content) in pictures(values, corpus.sample).items():
            paths[identity] = path = f"pictures/{name}"
            files[path], sums[path] = content, hashlib.sha256(content).hexdigest()
    writes_samples = output is not None and samples_hold != "none"
    with temporary_folder() if writes_samples else nullcontext() as folder:
        if folder is not None:
            files[SAMPLES_FILE] = path = folder / SAMPLES_FILE
            write_samples(samples.tables() if samples_hold == "full" else scores_alone(samples.tables), path)
            with path.open("rb") as file:
                sums[SAMPLES_FILE] = hashlib.file_digest(file, "sha256").hexdigest()
        record = Record(values_of(outcome, samples_hold, paths, sums))
        written = write_run(output, record, files) if output else None
    table = samples.table
    if corpus.is_in_files:
        # Samples on disk need not stay in memory; files of shards are deleted.
        whole = None if written and samples_hold == "full" else samples.table()
        table = None if whole is None else (lambda: whole)
    return TaskRun(record, list(outcome.results), written, summarise(outcome.failures.entries), table=table)
