"""What pages of a leaderboard are called, and how texts and dates stand in them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from urllib.parse import quote

from ..board import Board, BoardRun, TaskTable


def ident(name: str) -> str:
    """Return a name as an ``id`` that a link can hold as it is."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)


def address(path: str) -> str:
    """Return the path of a page as a link holds it."""
    return quote(path, safe="/#.-_")


def date(run: BoardRun) -> str:
    """Return when a run began, in UTC, to the minute."""
    return f"{run.record.started:%Y-%m-%d %H:%M}"


def model_of(run: BoardRun) -> str:
    """Return the model of a run, as text."""
    return run.record.model_name or "no model"


def task_id(table: TaskTable) -> str:
    """Return the ``id`` of the table of a task."""
    return "task-" + ident(table.anchor)


def run_pages(runs: Iterable[BoardRun]) -> dict[str, str]:
    """Return, by the key of a run, the path of its page: ASCII, and unique where capitals do not count.

    A name that does not say its key in full carries a hash of it.
    """
    pages: dict[str, str] = {}
    taken: set[str] = set()
    for run in runs:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", run.key.replace("/", "--")).lstrip(".-") or "run"
        if name != run.key.replace("/", "--") or name.lower() in taken or len(name) > 150:
            name = f"{name[:150]}-{hashlib.sha256(run.key.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
        taken.add(name.lower())
        pages[run.key] = f"runs/{name}.html"
    return pages


def task_pages(board: Board) -> dict[str, str]:
    """Return, by a table's anchor, the path of its page: unique where capitals do not count; none of a small board."""
    paths: dict[str, str] = {}
    taken: set[str] = set()
    for table in board.tables if board.is_large else ():
        name = first = ident(table.anchor)
        while name.lower() in taken:
            name = f"{first}-{len(taken)}"
        taken.add(name.lower())
        paths[table.anchor] = f"tasks/{name}.html"
    return paths
