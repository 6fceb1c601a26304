"""What ``run.json`` holds of a run that has just finished."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tasks.sources import DataSource
from ..inputs.failures import Failure, FailureLog, summarise
from ..inputs.models import ROLES
from ..protocols.job import Job, Result
from ..published.values import Published
from ..records import environment
from ..records.entries import NO_ERROR, SCHEMA_VERSION
from ..records.hashes import checksum, hash_of_json, plain
from ..records.histograms import histograms
from ..records.publishing import SampleContent, origin_name, unquoted, unquoted_failures, without_folders
from ..statistics.rated_rows import Ratings
from ..statistics.significance import ALPHA, Ranking
from .plan import PlannedRun
from .planned_metrics import metric_fingerprints
from .scoring import Scored


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run, from which its record is built.

    Attributes:
        plan: The run.
        job: Its documents, models and settings.
        scored: The corpus and its scores.
        results: The numbers.
        rankings: Which metrics differ, by statistic.
        published: Published values, by the key of the result.
        rows: Values of each sample in samples.parquet: metric to ``[n]`` values.
        failures: Samples that could not be used, and captions that were scored as empty ones.
        remarks: Remarks of models and metrics on the images they read.
        card: Source and terms of the data; None for a user's own data.
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
    published: Mapping[str, Published]
    rows: Mapping[str, np.ndarray]
    failures: FailureLog
    remarks: Sequence[Failure]
    card: DataSource | None
    started: float
    seconds: Mapping[str, float]
    cached: int
    computed: int

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
