"""Finds the runs that a leaderboard is made from, and says of each other one why it is left out."""

from __future__ import annotations

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
"""Numbers that differ by a smaller part are the same: machines round sums otherwise."""


def collect(folder: Path, index: TaskIndex) -> tuple[list[BoardRun], list[OmittedRun]]:
    """Read the runs below a folder.

    Links to folders are not followed, nor links to files that leave the folder.

    Args:
        folder: That of the runs; it may be missing or empty.
        index: The tasks that are installed, whose versions runs are held against.

    Returns:
        The runs, and what was left out, each by key.
    """
    by_identity: dict[str, list[BoardRun]] = {}
    left_out: list[OmittedRun] = []

    def pass_over(place: Path, reason: str) -> None:
        left_out.append(OmittedRun(_key(place, folder), reason))

    for place in runs_below(folder, pass_over):
        path = place / RECORD_FILE
        try:
            run = BoardRun(_key(place, folder), place, _read(path, folder))
            by_identity.setdefault(run.record.identity, []).append(run)
        except DataError as error:
            reason = error.in_one_line.removeprefix(f"{path}: ").removeprefix(f"{place}/")
            pass_over(place, reason)
    runs = [_one_of_copies(runs, left_out) for runs in by_identity.values()]
    versions = installed_versions(index, {run.record.task for run in runs})
    marked = [replace(run, marks=(*_marks(run.record, versions), *run.marks)) for run in runs]
    return sorted(marked, key=lambda run: run.key), sorted(left_out, key=lambda one: one.key)


def _key(path: Path, root: Path) -> str:
    # A line break in the name of a folder must break no table.
    return " ".join(printable(path.relative_to(root).as_posix()).split())


def _read(path: Path, root: Path) -> Record:
    """Return the record of a run.

    Raises:
        DataError: It is none that the leaderboard may show.
    """
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        raise DataError(f"{path}: is a link that leaves the folder of the runs")
    record = read_record(path)
    require_files(path.parent, record)
    return record


def _one_of_copies(runs: Sequence[BoardRun], left_out: list[OmittedRun]) -> BoardRun:
    """Keep one of the runs of a fingerprint: the one with the most values, of those the earliest."""
    first, *others = sorted(runs, key=lambda run: (-len(_numbers(run.record)), run.record.date, run.key))
    differing = []
    for other in others:
        if difference := _difference(other, first):
            reason = f"has the fingerprint of {first.key}, and other numbers ({difference})"
            differing.append(other.key)
        else:
            reason = f"the same run as {first.key}"
        left_out.append(OmittedRun(other.key, reason))
    marks = [f"{key} has the same fingerprint and other numbers" for key in sorted(differing)]
    return replace(first, marks=tuple(marks))


def _numbers(record: Record) -> dict[str, float]:
    return {key: one.value for key, one in record.results.items() if one.value is not None}


def _difference(one: BoardRun, other: BoardRun) -> str:
    """Return the first result that both have and that differs; what one of them lacks differs in nothing."""
    first, second = _numbers(one.record), _numbers(other.record)
    for key, value in first.items():
        if key in second and not math.isclose(value, second[key], rel_tol=_SAME, abs_tol=1e-12):
            return f"{key} {value:.6g} instead of {second[key]:.6g}"
    return ""


def installed_versions(index: TaskIndex, tasks: set[str]) -> dict[str, str]:
    """Return the version of each task that is installed; a faulty file has none."""
    versions = {}
    for task in tasks & index.entries.keys():
        try:
            versions[task] = str(load_task(index.entries[task].path)[0].version)
        except BenchError:
            continue
    return versions


def _marks(record: Record, versions: Mapping[str, str]) -> list[str]:
    marks = []
    version = str(record.version)
    if versions.get(record.task, version) != version:
        marks.append(f"version {version}; the task is at {versions[record.task]}")
    if record.settings.limit is not None:
        counts = record.documents
        marks.append(f"{counts.effective:,} of {counts.original:,} documents (--limit)")
    marks += record.notes
    if (least := _least_scored(record)) is not None:
        marks.append(f"n is short of the task's documents: {least:,} of {record.documents.original:,}")
    if (level := record.settings.level) != 0.95:
        marks.append(f"intervals hold {level:g} of the resamples")
    if lost := sum(one["count"] for one in record.failures if one["stage"] != "model"):
        marks.append(f"{lost:,} samples lost")
    marks += [f"{metric} failed: {reason.partition(chr(10))[0]}" for metric, reason in record.metric_errors.items()]
    return marks


def _least_scored(record: Record) -> int | None:
    """Return the fewest documents behind a number of a model, where they are not all that the run was to be of."""
    if not record.documents_hash or record.settings.limit is not None:
        return None
    subset = record.subset
    wanted = subset.documents if subset else record.documents.original
    scored = [one.n for one in record.results.values() if one.value is not None]
    return min(scored) if scored and min(scored) < wanted else None
