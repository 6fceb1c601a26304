"""Carries out planned runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from ..tasks.documents import load_documents
from ..tasks.locate import DataLocations
from ..tasks.schema import PublishedTable
from ..tasks.sources import load_source
from . import environment, records
from .failures import remarks_of, summarise
from .histograms import histograms
from .models import Models
from .pictures import pictures
from .pixels import PixelFinder
from .plan import PlannedRun
from .protocols.contract import FailureLog, Job, Result
from .published_values import Published, find_in
from .publishing import (
    SampleContent,
    origin_name,
    scores_alone,
    unquoted,
    unquoted_failures,
    without_folders,
)
from .scoring import metric_fingerprints, score_items
from .settings import RunSettings
from .statistics.significance import ALPHA
from .store import Store
from .task_run import TaskRun, result_key

Progress = Callable[[str], Callable[[int, int], None]]


def silent(step: str) -> Callable[[int, int], None]:
    """Report progress to nobody."""
    return lambda done, total: None


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
    task = plan.task
    started, hits, computed = time.time(), store.hits, store.computed
    clock, timings = perf_counter(), {}

    def lap(step: str) -> None:
        nonlocal clock
        timings[step], clock = round(perf_counter() - clock, 4), perf_counter()

    models = models or Models()
    captioner, encoder, judge = models.captioner, models.encoder, models.judge
    documents = load_documents(task, plan.path, locations)
    lap("data")
    failures = FailureLog(settings.strict)
    job = Job(task, documents, models, settings, store, progress, PixelFinder(task, plan.root))
    collected = plan.protocol.collect(job, failures)
    lap("captions" if captioner else "items" if plan.protocol.takes_metrics else "matches")
    scored, seconds = score_items(
        collected.items,
        plan.metrics,
        cache=store,
        failures=failures,
        progress=progress,
        encoder=encoder,
        judge=judge,
    )
    lap("metrics")
    results = plan.protocol.results(job, collected, scored, plan.statistics)
    lap("statistics")
    rankings = plan.protocol.ranking(job, collected, scored, plan.statistics, results)
    lap("significance")

    parts = {
        "task": {"name": task.task, **task.fingerprint()},
        "data": records.data_hash(collected),
        **({"images": records.images_hash(collected.items)} if collected.items.images and encoder else {}),
        "model": captioner.fingerprint() if captioner else None,
        "encoder": encoder.fingerprint() if encoder else None,
        **({"judge": judge.fingerprint()} if judge else {}),
        "metrics": metric_fingerprints(plan.metrics),
        "settings": {
            "limit": settings.limit,
            "seed": settings.seed,
            "resamples": settings.resamples,
            "level": settings.level,
            "generation_kwargs": dict(settings.generation_kwargs),
        },
    }
    # A machine's folders decide no number; the files in them are hashed by those who read them.
    parts = without_folders(records.plain(parts), distinct=True)
    comparable = settings.limit is None and all(check["passed"] for check in collected.data_checks)
    published = _published(plan, results) if comparable else {}
    values, intervals, higher_is_better = records.result_entries(results)
    model_name = plan.model.name if plan.model else None
    columns = plan.protocol.sample_columns(collected, scored)
    with_scores = [one.name for one in scored if one.scores is not None]
    card = load_source(task, plan.path)
    # Data without a card are the user's own.
    redistribution = card.redistribution if card else "full"
    shown = {}
    if output and samples_hold == redistribution == "full" and (card is None or card.pictures):
        shown = pictures(collected.samples, columns, with_scores)
    lost, remarks = failures.entries, remarks_of(collected.items, scored)
    metric_errors = [{"metric": s.name, "reason": s.error} for s in scored if s.scores is None]
    if samples_hold == "scores":
        lost, remarks = unquoted_failures(lost), unquoted_failures(remarks)
        for entry in (*metric_errors, *intervals.values()):
            entry["reason"] = unquoted(entry["reason"])
    record: dict[str, Any] = {
        "schema_version": records.SCHEMA_VERSION,
        "task": task.task,
        "task_alias": task.alias,
        "model_name": model_name,
        "results": {task.task: {"name": task.task, "alias": task.task, **values}},
        "group_subtasks": {task.task: []},
        "configs": {task.task: task.to_json()},
        "versions": {task.task: task.version},
        "n-shot": {task.task: 0},
        "higher_is_better": {task.task: higher_is_better},
        "n-samples": {
            task.task: {"original": len(documents.rows), "effective": collected.effective},
        },
        "config": {
            "model": plan.model.adapter if plan.model else None,
            "model_args": plan.model.arguments if plan.model else {},
            "encoder": plan.encoder.name if plan.encoder else None,
            "encoder_args": plan.encoder.arguments if plan.encoder else {},
            "judge": plan.judge.name if plan.judge else None,
            "judge_args": plan.judge.arguments if plan.judge else {},
            **settings.to_json(),
        },
        "git_hash": environment.git_hash(),
        "date": started,
        "total_evaluation_time_seconds": str(round(time.time() - started, 3)),
        "intervals": intervals,
        "published": records.published_entries(published),
        "metrics_left_out": dict(plan.left_out),
        "metric_errors": metric_errors,
        "failures": summarise(lost),
        "remarks": summarise(remarks),
        "ruled_out": collected.ruled_out,
        "generation": {**collected.generation, **({"usage": dict(captioner.usage())} if captioner else {})},
        **({"judging": {"usage": dict(judge.usage())}} if judge else {}),
        "data_checks": collected.data_checks,
        "data_origin": origin_name(documents.origin),
        "documents_hash": collected.documents_hash or None,
        "redistribution": redistribution,
        "samples": samples_hold,
        "truncation": records.truncation(collected, scored, encoder),
        "significance": {
            name: {
                "alpha": ALPHA,
                "resamples": settings.resamples,
                "seed": settings.seed,
                "groups": ranking.groups,
            }
            for name, ranking in rankings.items()
        },
        "histograms": histograms(columns, with_scores),
        "pictures": {identity: f"pictures/{name}" for identity, (name, _) in shown.items()},
        "fingerprint": records.fingerprint(parts),
        "fingerprint_parts": parts,
        "environment": environment.environment(),
        "timings": {**timings, "each_metric": {name: round(s, 4) for name, s in seconds.items()}},
        "store": {"found": store.hits - hits, "computed": store.computed - computed},
    }
    record = without_folders(records.plain(record))
    record["checksum"] = records.checksum(record)
    # Metrics are called as in the record, where a setting may be a path.
    names = without_folders(dict.fromkeys(columns))
    samples = records.sample_table(dict(zip(names, columns.values(), strict=True)), failures)
    folder = None
    if output:
        written = {"full": samples, "scores": scores_alone(samples), "none": None}[samples_hold]
        files = {f"pictures/{name}": content for name, content in shown.values()}
        folder = records.write_run(output, record, written, files)
    return TaskRun(record, results, published, samples, folder, summarise(failures.entries))


def _published(plan: PlannedRun, results: list[Result]) -> Mapping[str, Published]:
    """Return the published value of each result that the task's table has."""
    table = plan.task.published
    if table is None:
        return {}
    found = {}
    categories = {result.category for result in results if result.category}
    for result in results:
        if table.categories is not None and not result.category and categories != set(table.categories):
            continue
        look_up = _published_of_metric if plan.protocol.takes_metrics else _published_of_model
        one = look_up(plan, table, result)
        if one is not None:
            found[result_key(result)] = one
    return found


def _published_of_metric(plan: PlannedRun, table: PublishedTable, result: Result) -> Published | None:
    planned = next(one for one in plan.metrics if one.name == result.metric)
    # A variant of a metric that the table does not know has no published value.
    if not planned.default_settings:
        return None
    label: str | None = result.label[0]
    for need, model in (("encoder", plan.encoder), ("judge", plan.judge)):
        if need in planned.metric.needs:
            label = model.printed_as.get(table.paper, {}).get(result.label[0]) if model else None
    return None if label is None else find_in(table, label, result.statistic, result.category)


def _published_of_model(plan: PlannedRun, table: PublishedTable, result: Result) -> Published | None:
    names = plan.encoder.published_as.get(table.paper, ()) if plan.encoder else ()
    numbers = (find_in(table, result.label[0], result.statistic, result.category, name) for name in names)
    return next((one for one in numbers if one is not None), None)
