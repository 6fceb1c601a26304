"""Carries out planned runs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from ...metrics import Cache
from ...progress import Progress, silent
from ...tasks.documents import load_documents
from ...tasks.locate import DataLocations
from ...tasks.sources import load_source
from ..inputs.failures import FailureLog, summarise
from ..inputs.models import Models, NamedModels
from ..inputs.settings import RunSettings
from ..protocols.job import Collected, Job
from ..protocols.results import ScoredMetric
from ..records.entries import Timings
from ..records.files import write_run
from ..records.making import Finished
from ..records.pictures import pictures
from ..records.publishing import SampleContent, without_folders
from ..records.record import Record
from ..records.samples import SAMPLES_FILE, sample_table, samples_file, scores_alone
from ..records.task_run import TaskRun
from ..store.store import Store
from .plan import PlannedRun
from .published_results import published_results
from .scoring import metric_fingerprints, remarks_of, score_items


class Stopwatch:
    """Measures steps that follow one another.

    Attributes:
        steps: Seconds by step.
    """

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}
        self._since = perf_counter()

    def lap(self, step: str) -> None:
        """End a step, and begin the next."""
        now = perf_counter()
        self.steps[step], self._since = round(now - self._since, 4), now


def carry_out(
    plan: PlannedRun,
    settings: RunSettings,
    models: Models | None = None,
    *,
    locations: DataLocations,
    store: Store,
    progress: Progress = silent,
    output: Path | None = None,
    samples_hold: SampleContent = "full",
) -> TaskRun:
    """Run one task with one model.

    Args:
        plan: The run.
        settings: What the user set.
        models: The models, loaded; None where the run needs none.
        locations: Where local copies of data may be.
        store: Keeps and gives what is already known.
        progress: Gives a reporter for a step.
        output: Folder below which the run is written; None writes nothing.
        samples_hold: What the samples beside the record hold; with ``scores`` the record quotes no data, either.

    Raises:
        BenchError: The data is missing or wrong, or the model failed. A metric that fails does not
            raise: it is recorded, and the others are kept.
    """
    models = models or Models()
    started, hits, computed = time.time(), store.hits, store.computed
    failures, watch = FailureLog(settings.strict), Stopwatch()
    job = prepare(plan, settings, models, locations=locations, cache=store, progress=progress)
    watch.lap("data")
    collected = plan.protocol.collect(job, failures)
    watch.lap("captions" if models.captioner else "items" if plan.protocol.takes_metrics else "matches")
    scored, seconds = score(plan, job, collected, failures)
    watch.lap("metrics")
    finished = finish(plan, job, collected, scored, failures, watch.lap)
    finished = replace(
        finished,
        started=started,
        timings=Timings(watch.steps, seconds),
        found=store.hits - hits,
        computed=store.computed - computed,
    )
    return keep(finished, output, samples_hold)


def prepare(
    plan: PlannedRun,
    settings: RunSettings,
    models: Models,
    *,
    locations: DataLocations,
    cache: Cache,
    progress: Progress = silent,
) -> Job:
    """Load the documents of a planned run.

    Args:
        plan: The run.
        settings: What the user set.
        models: The models, loaded.
        locations: Where local copies of data may be.
        cache: Keeps and gives what is already known.
        progress: Gives a reporter for a step.

    Raises:
        DataError: The data is missing or wrong.
    """
    documents = load_documents(plan.task, plan.path, locations)
    return Job(plan.task, documents, models, settings, cache, progress, plan.pixels)


def score(
    plan: PlannedRun, job: Job, collected: Collected, failures: FailureLog
) -> tuple[list[ScoredMetric], dict[str, float]]:
    """Score what was collected by each metric of the run; return the scores, and the seconds that each took."""
    return score_items(
        collected.items,
        plan.metrics,
        cache=job.cache,
        failures=failures,
        progress=job.progress,
        encoder=job.models.encoder,
        judge=job.models.judge,
    )


def finish(
    plan: PlannedRun,
    job: Job,
    collected: Collected,
    scored: Sequence[ScoredMetric],
    failures: FailureLog,
    lap: Callable[[str], None] = lambda step: None,
) -> Finished:
    """Make the results of scores: statistics, which metrics differ, and what papers print for them.

    Args:
        plan: The run.
        job: The same, with its documents.
        collected: What was scored.
        scored: The scores.
        failures: What could not be used.
        lap: Told of each step that is done.
    """
    results = plan.protocol.results(job, collected, scored, plan.statistics)
    lap("statistics")
    rankings = plan.protocol.ranking(job, collected, scored, plan.statistics, results)
    lap("significance")
    lost = any(one.stage == "model" for one in failures.entries)
    whole = job.settings.limit is None and collected.subset is None and not lost
    comparable = whole and all(check.passed for check in collected.data_checks)
    return Finished(
        job=job,
        named=NamedModels(plan.captioner, plan.encoder, plan.judge),
        collected=collected,
        scored=scored,
        results=results,
        protocol=plan.protocol.fingerprint(),
        rankings=rankings,
        published=published_results(plan, results) if comparable else {},
        columns=plan.protocol.sample_columns(collected, scored),
        made_by=metric_fingerprints(plan.metrics),
        left_out=plan.left_out,
        failures=failures.entries,
        empty=failures.empty,
        # A captioner and a metric may remark the same.
        remarks=list(dict.fromkeys([*collected.remarks, *remarks_of(collected.items, scored)])),
        card=load_source(plan.task, plan.path),
    )


def keep(finished: Finished, output: Path | None, samples_hold: SampleContent) -> TaskRun:
    """Make the record of a run, and write it with its samples.

    Args:
        finished: The run.
        output: Folder below which it is written; None writes nothing.
        samples_hold: As of :func:`carry_out`.

    Raises:
        DataError: The folder cannot be written.
    """
    shown: dict[str, tuple[str, bytes]] = {}
    may_be_shown = finished.card is None or finished.card.pictures
    if output and samples_hold == finished.redistribution == "full" and may_be_shown:
        shown = pictures(finished.collected.samples, finished.columns, finished.with_scores)
    # Metrics are called as in the record, where a setting may be a path.
    names = without_folders(dict.fromkeys(finished.columns))
    columns = dict(zip(names, finished.columns.values(), strict=True))
    samples = sample_table(columns, finished.failures)
    files = {f"pictures/{name}": content for name, content in shown.values()}
    if output and samples_hold != "none":
        files[SAMPLES_FILE] = samples_file(samples if samples_hold == "full" else scores_alone(samples))
    paths = {identity: f"pictures/{name}" for identity, (name, _) in shown.items()}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    record = Record.of(finished, samples_hold, paths, sums)
    folder = write_run(output, record, files) if output else None
    return TaskRun(record, list(finished.results), folder, summarise(finished.failures), samples)
