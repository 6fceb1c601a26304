"""What a run could not use, as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..records.record import Record

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
        ("counted as empty", record.coverage.empty),
        ("remark", record.remarks),
    ):
        rows += [
            FailureRow(kind, one["stage"], f"{one['count']:,}", one["reason"], one["samples"][:_FIRST])
            for one in summaries
        ]
    return rows
