"""The page of a task, where the first page of a leaderboard shows the top of its table alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..board import Board, BoardRun, TaskTable
from .index import controls, run_list
from .markup import document, ident, link, text
from .task_tables import task_section


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


def task_page(table: TaskTable, runs: Sequence[BoardRun], pages: Mapping[str, str]) -> bytes:
    """Return the page of a task: its table, and its runs.

    Args:
        table: Its numbers.
        runs: The runs of this version of the task.
        pages: Path of each run's page, by the key of the run, as seen from the leaderboard's folder.
    """
    above = {run.key: f"../{pages[run.key]}" for run in runs}
    back = link(f"../index.html#task-{ident(table.anchor)}", "Back to the leaderboard")
    body = (
        '<a class="skip" href="#main">Skip to the table</a>\n'
        '<header class="top"><div class="bar"><a class="brand" href="../index.html">capbench</a>'
        '<button type="button" class="button theme" id="theme">Theme</button></div>'
        f'<p class="small">{back}</p><h1>{text(table.alias)}</h1></header>\n'
        '<div class="frame"><nav class="contents" aria-label="Contents"><ul>'
        f'<li><a href="#task-{ident(table.anchor)}">Table</a></li><li><a href="#runs">Runs</a></li></ul></nav>'
        f'<main id="main" tabindex="-1">\n{controls([table])}{task_section(table, above)}'
        f'<section id="runs" aria-labelledby="runs-h"><h2 id="runs-h">Runs</h2>{run_list(runs, above)}</section>\n'
        f'</main></div>\n<footer class="foot">{back}</footer>'
    )
    return document(f"{table.alias}: capbench leaderboard", body, scripts=["tables.js"])
