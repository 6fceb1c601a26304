"""The leaderboard's first page: every table and a legend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...protocols.contract import Subject
from ...tables.pages.rendering import number
from ..board import Board, BoardRow, BoardRun, Cell, Column, TaskTable
from ..task_tables import main_column, newest_tables
from .rendering import address, rendered
from .tables import shade_of, shown_ranks, shown_table

_MOST_AT_ONCE = 8
"""Maximum number of tables for which the browser lays out all at once."""


def index_page(board: Board, pages: Mapping[str, str], task_pages: Mapping[str, str]) -> bytes:
    """Return ``index.html``.

    Args:
        board: The leaderboard.
        pages: Path of each run's page, by the key of the run.
        task_pages: Path of the page with all rows of a table, by its anchor, if the first page shows only the top rows.
    """
    aliases = Counter(table.alias for table in board.tables)
    return rendered(
        "index.html",
        up="",
        board=board,
        pages=pages,
        overviews=overviews(board, pages),
        most_of_overview=FIRST_ROWS if task_pages else 0,
        overview_page=OVERVIEW_PAGE,
        contents=[
            (table.id, table.alias if aliases[table.alias] == 1 else f"{table.alias} ({table.version})")
            for table in board.tables
        ],
        filters={table.task: table.alias for table in board.tables},
        lazy=len(board.tables) > _MOST_AT_ONCE,
        tables=[shown_table(table, pages, task_pages.get(table.anchor, "")) for table in board.tables],
        to=lambda key: address(pages.get(key, "")),
        ranks=list(map(shown_ranks, board.ranks)),
    )


def task_page(table: TaskTable, runs: Sequence[BoardRun], pages: Mapping[str, str]) -> bytes:
    """Return the page of a task: its table and its runs.

    Args:
        table: The table of the task.
        runs: The runs of this version of the task.
        pages: Path of each run's page, relative to the leaderboard's folder, by the key of the run.
    """
    above = {run.key: f"../{pages[run.key]}" for run in runs}
    return rendered(
        "task_page.html",
        up="../",
        back=address(f"../index.html#{table.id}"),
        table=shown_table(table, above),
        filters={table.task: table.alias},
        runs=runs,
        pages=above,
    )


OVERVIEW_PAGE = "overview.html"
FIRST_ROWS = 25
"""Rows of each matrix on the first page of a large leaderboard."""

_Place = tuple[TaskTable, Column]


def overviews(board: Board, pages: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return template values for the matrices of metrics and of models; each needs at least two tasks.

    Args:
        board: The leaderboard.
        pages: Path of each run's page, by the key of the run.
    """
    matrices = []
    subjects: tuple[Subject, ...] = ("metric", "model")
    for subject in subjects:
        places = list(_places(board, subject))
        if len(places) > 1:
            rows = _matrix_rows(places, pages)
            matrices.append(
                {
                    "subject": subject,
                    "places": places,
                    "rows": rows,
                    "unranked": any(cell and cell["shade"] == "unranked" for row in rows for cell in row["cells"]),
                }
            )
    return matrices


def _places(board: Board, subject: Subject) -> Iterator[_Place]:
    """Yield the newest version of each task with measured rows, and its ranking column."""
    for table in newest_tables(board.tables):
        column = main_column(subject, table.columns) if table.subject == subject else None
        if column is not None and any(row.kind == "measured" for row in table.rows):
            yield table, column


def _matrix_rows(places: Sequence[_Place], pages: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return one row per metric and model, or per model, sorted by number of ranked tasks, then by mean rank."""
    names: dict[tuple[str, str], dict[int, BoardRow]] = {}
    for at, (table, _) in enumerate(places):
        for row in table.rows:
            if row.kind == "measured":
                names.setdefault((row.name, row.model), {})[at] = row
    # The worst rank of each column.
    lasts = [max((cell.rank or 1 for _, cell in table.cells(column)), default=1) for table, column in places]
    rows = []
    for (name, model), of_tasks in names.items():
        cells: list[dict[str, str] | None] = [None] * len(places)
        standings: list[float] = []
        for at, row in of_tasks.items():
            table, column = places[at]
            cell = row.cells[table.columns.index(column)]
            if cell is not None and cell.value is not None:
                cells[at] = _matrix_cell(cell, column, lasts[at], pages.get(row.run, ""))
                standings += [cell.rank / lasts[at]] if cell.rank else []
        shown = {"name": name, "model": model, "cells": cells}
        mean = sum(standings) / len(standings) if standings else 0.0
        rows.append(((-len(standings), mean, name, model), shown))
    return [shown for _, shown in sorted(rows, key=lambda row: row[0])]


def _matrix_cell(cell: Cell, column: Column, last: int, page: str) -> dict[str, str]:
    """Return a value in a matrix: sort value, text, shade by rank, and the page of its run."""
    shade = "unranked" if cell.rank is None else f"h{shade_of(cell.rank, last)}" if last > 1 else "alone"
    shown = number(None if cell.value is None else cell.value * column.scale, column.decimals)
    return {"value": f"{cell.value:.6g}", "shown": shown, "shade": shade, "to": address(page)}
