"""The leaderboard's first page: every table and a legend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..board import Board, BoardRun, TaskTable
from .overview import overviews
from .rendering import address, rendered
from .tables import shown_ranks, shown_table

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
        most_of_overview=FIRST_ROWS,
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


def overview_page(board: Board, pages: Mapping[str, str]) -> bytes:
    """Return ``overview.html``, where tasks and metrics are chosen; empty if no matrix has two tasks.

    Args:
        board: The leaderboard.
        pages: Path of each run's page, by the key of the run.
    """
    matrices = overviews(board, pages)
    return rendered("overview_page.html", up="./", overviews=matrices) if matrices else b""


OVERVIEW_PAGE = "overview.html"
FIRST_ROWS = 25
"""Rows of each matrix on the first page."""
