"""Finds the runs that a leaderboard is made from, and says of each other one why it is left out."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import BenchError
from ...tasks.index import TaskIndex
from ...tasks.schema import load_task
from ..items import printable
from ..records import SCHEMA_VERSION, verify
from .board import BoardRun, LeftOut
from .record_faults import first_fault

_SAME = 1e-6
"""Numbers that differ by a smaller part are the same: machines round sums otherwise."""


def collect(folder: Path, index: TaskIndex) -> tuple[list[BoardRun], list[LeftOut]]:
    """Read the runs below a folder.

    Links to folders are not followed, nor links to files that leave the folder.

    Args:
        folder: That of the runs; it may be missing or empty.
        index: The tasks that are installed, whose versions runs are held against.

    Returns:
        The runs, and what was left out, each by key.
    """
    found: list[BoardRun] = []
    left_out: list[LeftOut] = []
    for key, path in _folders(folder, left_out):
        record, reason = _read(path / "run.json", folder)
        if record is None:
            left_out.append(LeftOut(key, reason))
        else:
            found.append(BoardRun(key, path, record))
    runs = _without_copies(found, left_out)
    versions = _versions(index, {run.record["task"] for run in runs})
    marked = [replace(run, marks=(*_marks(run.record, versions), *run.marks)) for run in runs]
    return sorted(marked, key=lambda run: run.key), sorted(left_out, key=lambda one: one.key)


def is_whole(record: Mapping[str, Any]) -> bool:
    """Return whether a run saw all of its task's data, and the right data: only such runs are ranked."""
    return record["config"].get("limit") is None and all(one["passed"] for one in record["data_checks"])


def effective(record: Mapping[str, Any]) -> int:
    """Return how many documents were scored."""
    return record["n-samples"][record["task"]]["effective"]


def _folders(root: Path, left_out: list[LeftOut]) -> Iterator[tuple[str, Path]]:
    def unread(error: OSError) -> None:
        place = Path(error.filename)
        if place != root:
            left_out.append(LeftOut(_key(place, root), f"the folder cannot be read: {error.strerror}"))

    for place, folders, files in os.walk(root, onerror=unread):
        here = Path(place)
        for name in sorted(folders):
            if (here / name).is_symlink():
                reason = "is a link to another folder, and such links are not followed"
                left_out.append(LeftOut(_key(here / name, root), reason))
        if "run.json" in files:
            yield _key(here, root), here


def _key(path: Path, root: Path) -> str:
    # A line break in the name of a folder must break no table.
    return " ".join(printable(path.relative_to(root).as_posix()).split())


def _read(path: Path, root: Path) -> tuple[dict[str, Any] | None, str]:
    """Return the record, or None and why it is none."""
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        return None, "run.json is a link that leaves the folder of the runs"
    try:
        text = path.read_bytes().decode("utf-8")
        record = json.loads(text, parse_constant=_refuse)
        # A lone surrogate can be read, and then written nowhere.
        json.dumps(record, ensure_ascii=False).encode()
    except OSError as error:
        return None, f"run.json cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        return None, f"run.json is no JSON that can be used ({str(error).splitlines()[0]})"
    version = record.get("schema_version") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(version, int) or isinstance(version, bool):
        return None, "run.json is no record of capbench (it has no schema_version)"
    if version > SCHEMA_VERSION:
        return None, f"run.json has schema version {version}, this capbench knows {SCHEMA_VERSION}"
    if fault := first_fault(record):
        return None, f"{fault}, which does not fit the schema of run.json"
    if fault := verify(record):
        return None, f"was edited by hand: {fault}"
    return record, ""


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def _without_copies(found: list[BoardRun], left_out: list[LeftOut]) -> list[BoardRun]:
    """Keep one run of each fingerprint: the one with the most values, of those the earliest."""
    by_fingerprint: dict[str, list[BoardRun]] = {}
    for run in found:
        by_fingerprint.setdefault(run.record["fingerprint"], []).append(run)
    kept = []
    for runs in by_fingerprint.values():
        first, *others = sorted(
            runs, key=lambda run: (-len(_numbers(run.record)), run.record["date"], run.key)
        )
        differing = []
        for other in others:
            if difference := _difference(other, first):
                reason = f"has the fingerprint of {first.key}, and other numbers ({difference})"
                differing.append(other.key)
            else:
                reason = f"the same run as {first.key}"
            left_out.append(LeftOut(other.key, reason))
        marks = [f"{key} has the same fingerprint and other numbers" for key in sorted(differing)]
        kept.append(replace(first, marks=tuple(marks)))
    return kept


def _numbers(record: Mapping[str, Any]) -> dict[str, float]:
    values = record["results"][record["task"]]
    return {key: values[f"{key},none"] for key in record["intervals"] if values[f"{key},none"] is not None}


def _difference(one: BoardRun, other: BoardRun) -> str:
    """Return the first result that both have and that differs; what one of them lacks differs in nothing."""
    first, second = _numbers(one.record), _numbers(other.record)
    for key, value in first.items():
        if key in second and not math.isclose(value, second[key], rel_tol=_SAME, abs_tol=1e-12):
            return f"{key} {value:.6g} instead of {second[key]:.6g}"
    return ""


def _versions(index: TaskIndex, tasks: set[str]) -> dict[str, str]:
    """Return the version of each task that is installed; a faulty file has none."""
    versions = {}
    for task in tasks & index.entries.keys():
        try:
            versions[task] = str(load_task(index.entries[task].path)[0].version)
        except BenchError:
            continue
    return versions


def _marks(record: Mapping[str, Any], versions: Mapping[str, str]) -> list[str]:
    task, marks = record["task"], []
    version = str(record["versions"][task])
    if versions.get(task, version) != version:
        marks.append(f"version {version}; the task is at {versions[task]}")
    samples = record["n-samples"][task]
    if record["config"].get("limit") is not None:
        marks.append(f"{samples['effective']:,} of {samples['original']:,} documents (--limit)")
    failed = [
        f"{one['check']}: expected {one['expected']:,}, found "
        + ("nothing" if one["found"] is None else f"{one['found']:,}")
        for one in record["data_checks"]
        if not one["passed"]
    ]
    if failed:
        marks.append(f"the data failed its checks ({'; '.join(failed)})")
    if (level := record["config"].get("level", 0.95)) != 0.95:
        marks.append(f"intervals hold {level:g} of the resamples")
    if lost := sum(one["count"] for one in record["failures"]):
        marks.append(f"{lost:,} samples lost")
    marks += [
        f"{one['metric']} failed: {one['reason'].partition(chr(10))[0]}" for one in record["metric_errors"]
    ]
    return marks
