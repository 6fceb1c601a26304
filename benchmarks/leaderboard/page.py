"""The leaderboard as static pages: one with every table, and one a run."""

from __future__ import annotations

from collections.abc import Iterator

from .board import Board, BoardRun
from .html.index import index_page, overview_page
from .html.names import run_pages, task_pages
from .html.overview import OVERVIEW_PAGE, overviews
from .html.run import run_page
from .html.task import task_page


def pages(board: Board) -> Iterator[tuple[str, bytes]]:
    """Yield the pages of a leaderboard, each made as it is asked for.

    They are read as files, from anywhere: each holds its style and script, fetches nothing, links only to the
    others and to ``README.md`` beside ``index.html``, and is the same, byte by byte, for the same board.

    Args:
        board: What to show.

    Yields:
        Path below the leaderboard's folder (``index.html``, ``runs/….html``; of a large leaderboard
        ``overview.html`` and ``tasks/….html``, too), and content.
    """
    paths = run_pages(board.runs)
    tasks = task_pages(board)
    yield "index.html", index_page(board, paths, tasks)
    if tasks:
        if matrices := overviews(board, paths, "index.html"):
            yield OVERVIEW_PAGE, overview_page(matrices)
        runs: dict[tuple[str, str], list[BoardRun]] = {}
        for run in board.runs:
            runs.setdefault((run.record.task, str(run.record.version)), []).append(run)
        for table in board.tables:
            yield tasks[table.anchor], task_page(table, runs[table.task, table.version], paths)
    for run in board.runs:
        yield paths[run.key], run_page(run, board)
