"""Collects the runs for a leaderboard, and the reasons for excluding others."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import BenchError, DataError
from ...tasks.index import TaskIndex
from ...tasks.schema import load_task
from ..inputs.items import printable
from ..records.files import RECORD_FILE, require_files
from ..records.reading import read_record, runs_below
from ..records.record import Record
from .board import BoardRun, OmittedRun

_SAME = 1e-6
"""Relative tolerance for equal numbers: floating-point sums differ between machines."""


def collect(folder: Path, index: TaskIndex) -> tuple[list[BoardRun], list[OmittedRun]]:
    """Read the runs in a folder.

    Links to folders, and links to files outside of the folder, are not followed.

    Args:
        folder: The folder of the runs; it may be missing or empty.
        index: The installed tasks, whose versions are compared with those of the runs.

    Returns:
        The runs and the excluded runs, both sorted by key.
    """
    by_identity: dict[str, list[BoardRun]] = {}
    left_out: list[OmittedRun] = []

    def pass_over(place: Path, reason: str) -> None:
        left_out.append(OmittedRun(_key(place, folder), reason))

    for place in runs_below(folder, pass_over):
        path = place / RECORD_FILE
        try:
            if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
                raise DataError("links to a file outside of the folder of runs")
            run = BoardRun(_key(place, folder), place, read_record(path))
            require_files(place, run.record)
            by_identity.setdefault(run.record.identity, []).append(run)
        except DataError as error:
            reason = error.in_one_line.removeprefix(f"{path}: ").removeprefix(f"{place}/")
            pass_over(place, reason)
    runs = [_one_of_copies(runs, left_out) for runs in by_identity.values()]
    versions = installed_versions(index, {run.record.task for run in runs})
    marked = [replace(run, marks=(*marks_of(run.record, versions), *run.marks)) for run in runs]
    return sorted(marked, key=lambda run: run.key), sorted(left_out, key=lambda run: run.key)


def _key(path: Path, root: Path) -> str:
    # A line break in a folder's name would break tables.
    return " ".join(printable(path.relative_to(root).as_posix()).split())


def _one_of_copies(runs: Sequence[BoardRun], left_out: list[OmittedRun]) -> BoardRun:
    """Return one of the runs with the same fingerprint: the one with the most values, then the earliest."""
    first, *others = sorted(runs, key=lambda run: (-len(_numbers(run.record)), run.record.date, run.key))
    marks: list[str] = []
    for other in others:
        reason = f"the same run as {first.key}"
        if difference := _difference(other, first):
            reason = f"has the same fingerprint as {first.key} but different values ({difference})"
            marks.append(f"{other.key} has the same fingerprint but different values")
        left_out.append(OmittedRun(other.key, reason))
    return replace(first, marks=tuple(sorted(marks)))


def _numbers(record: Record) -> dict[str, float]:
    return {key: result.value for key, result in record.results.items() if result.value is not None}


def _difference(run: BoardRun, other: BoardRun) -> str:
    """Return the first differing result among those that both runs have; empty if none differs."""
    first, second = _numbers(run.record), _numbers(other.record)
    for key, value in first.items():
        if key in second and not math.isclose(value, second[key], rel_tol=_SAME, abs_tol=1e-12):
            return f"{key} {value:.6g} instead of {second[key]:.6g}"
    return ""


def installed_versions(index: TaskIndex, tasks: set[str]) -> dict[str, str]:
    """Return the version of each installed task; tasks with a faulty file are missing."""
    versions = {}
    for task in tasks & index.entries.keys():
        try:
            versions[task] = str(load_task(index.entries[task].path)[0].version)
        except BenchError:
            continue
    return versions


def marks_of(record: Record, versions: Mapping[str, str]) -> list[str]:
    """Return warnings for comparisons of a run with others.

    Args:
        record: The record of the run.
        versions: Installed versions by task.
    """
    marks = []
    version = str(record.version)
    if versions.get(record.task, version) != version:
        marks.append(f"version {version}; the task is at {versions[record.task]}")
    if record.settings.limit is not None:
        counts = record.documents
        marks.append(f"{counts.effective:,} of {counts.original:,} documents (--limit)")
    marks += record.notes
    if (least := least_scored(record)) is not None:
        marks.append(f"only {least:,} of {record.documents.original:,} documents scored")
    if (level := record.settings.level) != 0.95:
        marks.append(f"{100 * level:g}% intervals")
    if lost := sum(failure["count"] for failure in record.failures if failure["stage"] != "model"):
        marks.append(f"{lost:,} samples lost")
    marks += [f"{metric} failed: {reason.partition(chr(10))[0]}" for metric, reason in record.metric_errors.items()]
    return marks


def least_scored(record: Record) -> int | None:
    """Return the smallest n of a model's results if it is below the number of documents of the run; else None."""
    if not record.documents_hash or record.settings.limit is not None:
        return None
    subset = record.subset
    wanted = subset.documents if subset else record.documents.original
    scored = [result.n for result in record.results.values() if result.value is not None]
    return min(scored) if scored and min(scored) < wanted else None
