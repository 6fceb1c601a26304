"""Rows of a run's pages: its results, failures and remarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...published.values import citation
from ...records.record import Record
from ..text import decimals_for
from .rendering import difference, ends, number

_FIRST = 5


@dataclass(frozen=True)
class FailureRow:
    """Samples or a metric that failed, or samples with a remark.

    Attributes:
        kind: ``metric``, ``left out``, ``failure``, ``counted as empty`` or ``remark``.
        where: The metric, or the step.
        count: Number of samples; ``all`` for a metric.
        reason: The reason.
        first: The first of the samples.
    """

    kind: str
    where: str
    count: str
    reason: str
    first: Sequence[str] = ()


def failure_rows(record: Record) -> list[FailureRow]:
    """Return the failures and remarks of a run: metrics first, then samples by reason."""
    rows = [FailureRow("metric", metric, "all", reason) for metric, reason in record.metric_errors.items()]
    rows += [FailureRow("left out", metric, "all", reason) for metric, reason in record.metrics_left_out.items()]
    for kind, summaries in (
        ("failure", record.failures),
        ("counted as empty", record.empty_captions),
        ("remark", record.remarks),
    ):
        rows += [
            FailureRow(kind, row["stage"], f"{row['count']:,}", row["reason"], row["samples"][:_FIRST])
            for row in summaries
        ]
    return rows


def result_row(record: Record, key: str) -> dict[str, Any]:
    """Return the texts of a result, empty where there is no value.

    Args:
        record: Record of the run.
        key: Key of the result.
    """
    result, printed = record.results[key], record.published.get(key)
    value, interval, scale, decimals = (
        result.value,
        result.interval,
        result.scale,
        decimals_for(result.scale, [result.value]),
    )
    return {
        "metric": result.label[0],
        "statistic": result.label[1],
        "value": number(None if value is None else value * scale, decimals),
        "interval": ends(interval, scale, decimals),
        "letters": record.letters(result),
        "printed": printed.printed if printed else "",
        "gap": difference((value - printed.value) * scale, decimals) if printed and value is not None else "",
        "paper": f"{citation(printed.paper)}, Table {printed.table}" if printed else "",
        "n": f"{result.n:,}",
        "reason": result.reason or (interval.reason if interval else ""),
        "remark": result.remark,
    }
