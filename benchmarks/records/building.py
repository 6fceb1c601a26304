"""What ``run.json`` holds of a run that has just finished."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ...tasks.sources import DataSource
from ..inputs.failures import Failure, summarise
from ..inputs.models import ROLES, ModelFacts, NamedModels
from ..protocols.job import Collected, Job, Result, ScoredMetric
from ..published.values import Published
from ..statistics.rated_rows import Ratings
from ..statistics.significance import ALPHA, Ranking
from . import environment
from .entries import Timings
from .hashes import checksum, hash_of_json, plain
from .histograms import histograms
from .publishing import SampleContent, origin_name, unquoted, unquoted_failures, without_folders

SCHEMA_VERSION = 1
NO_ERROR = "N/A"
"""lm-eval's text for a missing standard error."""


@dataclass(frozen=True)
class Finished:
    """A finished run, from which its record is built.

    Attributes:
        job: Task, documents, models and settings.
        named: The models as the user named them.
        facts: Facts about the models that were used, by role.
        collected: The scored samples.
        data_hash: Hash of the samples.
        images_hash: Hash of their images; None where no number depends on images.
        scored: The scores of each metric.
        results: The numbers.
        protocol: Every choice of the protocol, defaults spelled out.
        rankings: Which metrics differ, by statistic.
        published: Published values, by the key of the result.
        rows: Values of each sample in samples.parquet: metric to ``[n]`` values.
        words: ``[n]`` number of words of each caption; None where samples are not single captions.
        made_by: Settings and versions that decide the values of each metric, by its name.
        left_out: Metrics of the task that were not computed, with the reason.
        failures: Samples that could not be used.
        empty: Captions that were scored as empty ones.
        remarks: Remarks of models and metrics on the images they read.
        card: Source and terms of the data; None for a user's own data.
        started: Start, in seconds since 1970.
        timings: Duration of each step.
        found: Results found in the store.
        computed: Results added to the store.
    """

    job: Job
    named: NamedModels
    facts: Mapping[str, ModelFacts]
    collected: Collected
    data_hash: str
    images_hash: str | None
    scored: Sequence[ScoredMetric]
    results: Sequence[Result]
    protocol: Mapping[str, Any]
    rankings: Mapping[str, Ranking] = field(default_factory=dict[str, Ranking])
    published: Mapping[str, Published] = field(default_factory=dict[str, Published])
    rows: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    words: np.ndarray | None = None
    made_by: Mapping[str, Any] = field(default_factory=dict[str, Any])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    failures: Sequence[Failure] = ()
    empty: Sequence[Failure] = ()
    remarks: Sequence[Failure] = ()
    card: DataSource | None = None
    started: float = field(default_factory=time.time)
    timings: Timings = field(default_factory=Timings)
    found: int = 0
    computed: int = 0

    @property
    def scores(self) -> dict[str, np.ndarray]:
        """The values of each sample, of the metrics that did not fail as a whole."""
        return {metric.name: self.rows[metric.name] for metric in self.scored if metric.scores is not None}

    @property
    def redistribution(self) -> str:
        """What the data's terms allow to redistribute; data without a card are the user's own."""
        return self.card.redistribution if self.card else "full"


