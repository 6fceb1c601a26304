"""What pages of a run show of it, as rows: its results, and what it could not use."""

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
    """Something that could not be used, or was used otherwise than it came.

    Attributes:
        kind: ``metric``, ``left out``, ``failure``, ``counted as empty`` or ``remark``.
        where: The metric, or the step.
        count: How many; ``all`` of a metric.
        reason: Why.
        first: The first samples of them.
    """

    kind: str
    where: str
    count: str
    reason: str
    first: Sequence[str] = ()


def failure_rows(record: Record) -> list[FailureRow]:
    """Return what a run could not use, and what was done to use the rest: metrics first, then samples by reason."""
    rows = [FailureRow("metric", metric, "all", reason) for metric, reason in record.metric_errors.items()]
    rows += [FailureRow("left out", metric, "all", reason) for metric, reason in record.metrics_left_out.items()]
    for kind, summaries in (
        ("failure", record.failures),
        ("counted as empty", record.empty_captions),
        ("remark", record.remarks),
    ):
        rows += [
            FailureRow(kind, one["stage"], f"{one['count']:,}", one["reason"], one["samples"][:_FIRST])
            for one in summaries
        ]
    return rows


def result_row(record: Record, key: str) -> dict[str, Any]:
    """Return what is shown of a result: texts, empty where it has nothing of the kind.

    Args:
        record: That of the run.
        key: The key of the result there.
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
