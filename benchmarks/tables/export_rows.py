"""The results of finished runs as one flat table: CSV, LaTeX or Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...drafts import write_whole, written_whole
from ...errors import UsageError
from ..records.task_run import TaskRun
from .csv_text import csv_text
from .results import render

if TYPE_CHECKING:
    import pyarrow

COLUMNS = (
    "task", "version", "model", "metric", "statistic", "category", "value", "low", "high", "stderr",
    "published", "n", "fingerprint", "date",
)  # fmt: skip
"""Columns of the table. Values are plain numbers (a tau of 0.439); ``date`` is when the run began, in UTC."""


def flat_rows(runs: Sequence[TaskRun]) -> list[dict[str, Any]]:
    """Return a dict of ``COLUMNS`` a result, in the order of the runs."""
    return [row for run in runs for row in _entries(run)]


def to_arrow(runs: Sequence[TaskRun]) -> pyarrow.Table:
    """Return the flat table with typed columns: texts, float64, int64, and ``date`` as UTC milliseconds."""
    import pyarrow

    types = dict.fromkeys(COLUMNS, pyarrow.string())
    types |= dict.fromkeys(("value", "low", "high", "stderr", "published"), pyarrow.float64())
    types |= {"n": pyarrow.int64(), "date": pyarrow.timestamp("ms", "UTC")}
    return pyarrow.Table.from_pylist(flat_rows(runs), pyarrow.schema(list(types.items())))


def to_csv(runs: Sequence[TaskRun]) -> str:
    """Return the flat table as CSV; an undefined number is an empty field, the date is ISO 8601."""
    rows = flat_rows(runs)
    return csv_text([{**row, "date": row["date"].isoformat(timespec="seconds")} for row in rows]) + "\n"


def to_latex(runs: Sequence[TaskRun]) -> str:
    """Return a booktabs table as ``bench run --format latex`` prints it: names escaped, values as in papers."""
    return render(runs, "latex") + "\n"


def write_table(runs: Sequence[TaskRun], fmt: str, path: Path) -> None:
    """Write the flat table.

    Args:
        runs: The runs.
        fmt: ``csv``, ``latex`` or ``parquet``.
        path: The file.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if fmt == "parquet":
            import pyarrow.parquet

            with written_whole(path) as draft:
                pyarrow.parquet.write_table(to_arrow(runs), draft, compression="zstd")
        else:
            write_whole(path, (to_csv if fmt == "csv" else to_latex)(runs))
    except OSError as error:
        raise UsageError(f"-o {path}: cannot be written: {error.strerror or error}") from error


def _entries(run: TaskRun) -> Iterator[dict[str, Any]]:
    record = run.record
    for key, result in record.results.items():
        interval, published = result.interval, record.published.get(key)
        yield {
            "task": record.task,
            "version": str(record.version),
            "model": record.model_name,
            "metric": result.metric,
            "statistic": result.statistic,
            "category": result.category or None,
            "value": _number(result.value),
            "low": _number(interval and interval.low),
            "high": _number(interval and interval.high),
            "stderr": _number(interval and interval.stderr),
            "published": _number(published and published.value),
            "n": result.n,
            "fingerprint": record.fingerprint,
            "date": record.started,
        }


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)
