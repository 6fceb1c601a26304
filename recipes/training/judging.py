"""What tasks say of a model before and after a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...adapters.aliases import ModelSpec
from ...benchmarks.api import evaluate
from ...benchmarks.inputs.metric_names import split_metrics
from ...benchmarks.tables.results import result_rows
from ...metrics import metrics
from .schema import Judge

Row = dict[str, Any]
"""A result, as ``result_rows`` gives it."""


def judged(judges: Sequence[Judge], model: ModelSpec, folder: Path, options: Mapping[str, Any]) -> list[Row]:
    """Return a row a result of a model.

    Args:
        judges: The tasks.
        model: The model.
        folder: Where the runs are written.
        options: More of ``evaluate``: ``store``, ``data``, …

    Raises:
        BenchError: A task cannot be run.
    """
    rows: list[Row] = []
    for judge in judges:
        names = split_metrics(judge.metrics)
        if model.role == "encoder":
            names = [name for name in names if _fits(name, model.family)]
        settings: dict[str, Any] = {} if judge.limit is None else {"limit": judge.limit}
        if judge.encoder is not None:
            settings["encoder"] = judge.encoder
        run = evaluate(
            model.adapter, [judge.task], model_args={**model.arguments, "name": model.name}, metrics=names,
            output_path=folder, log_samples="none", **settings, **options,
        )  # fmt: skip
        rows += result_rows(run.tasks)
    return rows


def _fits(name: str, family: str) -> bool:
    wanted = getattr(metrics[name.partition("[")[0]], "encoder_family", None)
    return wanted in (None, family)


def side_by_side(before: Sequence[Row], after: Sequence[Row]) -> list[Row]:
    """Return a row a result with both values and their intervals.

    Where the weights are of another family afterwards, the metrics of both stand beside each other by their order.
    """
    ranked: list[dict[tuple[str, ...], Row]] = []
    for rows in (before, after):
        seen: dict[tuple[str, ...], Row] = {}
        for row in rows:
            key = (row["task"], row["statistic"], row["category"])
            seen[(*key, str(sum(other[:3] == key for other in seen)))] = row
        ranked.append(seen)
    first, second = ranked
    return [
        {
            "task": key[0],
            "metric": " → ".join(dict.fromkeys([first[key]["metric"], second[key]["metric"]])),
            "statistic": " ".join(filter(None, key[1:3])),
            "before": _with_interval(first[key]),
            "after": _with_interval(second[key]),
            "n": second[key]["n"],
        }
        for key in first
        if key in second
    ]


def _with_interval(row: Row) -> dict[str, float | None]:
    return {name: row[name] for name in ("value", "low", "high")}
