"""Records of runs as ``run.json`` holds them, with numbers of a test's own choice."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from finished_runs import make_record

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
    made_by: Mapping[str, Any] | None = None,
    **keys: Any,
) -> dict[str, Any]:
    """Return a record of metrics with one statistic."""
    ends = {metric: numbers or (None, None, None) for metric, numbers in values.items()}
    printed = {
        f"{metric}.{statistic}": {
            "value": value, "printed": f"{value * scale:.1f}", "scale": scale, "paper": "a paper", "table": 1
        }
        for metric, value in (published or {}).items()
    }  # fmt: skip
    record = make_record(
        task,
        values={f"{metric}.{statistic}": value for metric, (value, _, _) in ends.items()},
        alias=task.title(),
        date=1000.0,
        effective=1200,
        protocol={},
        metrics=made_by or {metric: {"metric": metric} for metric in values},
        beside=printed,
        significance={},
        histograms={},
    )
    for metric, (value, low, high) in ends.items():
        names = {"metric": metric, "statistic": statistic, "label": [(labels or {}).get(metric, metric.upper()), label]}
        reason = "" if value is not None else "all scores are equal"
        record["intervals"][f"{metric}.{statistic}"] |= {**names, "low": low, "high": high, "reason": reason}
    record["configs"][task]["scale"] = scale
    record["higher_is_better"][task] = dict.fromkeys(record["intervals"], higher_is_better)
    if groups:
        record["significance"] = {statistic: {"alpha": 0.05, "resamples": 100, "seed": 1, "groups": dict(groups)}}
    return record | keys


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
