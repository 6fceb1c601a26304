"""The results of finished runs as one flat table: CSV, LaTeX or Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError
from ..rows import BadRow
from .published_values import Published
from .recorded_results import recorded_results
from .records import read_run
from .tables import csv_text, render
from .task_run import TaskRun

if TYPE_CHECKING:
    import pyarrow

COLUMNS = (
    "task", "version", "model", "metric", "statistic", "category", "value", "low", "high", "stderr",
    "published", "n", "fingerprint", "date",
)  # fmt: skip
"""Columns of the table. Values are plain numbers (a tau of 0.439); ``date`` is when the run began, in UTC."""


@dataclass(frozen=True)
class RunRecord:
    """A finished run.

    Attributes:
        folder: Where it lies.
        record: Its ``run.json``.
    """

    folder: Path
    record: Mapping[str, Any]

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.record["task"]

    @property
    def model(self) -> str:
        """Name of the model, ``no-model`` where the task needs none."""
        return self.record["model_name"] or "no-model"

    @property
    def date(self) -> datetime:
        """When the run began."""
        return datetime.fromtimestamp(self.record["date"], UTC)


def find_runs(places: Sequence[Path]) -> tuple[list[RunRecord], list[BadRow]]:
    """Read the records of runs.

    Args:
        places: Folders of runs, ``run.json`` files, or folders below which runs lie.

    Returns:
        Each run once, in order of their folders; and the records that cannot be read.

    Raises:
        DataError: A place does not exist, or no run lies below it.
    """
    files: dict[Path, Path] = {}
    for place in places:
        found = [place] if place.is_file() else sorted(place.rglob("run.json"))
        if not found:
            missing = "there is no such folder" if not place.exists() else "has no run.json below it"
            raise DataError(f"{place}: {missing}", "RUN is the folder of a finished run, or of several.")
        files |= {path.resolve(): path for path in found}
    runs, bad = [], []
    for path in files.values():
        try:
            run = RunRecord(path.parent, read_run(path))
            # What a table takes from it: a record that lacks any of this costs no other.
            list(_entries(run))
            runs.append(run)
        except DataError as error:
            bad.append(BadRow(str(path), error.message.removeprefix(f"{path}: ")))
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            bad.append(BadRow(str(path), f"is not a whole run record ({type(error).__name__}: {error})"))
    return runs, bad


def flat_rows(runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Return a dict of ``COLUMNS`` a result, in the order of the runs."""
    return [row for run in runs for row in _entries(run)]


def to_arrow(runs: Sequence[RunRecord]) -> pyarrow.Table:
    """Return the flat table with typed columns: texts, float64, int64, and ``date`` as UTC milliseconds."""
    import pyarrow

    types = dict.fromkeys(COLUMNS, pyarrow.string())
    types |= dict.fromkeys(("value", "low", "high", "stderr", "published"), pyarrow.float64())
    types |= {"n": pyarrow.int64(), "date": pyarrow.timestamp("ms", "UTC")}
    return pyarrow.Table.from_pylist(flat_rows(runs), pyarrow.schema(list(types.items())))


def to_csv(runs: Sequence[RunRecord]) -> str:
    """Return the flat table as CSV; an undefined number is an empty field, the date is ISO 8601."""
    rows = flat_rows(runs)
    return csv_text([{**row, "date": row["date"].isoformat(timespec="seconds")} for row in rows]) + "\n"


def to_latex(runs: Sequence[RunRecord]) -> str:
    """Return a booktabs table as ``bench run --format latex`` prints it: names escaped, values as in papers."""
    return render([_task_run(run) for run in runs], "latex") + "\n"


def write_table(runs: Sequence[RunRecord], fmt: str, path: Path) -> None:
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

            pyarrow.parquet.write_table(to_arrow(runs), path, compression="zstd")
        else:
            path.write_text((to_csv if fmt == "csv" else to_latex)(runs), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"-o {path}: cannot be written: {error.strerror or error}") from error


def _entries(run: RunRecord) -> Iterator[dict[str, Any]]:
    record = run.record
    values = record["results"][run.task]
    for key, about in record["intervals"].items():
        stderr = values.get(f"{key}_stderr,none")
        published = record["published"].get(key)
        yield {
            "task": run.task,
            "version": str(record["versions"][run.task]),
            "model": record["model_name"],
            "metric": about["metric"],
            "statistic": about["statistic"],
            "category": _category(key, about) or None,
            "value": _number(values[f"{key},none"]),
            "low": _number(about["low"]),
            "high": _number(about["high"]),
            "stderr": None if stderr == "N/A" else _number(stderr),
            "published": _number(published["value"]) if published else None,
            "n": int(about["n"]),
            "fingerprint": record["fingerprint"],
            "date": run.date,
        }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _category(key: str, about: Mapping[str, Any]) -> str:
    """Return the category in a result's key, ``metric.statistic.category``; empty where there is none."""
    whole = f"{about['metric']}.{about['statistic']}"
    return key.removeprefix(f"{whole}.") if key.startswith(f"{whole}.") else ""


def _task_run(run: RunRecord) -> TaskRun:
    """Return the run as the tables take it."""
    import pyarrow

    record = run.record
    results = recorded_results(record)
    published = {
        key: Published(
            paper=one["paper"],
            title="",
            citation="",
            table=one["table"],
            task=run.task,
            metric=results[key].metric,
            statistic=results[key].statistic,
            model=None,
            value=one["value"] * one["scale"],
            printed=one["printed"],
            scale=one["scale"],
        )
        for key, one in record["published"].items()
        if key in results
    }
    return TaskRun(dict(record), list(results.values()), published, pyarrow.table({}), run.folder)
