"""One finished task: results, samples, and everything that is needed to judge them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

    from .protocols.contract import Result
    from .published_values import Published


@dataclass(frozen=True)
class TaskRun:
    """One task and one model.

    Attributes:
        record: What ``run.json`` holds.
        results: The numbers, in table order.
        published: Published value of a result, by its key.
        samples: A row a sample: id, candidate, references, ratings, score of each metric.
        folder: Where the run was written; None if it was not.
        failures: The record's, with the reasons in full: they may name folders of this machine, or quote the data.
    """

    record: dict[str, Any]
    results: list[Result]
    published: Mapping[str, Published]
    samples: pyarrow.Table
    folder: Path | None = None
    failures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def failed_metrics(self) -> dict[str, str]:
        """Metrics that failed as a whole, with the reason."""
        return {e["metric"]: e["reason"] for e in self.record["metric_errors"]}


def result_key(result: Result) -> str:
    """Return the name of a result in records.

    ``metric`` alone for system values, else ``metric.statistic``, and ``.category`` where it is of one.
    """
    if result.statistic in ("mean", "corpus"):
        return result.metric
    return ".".join(filter(None, (result.metric, result.statistic, result.category)))
