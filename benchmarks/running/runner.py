"""Runs planned tasks: load, collect, score, compute results, write."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ...adapters.contracts import PAIRWISE
from ...atomic_files import draft_beside, temporary_folder
from ...metrics import Cache, NoCache
from ...progress import Progress, numbered, silent
from ...tasks.documents import load_documents
from ...tasks.locate import DataLocations
from ...tasks.sources import DataSource, load_source
from ..inputs.failures import Failure, FailureLog, summarise
from ..inputs.models import ROLES, Models, facts_of_loaded
from ..inputs.settings import RunSettings
from ..protocols.document_reader import may_read_one_image
from ..protocols.job import SHARD, SHARD_OF_IMAGES, Job, Result
from ..published.values import Published
from ..records import environment
from ..records.entries import NO_ERROR, SCHEMA_VERSION
from ..records.files import write_run
from ..records.hashes import checksum, hash_of_json, plain
from ..records.histograms import histograms
from ..records.pictures import pictures
from ..records.progress_file import progress_written
from ..records.publishing import SampleContent, origin_name, unquoted, unquoted_failures, without_folders
from ..records.record import Record
from ..records.samples import SAMPLES_FILE, Samples, scores_alone, write_samples
from ..records.task_run import TaskRun
from ..statistics.rated_rows import Ratings
from ..statistics.significance import ALPHA, Ranking
from ..store.store import Store
from .execution import IN_PROCESS, Execution, score_over_shards
from .plan import PlannedRun, published_results
from .planned_metrics import finds_by_id, metric_fingerprints
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
        if output is not None:
            draft = draft_beside(output / plan.task.task)
            stack.callback(shutil.rmtree, draft, ignore_errors=True)
            about = {"task": plan.task.task, "model": plan.model.name if plan.model else ""}
            job = replace(job, progress=stack.enter_context(progress_written(draft, progress, **about)))
        scored = score(plan, job, failures, execution, stack)
        laps.append(perf_counter())

        protocol, collected, metrics = plan.protocol, scored.corpus.collected, scored.metrics
        results = protocol.results(job, collected, metrics, plan.statistics)
        laps.append(perf_counter())
        rankings = protocol.ranking(job, collected, metrics, plan.statistics, results)
        laps.append(perf_counter())

        rows, samples = samples_of(plan, scored, failures)
        scoring = "captions and metrics" if plan.captioner else "metrics" if plan.metrics else "matches"
        steps = ["data", scoring, "statistics", "significance"]
        seconds = {step: round(end - start, 4) for step, (start, end) in zip(steps, pairwise(laps), strict=True)}
        outcome = RunOutcome(
            plan=plan,
            job=job,
            scored=scored,
            results=results,
            rankings=rankings,
            rows=rows,
            failures=failures,
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


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run, from which its record is built.

    Attributes:
        plan: The run.
        job: Its documents, models and settings.
        scored: The corpus and its scores.
        results: The numbers.
        rankings: Which metrics differ, by statistic.
        rows: Values of each sample in samples.parquet: metric to ``[n]`` values.
        failures: Samples that could not be used, and captions that were scored as empty ones.
        started: Start, in seconds since 1970.
        seconds: Duration of each step.
        cached: Number of results from the store.
        computed: Number of results that were added to the store.
    """

    plan: PlannedRun
    job: Job
    scored: Scored
    results: Sequence[Result]
    rankings: Mapping[str, Ranking]
    rows: Mapping[str, np.ndarray]
    failures: FailureLog
    started: float
    seconds: Mapping[str, float]
    cached: int
    computed: int

    @cached_property
    def card(self) -> DataSource | None:
        """Source and terms of the data; None for a user's own data."""
        return load_source(self.plan.task, self.plan.path)

    @property
    def remarks(self) -> list[Failure]:
        """Remarks on documents, and of models and metrics on the images they read."""
        read = (Failure(remark.place, "data", remark.reason) for remark in self.job.documents.remarks)
        # A captioner and a metric may make the same remark.
        return list(dict.fromkeys([*read, *self.scored.corpus.collected.summary.remarks, *self.scored.remarks]))

    @property
    def published(self) -> dict[str, Published]:
        """Published values, by the key of the result; none of a run of other data, or of a part."""
        summary = self.scored.corpus.collected.summary
        lost = any(failure.stage == "model" for failure in self.failures.entries)
        whole = self.job.settings.limit is None and summary.subset is None and not lost
        comparable = whole and all(check.passed for check in summary.data_checks)
        return published_results(self.plan, self.results) if comparable else {}

    @property
    def scores(self) -> dict[str, np.ndarray]:
        """The values of each sample, of the metrics that did not fail as a whole."""
        return {metric.name: self.rows[metric.name] for metric in self.scored.metrics if metric.scores is not None}

    @property
    def redistribution(self) -> str:
        """What the data's terms allow to redistribute; data without a card are the user's own."""
        return self.card.redistribution if self.card else "full"


