"""The leaderboard as static pages: one with every table, and one a run."""

from __future__ import annotations

from .board import Board
from .html.index import index_page
from .html.markup import run_pages
from .html.run import run_page


def pages(board: Board) -> dict[str, bytes]:
    """Return the pages of a leaderboard.

    They are read as files, from anywhere: each holds its style and script, fetches nothing, links only to the
    others and to ``README.md`` beside ``index.html``, and is the same, byte by byte, for the same board.

    Args:
        board: What to show.

    Returns:
        Path below the leaderboard's folder (``index.html``, ``runs/….html``) to content.
    """
    paths = run_pages(board.runs)
    return {
        "index.html": index_page(board, paths),
        **{paths[run.key]: run_page(run, board) for run in board.runs},
    }
