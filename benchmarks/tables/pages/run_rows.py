"""Rows of a run's pages: its results, failures and remarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...published.values import citation
from ...records.record import Record
from ..text import decimals_for
from .rendering import difference, ends, number

_FIRST = 5


FailureRow = tuple[str, str, str, str, Sequence[str]]
"""Kind (``metric``, ``left out``, ``failure``, ``counted as empty`` or ``remark``), the metric or step, number of
samples (``all`` for a metric), reason, and the first of the samples."""


def failure_rows(record: Record) -> list[FailureRow]:
    """Return the failures and remarks of a run: metrics first, then samples by reason."""
    metrics = {"metric": record.metric_errors, "left out": record.metrics_left_out}
    samples = {"failure": record.failures, "counted as empty": record.empty_captions, "remark": record.remarks}
    rows: list[FailureRow] = [
        (kind, metric, "all", reason, ()) for kind, reasons in metrics.items() for metric, reason in reasons.items()
    ]
    return rows + [
        (kind, row["stage"], f"{row['count']:,}", row["reason"], row["samples"][:_FIRST])
        for kind, summaries in samples.items()
        for row in summaries
    ]


def result_row(record: Record, key: str) -> dict[str, Any]:
    """Return the texts of a result, empty where there is no value.

    Args:
        record: Record of the run.
        key: Key of the result.
    """
    result, printed = record.results[key], record.published.get(key)
    value, interval, scale = result.value, result.interval, result.scale
    decimals = decimals_for(scale, [value])
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
