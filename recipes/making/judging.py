"""What capbench's own metrics say of each text of a maker, and of the steps from one to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...benchmarks.api import score
from ...benchmarks.inputs.metric_names import read_metric
from ...benchmarks.statistics.contract import UndefinedStatistic
from ...benchmarks.statistics.paired import Estimate, difference, paired_means
from ...errors import BenchError
from ...metrics import metrics as known_metrics
from ...progress import Progress, silent
from .rows import MakingRow
from .schema import Judged, Maker
from .tokens import CONTEXT, clip_tokens
from .writing import value_at

Row = dict[str, Any]
"""Of a table: ``metric``, ``text``, ``n``, ``value``, and against the text before ``difference``, ``low``, ``high``."""


def judged(
    maker: Maker, rows: Sequence[MakingRow], store: Path | None, progress: Progress = silent
) -> tuple[list[Row], list[str]]:
    """Return the table of metrics, and remarks on metrics that could not be computed.

    Each metric sees the same rows for every text; what stands beside a text is the difference to the one before it,
    with a 95 % interval over rows.

    Args:
        maker: The maker.
        rows: Those that are written.
        store: The store's file.
        progress: Gives a reporter for a step.
    """
    table: list[Row] = []
    remarks: list[str] = []
    told = maker.judged
    if told is None:
        return table, remarks
    for metric in told.metrics:
        if lack := _lack(metric, rows):
            remarks.append(f"{metric}: {lack}")
            continue
        try:
            values = {
                name: _values(metric, key, rows, maker, store, progress) for name, key in told.texts.items()
            }
            table += _steps(metric, values)
        except (BenchError, UndefinedStatistic) as error:
            remarks.append(f"{metric}: {error}")
    return table, remarks


def _lack(metric: str, rows: Sequence[MakingRow]) -> str:
    """Return what the rows lack that a metric needs; empty for nothing."""
    needs = _needs(metric)
    for need in ("references", "boxes", "objects"):
        if need in needs and not all(need in row.values for row in rows):
            return f"the data have no {need}"
    return "the data have no images" if "image" in needs and any(row.image is None for row in rows) else ""


def _needs(metric: str) -> frozenset[str]:
    return getattr(known_metrics[str(read_metric(metric).metric)], "needs", frozenset[str]())


def _values(
    metric: str, key: str, rows: Sequence[MakingRow], maker: Maker, store: Path | None, progress: Progress
) -> np.ndarray:
    """Return ``[n]`` the metric of each row's text; of several texts their mean, NaN where one has none."""
    told = maker.judged
    model = maker.models.get("encoder")
    named = (told.encoder if told else None, {}) if told and told.encoder else (
        (model.name, model.arguments) if model else (None, {})
    )  # fmt: skip
    judge = maker.models.get("judge")
    given: list[dict[str, Any]] = []
    of_row: list[int] = []
    for number, row in enumerate(rows):
        texts = value_at(row, key)
        for text in [texts] if isinstance(texts, str) else texts:
            beside = {
                name: row.values[name] for name in ("references", "boxes", "objects") if name in row.values
            }
            given.append({"id": str(len(given)), "candidate": text, "image": row.image, **beside})
            of_row.append(number)
    needs = _needs(metric)
    found = score(
        given,
        [metric],
        model=named[0] if "encoder" in needs else None,
        model_args=named[1] if "encoder" in needs else "",
        judge=judge.name if judge and "judge" in needs else None,
        judge_args=judge.arguments if judge and "judge" in needs else "",
        store=store,
        progress=progress,
    )
    (name,) = found.labels
    # A row a given one, whatever was left out.
    by_id = {row["id"]: row[name] for row in found}
    sums, counts = np.zeros(len(rows)), np.zeros(len(rows))
    for at, number in enumerate(of_row):
        value = by_id.get(str(at))
        sums[number] += math.nan if value is None else value
        counts[number] += 1
    with np.errstate(invalid="ignore"):
        return sums / counts


def _steps(metric: str, values: Mapping[str, np.ndarray]) -> list[Row]:
    usable = np.all([np.isfinite(one) for one in values.values()], axis=0)
    kept = {name: one[usable] for name, one in values.items()}
    count = int(usable.sum())
    if not count:
        return [{"metric": metric, "text": name, "n": 0, "value": None} for name in values]
    estimates = paired_means(kept, np.arange(count))
    table: list[Row] = []
    before: Estimate | None = None
    for name, estimate in estimates.items():
        row: Row = {"metric": metric, "text": name, "n": count, "value": estimate.value}
        if before is not None:
            step = difference(estimate, before)
            row |= {
                "difference": step.value,
                "low": _finite(step.interval.low),
                "high": _finite(step.interval.high),
            }
        table.append(row)
        before = estimate
    return table


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def lengths(told: Judged | None, rows: Sequence[MakingRow]) -> list[Row]:
    """Return of each text how many there are, and how long they are: words, and tokens of CLIP."""
    table: list[Row] = []
    for name, key in told.texts.items() if told else ():
        texts = [text for row in rows for text in _texts(value_at(row, key))]
        tokens = [clip_tokens(text) for text in texts]
        table.append(
            {
                "text": name,
                "texts": len(texts),
                "words": float(np.mean([len(text.split()) for text in texts])) if texts else None,
                "tokens": float(np.mean(tokens)) if texts else None,
                "most_tokens": max(tokens, default=0),
                "over_context": sum(count > CONTEXT for count in tokens),
            }
        )
    return table


def _texts(found: Any) -> list[str]:
    return [found] if isinstance(found, str) else list(found)
