"""The leaderboard as JSON and as CSV, for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ...tables.csv_text import csv_text
from ..board import Board, BoardRun, Cell, RankTable, TaskTable
from .numbers import ranks_text

SCHEMA_VERSION = 1
JSON_FILE = "leaderboard.json"
_CSV_COLUMNS = (
    "task", "alias", "version", "kind", "name", "model", "column", "label", "value", "low", "high", "n", "rank",
    "group", "published", "printed", "citation", "table", "run", "marks", "reason",
)  # fmt: skip


def board_json(board: Board, files: Sequence[str] = ()) -> dict[str, Any]:
    """Return the whole leaderboard as JSON values, without the records behind it.

    Args:
        board: The leaderboard.
        files: The files that are made with it, relative to its folder.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "tables": [_table(table) for table in board.tables],
        "suites": [asdict(suite) for suite in board.suites],
        "ranks": [_ranks(ranks) for ranks in board.ranks],
        "runs": [_run(run) for run in board.runs],
        "left_out": [asdict(one) for one in board.left_out],
        "files": sorted(files),
    }


def json_file(board: Board, files: Sequence[str]) -> bytes:
    """Return ``leaderboard.json``."""
    return (json.dumps(board_json(board, files), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def csv_file(board: Board) -> dict[str, bytes]:
    """Return ``leaderboard.csv``: a row a number, values as they are (a tau of 0.439).

    Where captioners were tested against one another it has a column ``ranks``: those that the tests leave open.
    """
    tested = any(cell and cell.rank_range for table in board.tables for row in table.rows for cell in row.cells)
    rows = [
        {
            "task": table.task,
            "alias": table.alias,
            "version": table.version,
            "kind": row.kind,
            "name": row.name,
            "model": row.model,
            "column": column.key,
            "label": column.label,
            "value": cell.value,
            "low": cell.low,
            "high": cell.high,
            "n": cell.n if row.kind == "measured" else None,
            "rank": cell.rank,
            "group": cell.group,
            **({"ranks": ranks_text(cell)} if tested else {}),
            "published": cell.published.value if cell.published else None,
            "printed": cell.published.printed if cell.published else None,
            "citation": cell.published.citation if cell.published else None,
            "table": cell.published.table if cell.published else None,
            "run": row.run,
            "marks": "; ".join(row.marks),
            "reason": cell.reason,
        }
        for table in board.tables
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell is not None
    ]
    text = csv_text(rows) if rows else ",".join(_CSV_COLUMNS)
    return {"leaderboard.csv": (text + "\n").encode()}


def _table(table: TaskTable) -> dict[str, Any]:
    rows = [{**vars(row), "cells": [cell and _cell(cell) for cell in row.cells]} for row in table.rows]
    return {**vars(table), "columns": list(map(vars, table.columns)), "rows": rows, "anchor": table.anchor}


def _cell(cell: Cell) -> dict[str, Any]:
    values = {**vars(cell), "published": cell.published and vars(cell.published)}
    if cell.rank_range is None:
        del values["rank_range"]
    return values


def _ranks(ranks: RankTable) -> dict[str, Any]:
    return {
        "subject": ranks.subject,
        "tasks": [list(task) for task in ranks.tasks],
        "ranks": {name: list(of_task) for name, of_task in ranks.ranks.items()},
        "tau": [{"first": one, "second": other, "tau": tau} for (one, other), tau in ranks.tau.items()],
    }


def _run(run: BoardRun) -> dict[str, Any]:
    record = run.record
    return {
        "key": run.key,
        "task": record.task,
        "model": record.model_name,
        "fingerprint": record.fingerprint,
        "date": record.date,
        "marks": list(run.marks),
    }
