"""Matrices of metrics and of models: a column for each task and metric, their ranks and the mean of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from string import ascii_lowercase
from typing import Any

from ....adapters.aliases import ModelSpec, list_aliases
from ...protocols.contract import Subject
from ...statistics.multiple_comparisons import letters_in
from ...tables.pages.rendering import number
from ..board import Board, BoardRow, Cell, Column, TaskTable
from ..task_tables import main_column, newest_tables, whole_columns
from .rendering import address

_MISSING = 10_000
"""Added to the sort value of a mean rank for each chosen column without a rank."""
_SHADED = 4
"""Places with a shade; it must differ from the page behind it."""
_FACTS = ("size", "licence", "date")
_Place = tuple[TaskTable, Column]


def overviews(board: Board, pages: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return template values for the matrices of metrics and of models; each needs at least two tasks.

    Args:
        board: The leaderboard.
        pages: Path of each run's page, by the key of the run.
    """
    models = {run.key: run.record.model_name or "" for run in board.runs}
    subjects: tuple[Subject, ...] = ("metric", "model")
    return list(filter(None, (_matrix(board, subject, pages, models) for subject in subjects)))


def _matrix(
    board: Board, subject: Subject, pages: Mapping[str, str], models: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the values of a matrix. Chosen at first are the metrics by which the table of a task is sorted."""
    places = list(_places(board, subject))
    tasks = {table.task: table.alias for table, _ in places}
    if len(tasks) < 2:
        return None
    mains = {table.task: main_column(subject, table.columns) for table, _ in places}
    metrics = {column.label: False for _, column in places}
    metrics |= {column.label: True for table, column in places if column is mains[table.task]}
    chosen = [metrics[column.label] for _, column in places]
    rows = list(_rows(places, chosen, pages, models))
    facts = [name for name in _FACTS if any(row["facts"][name] for row in rows)]
    return {
        "subject": subject,
        "by": "statistic" if subject == "metric" else "metric",
        "places": [(table, column, shown) for (table, column), shown in zip(places, chosen, strict=True)],
        "tasks": tasks,
        "metrics": metrics,
        "facts": facts,
        "rows": rows,
        "unranked": any(cell and cell["shade"] == "unranked" for row in rows for cell in row["cells"]),
    }


def _places(board: Board, subject: Subject) -> Iterator[_Place]:
    """Yield the newest version of each task with measured rows, with each of its columns that ranks them."""
    for table in newest_tables(board.tables):
        if table.subject == subject and any(row.kind == "measured" for row in table.rows):
            main = main_column(subject, table.columns)
            ranking = [c for c in whole_columns(subject, table.columns) if c.higher_is_better is not None]
            # The number of a checklist is the mean over its rules.
            for column in [main] if table.by_rule or not ranking else ranking:
                if column is not None:
                    yield table, column


def _rows(
    places: Sequence[_Place], chosen: Sequence[bool], pages: Mapping[str, str], models: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return one row per metric and model, or per model: most ranks first, then by mean rank, then by name."""
    names: dict[tuple[str, str], dict[int, BoardRow]] = {}
    for at, (table, _) in enumerate(places):
        for row in table.rows:
            if row.kind == "measured":
                names.setdefault((row.name, row.model), {})[at] = row
    shades = [_shades(table, column) for table, column in places]
    aliases, unnamed = list_aliases(), ModelSpec("", "")
    rows = []
    for (name, model), of_tasks in names.items():
        cells: list[dict[str, Any] | None] = [None] * len(places)
        for at, row in of_tasks.items():
            table, column = places[at]
            cell = row.cells[table.columns.index(column)]
            if cell is not None and cell.value is not None:
                cells[at] = _shown(cell, column, shades[at].get(id(cell), "unranked"), pages.get(row.run, ""))
        spec = aliases.get(model or models.get(next(iter(of_tasks.values())).run, ""), unnamed)
        ranks = [cell["rank"] for cell, shown in zip(cells, chosen, strict=True) if shown and cell and cell["rank"]]
        missing = sum(chosen) - len(ranks)
        rows.append(
            {
                "name": name,
                "model": model,
                "facts": {fact: getattr(spec, fact) for fact in _FACTS},
                "mean": number(fmean(ranks), 1) if ranks else "",
                "of": len(ranks) if missing else 0,
                "order": _MISSING * missing + (fmean(ranks) if ranks else 0.0),
                "cells": cells,
            }
        )
    return sorted(rows, key=lambda row: (row["order"], row["name"], row["model"]))


def _shown(cell: Cell, column: Column, shade: str, page: str) -> dict[str, Any]:
    """Return a value in a matrix: sort value, text, rank, shade, and the page of its run."""
    shown = number(None if cell.value is None else cell.value * column.scale, column.decimals)
    return {"value": f"{cell.value:.6g}", "shown": shown, "rank": cell.rank, "shade": shade, "to": address(page)}


def _shades(table: TaskTable, column: Column) -> dict[int, str]:
    """Return the shade of each ranked cell of a column, by the ``id`` of the cell.

    A cell is placed after those that are significantly better: values that are not significantly different from the
    best have the strongest shade. Each of the first places has its own shade, later ones have none, and if all cells
    have the same place, no cell has one.
    """
    ranked = [cell for _, cell in table.cells(column) if cell.rank is not None]
    tested = any(cell.rank_range for cell in ranked) or (
        len(ranked) <= len(ascii_lowercase) and all(cell.group for cell in ranked)
    )
    place_of = {id(cell): _place(cell, ranked) if tested else cell.rank or 0 for cell in ranked}
    places = sorted(set(place_of.values()))
    shaded = places[:_SHADED] if len(places) > 1 else []
    return {key: f"h{shaded.index(place)}" if place in shaded else "alone" for key, place in place_of.items()}


def _place(cell: Cell, ranked: Sequence[Cell]) -> int:
    """Return 1 and the number of cells that are significantly better than a cell."""
    if cell.rank_range:
        return cell.rank_range[0]
    letters = letters_in(cell.group)
    return 1 + sum((other.rank or 0) < (cell.rank or 0) and not letters & letters_in(other.group) for other in ranked)
