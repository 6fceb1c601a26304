"""Everything at a glance: metrics by task and models by task, each with what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from ...protocols.contract import Subject
from ...records.record import Record
from ...tables.pages.rendering import number
from ..board import Board, BoardRow, Cell, Column, TaskTable
from ..ranks import newest_tables
from ..task_tables import main_column
from .names import address, task_id
from .ranks import shade_of

OVERVIEW_PAGE = "overview.html"
FIRST_ROWS = 25
"""Rows of each matrix on the first page of a large leaderboard."""

_CORE_SECONDS = {
    "length": 4.62e-07,
    "rep_1": 2.28e-06,
    "rep_2": 2.29e-06,
    "rep_3": 2.49e-06,
    "rep_4": 2.49e-06,
    "incorrect_ending": 1.67e-07,
    "bleu_1": 4.84e-05,
    "bleu_2": 4.84e-05,
    "bleu_3": 4.84e-05,
    "bleu_4": 4.84e-05,
    "cider": 0.0001047,
    "rouge_l": 3.79e-05,
    "meteor": 0.000193,
}
"""Of a caption with five references, by a metric alone; of November 2026, by 2 cores of a Xeon."""
_RECORDED = "captions"
"""The adapter of captions that are at hand, which no model writes."""
_Place = tuple[TaskTable, Column]


class _Shown(NamedTuple):
    """A value as a matrix shows it: by what it is sorted, its text, its class, and the page behind it."""

    value: str
    shown: str
    shade: str
    to: str


class _Cost(NamedTuple):
    """A cost as a matrix shows it: by what it is sorted, its text, and whether runs took so long."""

    value: str
    shown: str
    timed: bool


def overviews(board: Board, pages: Mapping[str, str], first_page: str = "") -> list[dict[str, Any]]:
    """Return what templates show of the matrices, of metrics and of models: only those of two tasks or more.

    Args:
        board: The leaderboard.
        pages: Path of each run's page, by the key of the run.
        first_page: Path of the page with the tables; empty on that page itself.
    """
    found = []
    subjects: tuple[Subject, ...] = ("metric", "model")
    for subject in subjects:
        places = list(_places(board, subject))
        if len(places) > 1:
            rows = _rows(board, subject, places, pages)
            found.append(
                {
                    "id": f"overview-{subject}",
                    "subject": subject,
                    "tasks": [_head(place, first_page) for place in places],
                    "rows": rows,
                    "unranked": any(one and one.shade == "unranked" for row in rows for one in row["cells"]),
                    "timed": any(one and one.timed for row in rows for one in row["costs"]),
                }
            )
    return found


def _places(board: Board, subject: Subject) -> Iterator[_Place]:
    """Yield the newest version of each task that something was measured in, with the column it is ranked by."""
    for table in newest_tables(board.tables):
        column = main_column(subject, table.columns) if table.subject == subject else None
        if column is not None and any(row.kind == "measured" for row in table.rows):
            yield table, column


def _head(place: _Place, first_page: str) -> dict[str, Any]:
    table, column = place
    return {
        "alias": table.alias,
        "to": f"{first_page}#{task_id(table)}",
        "key": table.anchor,
        "by": column.label,
        "order": "asc" if column.lower_is_better else "desc",
        "lower": column.lower_is_better,
    }


def _rows(board: Board, subject: Subject, places: Sequence[_Place], pages: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row a metric and model, or a model: those ranked in most tasks first, then by their mean rank."""
    names: dict[tuple[str, str], dict[int, BoardRow]] = {}
    for at, (table, _) in enumerate(places):
        for row in table.rows:
            if row.kind == "measured":
                names.setdefault((row.name, row.model), {})[at] = row
    records = {run.key: run.record for run in board.runs}
    lasts = [_last(*place) for place in places]
    found = []
    for (name, model), of_tasks in names.items():
        cells: list[_Shown | None] = [None] * len(places)
        standings: list[float] = []
        for at, row in of_tasks.items():
            table, column = places[at]
            cell = row.cells[table.columns.index(column)]
            if cell is not None and cell.value is not None:
                cells[at] = _cell(cell, column, lasts[at], pages.get(row.run, ""))
                standings += [cell.rank / lasts[at]] if cell.rank else []
        behind = [records[row.run] for row in of_tasks.values() if row.run in records]
        costs = [_cost_of_metric(name, model, behind)] if subject == "metric" else _costs_of_model(behind)
        shown = {"name": name, "model": model, "cells": cells, "costs": costs}
        mean = sum(standings) / len(standings) if standings else 0.0
        found.append(((-len(standings), mean, name, model), shown))
    return [shown for _, shown in sorted(found, key=lambda one: one[0])]


def _last(table: TaskTable, column: Column) -> int:
    """Return the last rank of a column."""
    place = table.columns.index(column)
    return max((cell.rank for row in table.rows if (cell := row.cells[place]) and cell.rank), default=1)


def _cell(cell: Cell, column: Column, last: int, page: str) -> _Shown:
    shown = number(None if cell.value is None else cell.value * column.scale, column.decimals)
    return _Shown(f"{cell.value:.6g}", shown, _shade(cell.rank, last), address(page))


def _shade(rank: int | None, last: int) -> str:
    """Return the class of a cell: a shade by its rank, where it has one and is not alone."""
    if rank is None:
        return "unranked"
    return f"h{shade_of(rank, last)}" if last > 1 else "alone"


def _cost_of_metric(name: str, model: str, behind: Sequence[Record]) -> _Cost | None:
    """Return the seconds for a thousand captions: alone on one core where that was measured, else as runs took."""
    called = [(record, metric) for record in behind for metric in _metrics_called(name, record)]
    known = {_CORE_SECONDS.get(record.registered_name(metric)) for record, metric in called}
    if len(known) == 1 and (alone := known.pop()) is not None and not model:
        return _cost(1000 * alone, timed=False)
    return _timed(
        (record, record.timings.metrics[metric]) for record, metric in called if metric in record.timings.metrics
    )


def _metrics_called(name: str, record: Record) -> list[str]:
    """Return the metrics of a run that tables call so: by their label, or with their own name behind it."""
    labels = {metric: record.metric_label(metric) for metric in record.metrics}
    return [metric for metric, label in labels.items() if name in (label, f"{label} ({metric})")]


def _costs_of_model(behind: Sequence[Record]) -> list[_Cost | None]:
    """Return the words of a caption that a model writes, and the seconds that runs took for a thousand documents."""
    written = [
        (float(one.generation["mean_words"]), int(one.generation.get("captions", 1)))
        for one in behind
        if one.generation.get("mean_words")
    ]
    captions = sum(count for _, count in written)
    words = sum(mean * count for mean, count in written) / captions if captions else None
    asked = [one for one in behind if one.settings.adapter != _RECORDED]
    return [
        None if words is None else _Cost(f"{words:.6g}", number(words, 1), timed=False),
        _timed((one, sum(one.timings.steps.values())) for one in asked),
    ]


def _timed(runs: Iterable[tuple[Record, float]]) -> _Cost | None:
    """Return the median of the seconds for a thousand documents, of runs that took nothing from the store."""
    found = [
        1000 * seconds / record.documents.effective
        for record, seconds in runs
        if record.documents.effective and not record.store.get("found")
    ]
    return _cost(median(found), timed=True) if found else None


def _cost(seconds: float, *, timed: bool) -> _Cost:
    shown = f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:#.2g}"
    return _Cost(f"{seconds:.6g}", shown, timed)
