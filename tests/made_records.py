"""Records of runs as ``run.json`` holds them, with numbers of a test's own choice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capbench.benchmarks.records.hashes import fingerprint

Value = tuple[float | None, float | None, float | None] | None
"""A value, and the ends of its interval."""


def agreement_record(
    values: Mapping[str, Value],
    *,
    task: str = "rated",
    statistic: str = "kendall_c",
    label: str = "τ-c",
    published: Mapping[str, float] | None = None,
    groups: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    higher_is_better: bool = True,
    scale: float = 100,
    **keys: Any,
) -> dict[str, Any]:
    """Return a record of metrics with one statistic."""
    results: dict[str, Any] = {"name": task, "alias": task}
    intervals, higher, printed = {}, {}, {}
    for metric, numbers in values.items():
        value, low, high = numbers or (None, None, None)
        key = f"{metric}.{statistic}"
        results[f"{key},none"] = value
        higher[key] = higher_is_better
        intervals[key] = {
            "metric": metric,
            "statistic": statistic,
            "label": [(labels or {}).get(metric, metric.upper()), label],
            "n": 1200,
            "low": low,
            "high": high,
            "resamples": 1000,
            "reason": "" if value is not None else "all scores are equal",
        }
    for metric, value in (published or {}).items():
        printed[f"{metric}.{statistic}"] = {
            "value": value,
            "printed": f"{value * scale:.1f}",
            "scale": scale,
            "paper": "a paper",
            "table": 1,
        }
    record = record_of(task, _parts({metric: {"metric": metric} for metric in values})) | {
        "task_alias": task.title(),
        "results": {task: results},
        "configs": {task: {"output_type": "agreement", "scale": scale}},
        "versions": {task: 1.0},
        "higher_is_better": {task: higher},
        "n-samples": {task: {"original": 1200, "effective": 1200}},
        "config": {"model": None, "model_args": {}, "level": 0.95, "limit": None},
        "date": 1000.0,
        "intervals": intervals,
        "published": printed,
        "significance": {},
        "histograms": {},
    }
    if groups:
        record["significance"] = {statistic: {"alpha": 0.05, "resamples": 100, "seed": 1, "groups": dict(groups)}}
    return record | keys


def record_of(task: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that every record has, of a run of which nothing more is to be said.

    Args:
        task: Name of the task.
        parts: What the run was made by.
    """
    return {
        "schema_version": 1,
        "task": task,
        "model_name": None,
        "group_subtasks": {task: []},
        "n-shot": {task: 0},
        "git_hash": None,
        "total_evaluation_time_seconds": "1.0",
        "published": {},
        "metrics_left_out": {},
        "metric_errors": [],
        "failures": [],
        "remarks": [],
        "ruled_out": 0,
        "generation": {},
        "data_checks": [],
        "data_origin": "data",
        "truncation": {},
        "fingerprint": fingerprint(parts),
        "fingerprint_parts": parts,
        "environment": {"capbench": "0.1.0", "python": "3", "platform": "here", "libraries": {}},
        "timings": {},
        "store": {"found": 0, "computed": 0},
    }


def made_by(**metrics: Any) -> dict[str, Any]:
    """Return the part of a record that says what its metrics were made by."""
    return {"fingerprint_parts": _parts(metrics)}


def _parts(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {"task": {}, "data": "same", "model": None, "metrics": dict(metrics), "settings": {}}


def with_histograms(
    record: dict[str, Any], scores: Mapping[str, Sequence[float]], ratings: Sequence[float], words: Sequence[int]
) -> dict[str, Any]:
    """Return the record with histograms of captions that have a score of each metric, a rating and a length."""
    levels, level_of = np.unique(ratings, return_inverse=True)
    width = -(-(max(words) - min(words) + 1) // 20)
    edges_of_words = list(range(min(words), max(words) + width + 1, width))
    histograms = {}
    for metric, values in scores.items():
        edges = np.linspace(min(values), max(values), 21)
        bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, 19)

        def table(rows: Sequence[int], count: int, bins: np.ndarray = bins) -> list[list[int]]:
            counts = np.zeros((count, 20), dtype=int)
            np.add.at(counts, (np.asarray(rows), bins), 1)
            return counts.tolist()

        word_rows = [(count - edges_of_words[0]) // width for count in words]
        histograms[metric] = {
            "edges": edges.tolist(),
            "counts": np.bincount(bins, minlength=20).tolist(),
            "by_rating": {"ratings": levels.tolist(), "counts": table(level_of, len(levels))},
            "by_words": {"edges": edges_of_words, "counts": table(word_rows, len(edges_of_words) - 1)},
        }
    return record | {"histograms": histograms}


def rated_captions(metrics: Sequence[str], **keys: Any) -> dict[str, Any]:
    """Return a record of 2,000 captions whose scores rise with rating 1 to 4, and fall with 5 to 20 words."""
    generator = np.random.default_rng(0)
    ratings = generator.integers(1, 5, 2000)
    words = generator.integers(5, 21, 2000)
    scores = {metric: (0.2 * ratings - 0.02 * words + generator.normal(0, 0.1, 2000)).tolist() for metric in metrics}
    values: dict[str, Value] = dict.fromkeys(metrics, (0.4, 0.38, 0.42))
    record = agreement_record(values, **keys)
    return with_histograms(record, scores, ratings.tolist(), words.tolist())


def write_record(folder: Path, record: Mapping[str, Any]) -> Path:
    """Write ``run.json`` into a new folder and return the folder."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return folder
