"""The results of finished runs as one flat table: CSV, LaTeX or Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...atomic_files import write_whole, written_whole
from ...errors import writing
from ..records.task_run import TaskRun
from .results import render, result_rows
from .text import csv_text

if TYPE_CHECKING:
    import pyarrow

COLUMNS = (
    "task", "version", "model", "metric", "statistic", "category", "value", "low", "high", "stderr",
    "published", "n", "fingerprint", "date",
)  # fmt: skip
"""Columns of the table. Values are plain numbers (a tau of 0.439); ``date`` is the start of the run, in UTC."""


def flat_rows(runs: Sequence[TaskRun]) -> list[dict[str, Any]]:
    """Return a dict of ``COLUMNS`` a result, in the order of the runs."""
    rows = []
    for run in runs:
        record = run.record
        own = {"version": str(record.version), "fingerprint": record.fingerprint, "date": record.started}
        for row in result_rows([run]):
            known = row | own | {"category": row["category"] or None}
            rows.append({column: known[column] for column in COLUMNS})
    return rows


def to_arrow(runs: Sequence[TaskRun]) -> pyarrow.Table:
    """Return the flat table with typed columns: texts, float64, int64, and ``date`` as UTC milliseconds."""
    import pyarrow

    types = dict.fromkeys(COLUMNS, pyarrow.string())
    types |= dict.fromkeys(("value", "low", "high", "stderr", "published"), pyarrow.float64())
    types |= {"n": pyarrow.int64(), "date": pyarrow.timestamp("ms", "UTC")}
    return pyarrow.Table.from_pylist(flat_rows(runs), pyarrow.schema(list(types.items())))


def write_table(runs: Sequence[TaskRun], fmt: str, path: Path) -> None:
    """Write the flat table.

    Args:
        runs: The runs.
        fmt: ``csv`` (dates in ISO 8601), ``parquet``, or ``latex``: as ``bench run`` prints it.
        path: The file.

    Raises:
        UsageError: It cannot be written.
    """
    with writing(f"-o {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if fmt == "parquet":
            import pyarrow.parquet

            with written_whole(path) as draft:
                pyarrow.parquet.write_table(to_arrow(runs), draft, compression="zstd")
        elif fmt == "csv":
            # An undefined number is an empty field.
            rows = [{**row, "date": row["date"].isoformat(timespec="seconds")} for row in flat_rows(runs)]
            write_whole(path, csv_text(rows) + "\n")
        else:
            write_whole(path, render(runs, "latex") + "\n")
