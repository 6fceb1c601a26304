"""The page of a task, where the first page of a leaderboard shows the top of its table alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..board import BoardRun, TaskTable
from .index import shown_runs, tasks_of
from .names import address, task_id
from .rendering import rendered
from .task_tables import shown_table


def task_page(table: TaskTable, runs: Sequence[BoardRun], pages: Mapping[str, str]) -> bytes:
    """Return the page of a task: its table, and its runs.

    Args:
        table: Its numbers.
        runs: The runs of this version of the task.
        pages: Path of each run's page, by the key of the run, as seen from the leaderboard's folder.
    """
    above = {run.key: f"../{pages[run.key]}" for run in runs}
    return rendered(
        "task_page.html",
        up="../",
        back=address(f"../index.html#{task_id(table)}"),
        table=shown_table(table, above),
        filters=tasks_of([table]),
        runs=shown_runs(runs, above),
    )
