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
from ..protocols.job import Collected, Job
from ..protocols.results import Result, ScoredMetric
from ..published.values import Published
from ..statistics.rated_rows import Ratings
from ..statistics.significance import ALPHA, Ranking
from . import environment
from .entries import PublishedValue, Significance, Timings, Truncation
from .hashes import checksum, fingerprint, plain
from .histograms import histograms
from .publishing import (
    SampleContent,
    origin_name,
    unquoted,
    unquoted_failures,
    without_folders,
)
from .results import result_entries
from .validity import SCHEMA_VERSION


@dataclass(frozen=True)
class Finished:
    """Everything that the record of a run is made of.

    Attributes:
        job: Task, documents, models and settings.
        named: The models as they were named.
        facts: What is known of those that were used, by their role.
        collected: What was scored.
        data_hash: Hash of it.
        images_hash: Hash of the images that it is of; None where they do not matter.
        scored: The scores of each metric.
        results: The numbers.
        protocol: Every choice of the protocol, defaults spelled out.
        rankings: Which metrics differ, by statistic.
        published: What papers print, by the key of the result.
        rows: What is written of each sample by metrics: metric to ``[n]`` values.
        words: ``[n]`` words of each caption; None where samples are not single captions.
        made_by: What decides the values of each metric, by its name.
        left_out: Metrics of the task that the run went without, with the reason.
        failures: What could not be used.
        empty: Captions that were scored as empty ones.
        remarks: What models and metrics remark on images that they read.
        card: Where the data comes from, and its terms; None for a user's own.
        started: When, in seconds since 1970.
        timings: How long each step took.
        found: Results that the store knew.
        computed: Results that it was given.
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
        """What is written of each sample by the metrics that did not fail as a whole."""
        return {one.name: self.rows[one.name] for one in self.scored if one.scores is not None}

    @property
    def redistribution(self) -> str:
        """What the terms of the data allow to pass on; data without a card are the user's own."""
        return self.card.redistribution if self.card else "full"


