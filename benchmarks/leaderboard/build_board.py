"""Makes a leaderboard of runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...tasks.index import TaskIndex, build_index
from .board import Board, BoardRun, LeftOut, TaskTable
from .collect import collect
from .ranks import rank_tables
from .suites_of_board import suite_tables
from .task_tables import task_table


def build_board(runs: Path, index: TaskIndex | None = None) -> Board:
    """Read the runs below a folder and make a leaderboard of them.

    Args:
        runs: The folder; an empty or missing one gives an empty leaderboard.
        index: The tasks that are installed; None for those that capbench and its plug-ins ship.
    """
    index = index or build_index()
    found, left_out = collect(runs, index)
    return board_of(found, left_out, index)


def board_of(runs: Sequence[BoardRun], left_out: Sequence[LeftOut], index: TaskIndex) -> Board:
    """Make a leaderboard of runs that were read; what it is does not depend on their order."""
    by_version: dict[tuple[str, str], list[BoardRun]] = {}
    for run in sorted(runs, key=lambda run: run.key):
        by_version.setdefault((run.record.task, str(run.record.version)), []).append(run)
    tables: list[TaskTable] = []
    used: dict[str, set[str]] = {}
    for (task, version), of_version in by_version.items():
        table, keys = task_table(of_version)
        tables.append(table)
        used[f"{task} {version}"] = keys
    # Stable: the newest version of a task stands first among those of its name.
    tables.sort(key=lambda table: _version(table.version), reverse=True)
    tables.sort(key=lambda table: (table.alias.casefold(), table.task))
    shown = {key for keys in used.values() for key in keys}
    marked = [_superseded(run, runs, shown) for run in runs]
    outdated = {run.key for run in runs if any(mark.startswith("version ") for mark in run.marks)}
    return Board(
        tuple(tables),
        suite_tables(runs, index, outdated),
        rank_tables(tables),
        tuple(sorted(marked, key=lambda run: run.key)),
        tuple(sorted(left_out, key=lambda one: (one.key, one.reason))),
    )


def _version(version: str) -> tuple[tuple[int, int | str], ...]:
    """Return a version so that 10 comes after 9, and words before numbers."""
    parts = re.findall(r"\d+|[^\d.]+", version)
    return tuple((1, int(part)) if part.isdecimal() and part.isascii() else (0, part) for part in parts)


def _superseded(run: BoardRun, runs: Sequence[BoardRun], shown: set[str]) -> BoardRun:
    """Mark a run of which no number is shown, naming the run that counts in its place."""
    if run.key in shown:
        return run
    record = run.record
    rivals = [
        other
        for other in runs
        if other.key in shown and other.record.task == record.task and other.record.version == record.version
    ]

    def likeness(other: BoardRun) -> tuple[bool, int, float, str]:
        shared = set(other.record.metrics) & set(record.metrics)
        return other.record.model_name == record.model_name, len(shared), other.record.date, other.key

    by = max(rivals, key=likeness, default=None)
    reason = f"superseded by {by.key}" if by else "has no number to show"
    return replace(run, marks=(*run.marks, reason))