def values_of(
    finished: Finished,
    samples: SampleContent,
    pictures: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the JSON values of a record."""
    job, named, summary = finished.job, finished.named, finished.collected.summary
    task, model = job.task, named.captioner or named.encoder or named.judge
    captioner, encoder, judge = map(finished.facts.get, ROLES)
    parts = without_folders(plain(_fingerprint_parts(finished)), distinct=True)
    values, intervals, of_results = result_entries(finished.results)
    # Of metrics themselves, too: comparisons may be of their scores.
    of_metrics = {without_folders(scored.name): scored.metric.higher_is_better for scored in finished.scored}
    errors = [{"metric": metric.name, "reason": metric.error} for metric in finished.scored if metric.scores is None]
    failures, remarks = finished.failures, finished.remarks
    if samples == "scores":
        failures, remarks = unquoted_failures(failures), unquoted_failures(remarks)
        for entry in (*errors, *intervals.values()):
            entry["reason"] = unquoted(entry["reason"])
    each_metric = {name: round(seconds, 4) for name, seconds in finished.timings.metrics.items()}
    numbers = finished.collected.numbers
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
            "encoder": named.encoder.name if named.encoder else None,
            "encoder_args": named.encoder.arguments if named.encoder else {},
            "judge": named.judge.name if named.judge else None,
            "judge_args": named.judge.arguments if named.judge else {},
            **job.settings.to_json(),
        },
        "git_hash": environment.git_hash(),
        "date": finished.started,
        "total_evaluation_time_seconds": str(round(time.time() - finished.started, 3)),
        "intervals": intervals,
        "published": {key: published_entry(published) for key, published in finished.published.items()},
        "metrics_left_out": finished.left_out,
        "metric_errors": errors,
        "failures": summarise(failures),
        "empty_captions": summarise(finished.empty),
        "subset": asdict(summary.subset) if summary.subset else None,
        "remarks": summarise(remarks),
        "ruled_out": summary.ruled_out,
        "generation": {**summary.generation, **({"usage": captioner.usage} if captioner else {})},
        **({"judging": {"usage": judge.usage}} if judge else {}),
        "data_checks": list(map(asdict, summary.data_checks)),
        "data_origin": origin_name(job.documents.origin),
        "documents_hash": summary.documents_hash or None,
        "redistribution": finished.redistribution,
        "samples": samples,
        "truncation": _truncation(finished, encoder.context_length if encoder else None),
        "significance": {
            name: {
                "alpha": ALPHA,
                "resamples": job.settings.resamples,
                "seed": job.settings.seed,
                "groups": ranking.groups,
            }
            for name, ranking in finished.rankings.items()
        },
        "histograms": histograms(finished.scores, finished.words, ratings),
        "pictures": pictures or {},
        "files": files or {},
        "fingerprint": hash_of_json(parts),
        "fingerprint_parts": parts,
        "environment": environment.environment(),
        "timings": {**finished.timings.steps, "each_metric": each_metric},
        "store": {"found": finished.found, "computed": finished.computed},
    }
    record = without_folders(plain(record))
    return {**record, "checksum": checksum(record)}


def _fingerprint_parts(finished: Finished) -> dict[str, Any]:
    """Return what decides the numbers: not the machine's folders, but hashes of the files that are read."""
    task, settings = finished.job.task, finished.job.settings
    captioner, encoder, judge = map(finished.facts.get, ROLES)
    return {
        "task": {"name": task.task, **task.fingerprint(), "protocol": finished.protocol},
        "data": finished.data_hash,
        **({"images": finished.images_hash} if finished.images_hash else {}),
        "model": captioner.fingerprint if captioner else None,
        "encoder": encoder.fingerprint if encoder else None,
        **({"judge": judge.fingerprint} if judge else {}),
        "metrics": finished.made_by,
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


def _truncation(finished: Finished, limit: int | None) -> dict[str, Any]:
    """Return, for each metric whose encoder has a token limit, how many captions were cut.

    A metric reports ``Scores.parts["truncated"]``: ``[n]`` 1 for an item whose caption was cut, else 0, NaN where it is
    unknown; a protocol that encodes reports ``Summary.cut``.
    """
    if limit is None:
        return {}
    summary, item_of_sample = finished.collected.summary, finished.collected.item_of_sample
    counts = dict(summary.cut)
    for metric in finished.scored:
        cut = metric.scores.parts.get("truncated") if metric.scores is not None else None
        if cut is not None:
            counts[metric.name] = len(item_of_sample), int(np.count_nonzero(cut[item_of_sample] > 0))
    return {
        name: {
            "captions": captions,
            "cut": cut,
            "share": cut / captions,
            "context_length": limit,
            **({"identical": same} if (same := summary.identical.get(name)) else {}),
        }
        for name, (captions, cut) in counts.items()
    }
