"""A finished run: results, samples, and everything that is needed to judge them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
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
    """

    record: dict[str, Any]
    results: list[Result]
    published: Mapping[str, Published]
    samples: pyarrow.Table
    folder: Path | None = None

    @property
    def failed_metrics(self) -> dict[str, str]:
        """Metrics that failed as a whole, with the reason."""
        return {e["metric"]: e["reason"] for e in self.record["metric_errors"]}


@dataclass(frozen=True)
class Run:
    """The runs of one call, a task each."""

    tasks: list[TaskRun] = field(default_factory=list)

    def __getitem__(self, task: str) -> TaskRun:
        for run in self.tasks:
            if run.record["task"] == task:
                return run
        raise KeyError(task)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row a result: task, model, metric, statistic, value, interval, published value, n."""
        import pandas

        from .tables import result_rows

        return pandas.DataFrame(result_rows(self.tasks))

    def table(self, fmt: str = "github") -> str:
        """Return the results as a table: ``github``, ``latex``, ``csv`` or ``json``."""
        from .tables import render

        return render(self.tasks, fmt)

    def __str__(self) -> str:
        return self.table()


def result_key(result: Result) -> str:
    """Return the name of a result in records: ``metric`` alone for system values, else ``metric.statistic``."""
    return result.metric if result.statistic in ("mean", "corpus") else f"{result.metric}.{result.statistic}"