def values_of(
    outcome: RunOutcome, samples: SampleContent, pictures: Mapping[str, str], files: Mapping[str, str]
) -> dict[str, Any]:
    """Return the JSON values of a record."""
    plan, job, scored = outcome.plan, outcome.job, outcome.scored
    task, model, collected, metrics = plan.task, plan.model, scored.corpus.collected, scored.metrics
    summary, numbers = collected.summary, collected.numbers
    captioner, encoder, judge = map(scored.facts.get, ROLES)
    parts = without_folders(plain(_fingerprint_parts(outcome)), distinct=True)
    values, intervals, of_results = result_entries(outcome.results)
    # Of metrics themselves, too: comparisons may be of their scores.
    of_metrics = {without_folders(metric.name): metric.metric.higher_is_better for metric in metrics}
    errors = [{"metric": metric.name, "reason": metric.error} for metric in metrics if metric.scores is None]
    failures, remarks = outcome.failures.entries, outcome.remarks
    if samples == "scores":
        failures, remarks = unquoted_failures(failures), unquoted_failures(remarks)
        for entry in (*errors, *intervals.values()):
            entry["reason"] = unquoted(entry["reason"])
    each_metric = {name: round(seconds, 4) for name, seconds in scored.seconds.items()}
    ratings = Ratings(numbers["rating"], numbers["ratings"]) if "rating" in numbers else None
    record: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "task": task.task,
        "task_alias": task.alias,
        "model_name": model.name if model else None,
        "results": {task.task: {"name": task.task, "alias": task.task, **values}},
        "group_subtasks": {task.task: []},
        "configs": {task.task: task.to_json()},
        "versions": {task.task: task.version},
        "n-shot": {task.task: 0},
        "higher_is_better": {task.task: of_metrics | of_results},
        "n-samples": {task.task: {"original": len(job.documents.rows), "effective": summary.effective}},
        "config": {
            "model": model.adapter if model else None,
            "model_args": model.arguments if model else {},
            "encoder": plan.encoder.name if plan.encoder else None,
            "encoder_args": plan.encoder.arguments if plan.encoder else {},
            "judge": plan.judge.name if plan.judge else None,
            "judge_args": plan.judge.arguments if plan.judge else {},
            **job.settings.to_json(),
        },
        "git_hash": environment.git_hash(),
        "date": outcome.started,
        "total_evaluation_time_seconds": str(round(time.time() - outcome.started, 3)),
        "intervals": intervals,
        "published": {key: published_entry(published) for key, published in outcome.published.items()},
        "metrics_left_out": plan.left_out,
        "metric_errors": errors,
        "failures": summarise(failures),
        "empty_captions": summarise(outcome.failures.empty),
        "subset": summary.subset and summary.subset.model_dump(),
        "remarks": summarise(remarks),
        "ruled_out": summary.ruled_out,
        "generation": {**summary.generation, **({"usage": captioner.usage} if captioner else {})},
        **({"judging": {"usage": judge.usage}} if judge else {}),
        "data_checks": [check.model_dump() for check in summary.data_checks],
        "data_origin": origin_name(job.documents.origin),
        "documents_hash": summary.documents_hash or None,
        "redistribution": outcome.redistribution,
        "samples": samples,
        "truncation": _truncation(scored, encoder.context_length if encoder else None),
        "significance": {
            name: {
                "alpha": ALPHA,
                "resamples": job.settings.resamples,
                "seed": job.settings.seed,
                "groups": ranking.groups,
            }
            for name, ranking in outcome.rankings.items()
            if any(ranking.groups.values())
        },
        "histograms": histograms(outcome.scores, scored.corpus.words, ratings),
        "pictures": pictures,
        "files": files,
        "fingerprint": hash_of_json(parts),
        "fingerprint_parts": parts,
        "environment": environment.environment(),
        "timings": {**outcome.seconds, "each_metric": each_metric},
        "store": {"found": outcome.cached, "computed": outcome.computed},
    }
    record = without_folders(plain(record))
    return {**record, "checksum": checksum(record)}