def values_of(
    finished: Finished,
    samples: SampleContent,
    pictures: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the record as JSON values, as ``run.schema.json`` describes them.

    Args:
        finished: The run.
        samples: What is written of its samples; with ``scores`` no reason quotes the data.
        pictures: Id of a sample to the path of its picture below the run's folder.
        files: Path of each file beside the record to its SHA-256.
    """
    parts = without_folders(plain(_fingerprint_parts(finished)), distinct=True)
    values, intervals, of_results = result_entries(finished.results)
    # Of metrics themselves, too: what is compared may be their scores.
    higher_is_better = {
        without_folders(one.name): one.metric.higher_is_better for one in finished.scored
    } | of_results
    errors = [{"metric": one.name, "reason": one.error} for one in finished.scored if one.scores is None]
    if samples == "scores":
        for entry in (*errors, *intervals.values()):
            entry["reason"] = unquoted(entry["reason"])
    record = {
        **_as_lm_eval(finished, values, higher_is_better),
        "intervals": intervals,
        "published": {key: PublishedValue.of(one).to_json() for key, one in finished.published.items()},
        "metrics_left_out": dict(finished.left_out),
        "metric_errors": errors,
        **_data(finished, samples),
        **_numbers_of_samples(finished),
        "pictures": dict(pictures or {}),
        "files": dict(files or {}),
        "fingerprint": fingerprint(parts),
        "fingerprint_parts": parts,
        "environment": environment.environment(),
        "timings": finished.timings.to_json(),
        "store": {"found": finished.found, "computed": finished.computed},
    }
    record = without_folders(plain(record))
    return {**record, "checksum": checksum(record)}


def _fingerprint_parts(finished: Finished) -> dict[str, Any]:
    """Return what decides the numbers. A machine's folders do not; who reads the files in them hashes those."""
    job = finished.job
    captioner, encoder, judge = (finished.facts.get(role) for role in ROLES)
    return {
        "task": {"name": job.task.task, **job.task.fingerprint(), "protocol": dict(finished.protocol)},
        "data": finished.data_hash,
        **({"images": finished.images_hash} if finished.images_hash else {}),
        "model": captioner.fingerprint if captioner else None,
        "encoder": encoder.fingerprint if encoder else None,
        **({"judge": judge.fingerprint} if judge else {}),
        "metrics": finished.made_by,
        "settings": {
            "limit": job.settings.limit,
            "seed": job.settings.seed,
            "resamples": job.settings.resamples,
            "level": job.settings.level,
            "generation_kwargs": dict(job.settings.generation_kwargs),
            # Only where it was chosen: how else intervals are made follows from the data.
            **({"intervals": job.settings.intervals} if job.settings.intervals != "auto" else {}),
        },
    }


def _as_lm_eval(
    finished: Finished, values: Mapping[str, Any], higher_is_better: Mapping[str, bool]
) -> dict[str, Any]:
    """Return the keys that lm-eval has, in its layout, after those that say what the record is of."""
    job, named = finished.job, finished.named
    task = job.task
    model = named.captioner or named.encoder or named.judge
    roles = {"encoder": named.encoder, "judge": named.judge}
    return {
        "schema_version": SCHEMA_VERSION,
        "task": task.task,
        "task_alias": task.alias,
        "model_name": model.name if model else None,
        "results": {task.task: {"name": task.task, "alias": task.task, **values}},
        "group_subtasks": {task.task: []},
        "configs": {task.task: task.to_json()},
        "versions": {task.task: task.version},
        "n-shot": {task.task: 0},
        "higher_is_better": {task.task: higher_is_better},
        "n-samples": {
            task.task: {
                "original": len(job.documents.rows),
                "effective": finished.collected.summary.effective,
            },
        },
        "config": {
            "model": model.adapter if model else None,
            "model_args": model.arguments if model else {},
            **{
                key: value
                for role, spec in roles.items()
                for key, value in (
                    (role, spec.name if spec else None),
                    (f"{role}_args", spec.arguments if spec else {}),
                )
            },
            **job.settings.to_json(),
        },
        "git_hash": environment.git_hash(),
        "date": finished.started,
        "total_evaluation_time_seconds": str(round(time.time() - finished.started, 3)),
    }


def _data(finished: Finished, samples: SampleContent) -> dict[str, Any]:
    """Return what is known of the data, and what of it could not be used."""
    job, summary = finished.job, finished.collected.summary
    captioner, encoder, judge = (finished.facts.get(role) for role in ROLES)
    lost, remarks = finished.failures, finished.remarks
    if samples == "scores":
        lost, remarks = unquoted_failures(lost), unquoted_failures(remarks)
    limit = encoder.context_length if encoder else None
    cut = {} if limit is None else _truncation(finished.collected, finished.scored, limit)
    return {
        "failures": summarise(lost),
        "empty_captions": summarise(finished.empty),
        "subset": asdict(summary.subset) if summary.subset else None,
        "remarks": summarise(remarks),
        "ruled_out": summary.ruled_out,
        "generation": {**summary.generation, **({"usage": dict(captioner.usage)} if captioner else {})},
        **({"judging": {"usage": dict(judge.usage)}} if judge else {}),
        "data_checks": [asdict(one) for one in summary.data_checks],
        "data_origin": origin_name(job.documents.origin),
        "documents_hash": summary.documents_hash or None,
        "redistribution": finished.redistribution,
        "samples": samples,
        "truncation": {name: one.to_json() for name, one in cut.items()},
    }


def _truncation(collected: Collected, scored: Sequence[ScoredMetric], limit: int) -> dict[str, Truncation]:
    """Return, for each metric whose encoder takes so many tokens only, how many captions were cut.

    A metric says so by ``Scores.parts["truncated"]``: ``[n]`` 1 for an item whose caption was cut, else 0;
    a protocol that encodes by ``Summary.cut``. What is not known of an item, NaN, does not count.
    """
    counts = dict(collected.summary.cut)
    for one in scored:
        cut = one.scores.parts.get("truncated") if one.scores is not None else None
        if cut is not None:
            counts[one.name] = (
                len(collected.item_of_sample),
                int(np.count_nonzero(cut[collected.item_of_sample] > 0)),
            )
    same = collected.summary.identical
    return {
        name: Truncation(captions, cut, cut / captions, limit, same.get(name, 0))
        for name, (captions, cut) in counts.items()
    }


def _numbers_of_samples(finished: Finished) -> dict[str, Any]:
    """Return which metrics differ, and how the scores of single captions are distributed."""
    settings, numbers = finished.job.settings, finished.collected.numbers
    ratings = Ratings(numbers["rating"], numbers["ratings"]) if "rating" in numbers else None
    return {
        "significance": {
            name: Significance(ALPHA, settings.resamples, settings.seed, ranking.groups).to_json()
            for name, ranking in finished.rankings.items()
        },
        "histograms": histograms(finished.scores, finished.words, ratings),
    }
