"""The numbers of a finished run, read back from its record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..metrics import metrics as known_metrics
from .protocols.contract import Result
from .statistics.bootstrap import Interval


def recorded_results(record: Mapping[str, Any]) -> dict[str, Result]:
    """Return the results of a record by their key, in its order: what ``records.result_entries`` wrote.

    Args:
        record: ``run.json``, as its schema has it.
    """
    task = record["task"]
    values, higher = record["results"][task], record["higher_is_better"][task]
    found = {}
    for key, entry in record["intervals"].items():
        metric, statistic = entry["metric"], entry["statistic"]
        error = values.get(f"{key}_stderr,none")
        found[key] = Result(
            metric,
            statistic,
            (entry["label"][0], entry["label"][1]),
            values.get(f"{key},none"),
            entry["n"],
            higher.get(key, True),
            scale_of(record, metric),
            Interval(
                entry["low"],
                entry["high"],
                error if isinstance(error, int | float) else None,
                entry["resamples"],
                entry["reason"],
            ),
            entry["reason"],
            category=key[len(f"{metric}.{statistic}.") :],
        )
    return found


def scale_of(record: Mapping[str, Any], metric: str) -> float:
    """Return what tables show a metric's numbers times.

    Of a task that judges metrics that is the task's scale. Of one that scores captions it is the same, but for
    metrics without an upper end (a count of words), which are never percentages.
    """
    config = record["configs"][record["task"]]
    scale = float(config.get("scale", 1.0))
    if config.get("output_type", "generate_until") != "generate_until":
        return scale
    listed = {one.get("name") or one["metric"]: one["metric"] for one in metric_entries(config)}
    registered = listed.get(metric, metric).partition("[")[0]
    if registered in known_metrics and not math.isfinite(known_metrics[registered].range[1]):
        return 1.0
    return scale


def metric_label(record: Mapping[str, Any], metric: str) -> str:
    """Return a metric's name as tables print it; its own name where the record has no result of it."""
    entries = record.get("intervals", {}).values()
    return next((one["label"][0] for one in entries if one["metric"] == metric), metric)


def metric_entries(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the metrics that a task file lists, each as a mapping; it may name one by a text alone."""
    return [{"metric": one} if isinstance(one, str) else one for one in config.get("metric_list", [])]
