"""The leaderboard's first page: every table, and what is needed to read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...tables.pages.charts import bubbles
from ..board import TOP_ROWS, Board, BoardRun, TaskTable
from .names import address, date, model_of, task_id
from .overview import FIRST_ROWS, OVERVIEW_PAGE, overviews
from .ranks import shown_ranks
from .rendering import rendered
from .suites import shown_suite
from .task_tables import legend, shown_table

_MAX_CHART_RUNS = 8
"""Runs whose scores are drawn against ratings here; the pages of the others have theirs."""
_MAX_CHARTS_OF_RUN = 6
_MOST_AT_ONCE = 8
"""Tables up to which all are laid out at once."""


def index_page(board: Board, pages: Mapping[str, str], task_pages: Mapping[str, str]) -> bytes:
    """Return ``index.html``.

    Args:
        board: What to show.
        pages: Path of each run's page, by the key of the run.
        task_pages: Path of the page with all rows of a table, by its anchor, where the first page shows the top alone.
    """
    return rendered(
        "index.html",
        up="",
        counts=[
            (len({table.task for table in board.tables}), "task"),
            (len(board.runs), "run"),
            (len(board.suites), "published table"),
        ],
        overviews=overviews(board, pages),
        most_of_overview=FIRST_ROWS if task_pages else 0,
        overview_page=OVERVIEW_PAGE,
        legend=legend(),
        contents=_contents(board.tables),
        filters=tasks_of(board.tables),
        lazy=len(board.tables) > _MOST_AT_ONCE,
        tables=[_shown(table, pages, task_pages) for table in board.tables],
        suites=[shown_suite(table, lambda key: address(pages.get(key, ""))) for table in board.suites],
        ranks=[shown_ranks(table) for table in board.ranks],
        drawn=_drawn(board.runs, pages),
        runs=[] if task_pages else shown_runs(board.runs, pages),
        runs_elsewhere=len(board.runs) if task_pages else 0,
        left_out=board.left_out,
    )


def overview_page(found: Sequence[Mapping[str, Any]]) -> bytes:
    """Return ``overview.html``: the whole of the matrices of which the first page shows the first rows.

    Args:
        found: What templates show of them.
    """
    return rendered("overview_page.html", up="./", overviews=found)


def _shown(table: TaskTable, pages: Mapping[str, str], task_pages: Mapping[str, str]) -> dict[str, Any]:
    if table.anchor not in task_pages:
        return shown_table(table, pages)
    top = table if len(table.rows) <= TOP_ROWS else table.top()
    return shown_table(top, pages, task_pages[table.anchor], len(table.rows))


def _contents(tables: Sequence[TaskTable]) -> list[tuple[str, str]]:
    aliases = [table.alias for table in tables]
    return [
        (task_id(table), table.alias if aliases.count(table.alias) == 1 else f"{table.alias} ({table.version})")
        for table in tables
    ]


def tasks_of(tables: Iterable[TaskTable]) -> list[tuple[str, str]]:
    """Return the tasks by which rows can be filtered, each with what it is called."""
    return list({table.task: table.alias for table in tables}.items())


def chart_runs(runs: Sequence[BoardRun]) -> list[BoardRun]:
    """Return the runs whose scores are drawn against ratings: unmarked ones first, a task as often as another."""
    seen: dict[str, int] = {}
    order: list[tuple[bool, int, int]] = []
    for place, run in enumerate(runs):
        if any(one.ratings for one in run.record.histograms.values()):
            task = run.record.task
            seen[task] = seen.get(task, 0) + 1
            order.append((bool(run.marks), seen[task], place))
    chosen = sorted(place for *_, place in sorted(order)[:_MAX_CHART_RUNS])
    return [runs[place] for place in chosen]


def _drawn(runs: Sequence[BoardRun], pages: Mapping[str, str]) -> list[dict[str, Any]]:
    drawn = []
    for place, run in enumerate(chart_runs(runs)):
        found = {name: one for name, one in run.record.histograms.items() if one.ratings}
        drawn.append(
            {
                "alias": run.record.alias,
                "to": address(pages[run.key]),
                "run": _short_key(run),
                "more": max(len(found) - _MAX_CHARTS_OF_RUN, 0),
                "marks": run.marks,
                "charts": [
                    bubbles(run.record.metric_label(metric), one, f"scatter-{place}-{number}")
                    for number, (metric, one) in enumerate(list(found.items())[:_MAX_CHARTS_OF_RUN])
                ],
            }
        )
    return drawn


def shown_runs(runs: Sequence[BoardRun], pages: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what a table of runs shows.

    Args:
        runs: The runs.
        pages: Path of each run's page, by the key of the run, as seen from the page with the table.
    """
    return [
        {
            "task": run.record.task,
            "alias": run.record.alias,
            "words": " ".join([run.record.alias, run.record.task, model_of(run), *_labels(run), *run.marks]),
            "to": address(pages[run.key]),
            "name": _short_key(run),
            "marks": run.marks,
            "model": model_of(run),
            "date": date(run),
            "n": run.record.documents.effective,
        }
        for run in runs
    ]


def _labels(run: BoardRun) -> Iterable[str]:
    return dict.fromkeys(one.label[0] for one in run.record.results.values())


def _short_key(run: BoardRun) -> str:
    return run.key.rsplit("/", 1)[-1]


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