def _fingerprint_parts(outcome: RunOutcome) -> dict[str, Any]:
    """Return what decides the numbers: not the machine's folders, but hashes of the files that are read."""
    plan, task, settings, corpus = outcome.plan, outcome.plan.task, outcome.job.settings, outcome.scored.corpus
    captioner, encoder, judge = map(outcome.scored.facts.get, ROLES)
    images_hash = corpus.images_hash if plan.encoder or plan.reads_images else None
    return {
        "task": {"name": task.task, **task.fingerprint(), "protocol": plan.protocol.fingerprint()},
        "data": corpus.data_hash,
        **({"images": images_hash} if images_hash else {}),
        "model": captioner.fingerprint if captioner else None,
        "encoder": encoder.fingerprint if encoder else None,
        **({"judge": judge.fingerprint} if judge else {}),
        "metrics": metric_fingerprints(plan.metrics),
        "settings": {
            **{key: getattr(settings, key) for key in ("limit", "seed", "resamples", "level", "generation_kwargs")},
            # Only where it was chosen: otherwise the data decide.
            **({"intervals": settings.intervals} if settings.intervals != "auto" else {}),
        },
    }


def result_entries(results: Sequence[Result]) -> tuple[dict[str, Any], dict[str, Any], dict[str, bool]]:
    """Return results in lm-eval's layout, our intervals, and whether higher is better, where there is a direction.

    lm-eval keys a value ``"metric,filter"`` and its error ``"metric_stderr,filter"``; an agreement of
    ``cider`` by ``kendall_c`` is the metric ``cider.kendall_c`` there.
    """
    values: dict[str, Any] = {}
    intervals: dict[str, Any] = {}
    higher: dict[str, bool] = {}
    for result in results:
        key, interval = result.key, result.interval
        values[f"{key},none"] = result.value
        has_error = interval is not None and interval.stderr is not None
        values[f"{key}_stderr,none"] = interval.stderr if interval and has_error else NO_ERROR
        if result.higher_is_better is not None:
            higher[key] = result.higher_is_better
        intervals[key] = {
            "metric": result.metric,
            "statistic": result.statistic,
            "label": list(result.label),
            "n": result.n,
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
            "resamples": interval.resamples if interval else 0,
            "reason": result.reason or (interval.reason if interval else ""),
            **({"method": interval.method} if interval and interval.method != "bootstrap" else {}),
            **({"text_alone": dict(result.alone)} if result.alone else {}),
            **({"p": result.p} if result.p is not None else {}),
            **({"remark": result.remark} if result.remark else {}),
        }
    return values, intervals, higher


def published_entry(published: Published) -> dict[str, Any]:
    """Return the entry of a published value."""
    return {
        "value": published.value / published.scale,
        "printed": published.printed,
        "scale": published.scale,
        "paper": published.paper,
        "table": published.table,
    }


def _truncation(scored: Scored, limit: int | None) -> dict[str, Any]:
    """Return, for each metric whose encoder has a token limit, how many captions were cut.

    A metric reports ``Scores.parts["truncated"]``: ``[n]`` 1 for an item whose caption was cut, else 0, NaN where it is
    unknown; a protocol that encodes reports ``Summary.cut``.
    """
    if limit is None:
        return {}
    summary, item_of_sample = scored.corpus.collected.summary, scored.corpus.collected.item_of_sample
    counts = dict(summary.cut)
    for metric in scored.metrics:
        cut = metric.scores.parts.get("truncated") if metric.scores is not None else None
        if cut is not None:
            counts[metric.name] = len(item_of_sample), int(np.count_nonzero(cut[item_of_sample] > 0)), 0
    return {
        name: {
            "captions": captions,
            "cut": cut,
            "share": cut / captions,
            "context_length": limit,
            **({"identical": same} if same else {}),
        }
        for name, (captions, cut, same) in counts.items()
    }
