"""Records of runs as ``run.json`` holds them, with numbers of a test's own choice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
    for metric, given in values.items():
        value, low, high = given or (None, None, None)
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
        }
    for metric, value in (published or {}).items():
        printed[f"{metric}.{statistic}"] = {"value": value, "printed": f"{value * scale:.1f}", "scale": scale}
    record = {
        "schema_version": 1,
        "task": task,
        "task_alias": task.title(),
        "model_name": None,
        "date": 1000.0,
        "versions": {task: 1.0},
        "configs": {task: {"output_type": "agreement", "scale": scale}},
        "config": {"level": 0.95, "limit": None},
        "results": {task: results},
        "intervals": intervals,
        "higher_is_better": {task: higher},
        "published": printed,
        "fingerprint_parts": {"metrics": {metric: {"metric": metric} for metric in values}},
        "significance": {},
        "histograms": {},
    }
    if groups:
        record["significance"] = {
            statistic: {"alpha": 0.05, "resamples": 100, "seed": 1, "groups": dict(groups)}
        }
    return record | keys


def with_histograms(
    record: dict[str, Any],
    scores: Mapping[str, Sequence[float]],
    ratings: Sequence[float],
    words: Sequence[int],
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

        word_rows = [(one - edges_of_words[0]) // width for one in words]
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
    scores = {
        metric: (0.2 * ratings - 0.02 * words + generator.normal(0, 0.1, 2000)).tolist() for metric in metrics
    }
    values: dict[str, Value] = dict.fromkeys(metrics, (0.4, 0.38, 0.42))
    record = agreement_record(values, **keys)
    return with_histograms(record, scores, ratings.tolist(), words.tolist())


def write_record(folder: Path, record: Mapping[str, Any]) -> Path:
    """Write ``run.json`` into a new folder and return the folder."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return folder
