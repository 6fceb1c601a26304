"""The tables by task: values with drawn intervals and published values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...tables.pages.charts import Scale, interval_bar
from ...tables.pages.rendering import number
from ..board import BoardRow, Cell, RankTable, TaskTable
from .rendering import address

_ROOMY = 3
"""Maximum number of columns for long bars with published values next to them."""


ShownCell = tuple[Cell, int, dict[str, Any] | None]
"""A cell, the number of the note on its missing value (0 for none), and its drawing."""


def range_of(table: TaskTable, column: int) -> Scale | None:
    """Return the range of a column over values, intervals and published values; None if it is empty."""
    values: list[float] = []
    for row in table.rows:
        if cell := row.cells[column]:
            printed = cell.published.value if cell.published else None
            values += [value for value in (cell.value, cell.low, cell.high, printed) if value is not None]
    return Scale(min(values), max(values)) if values else None


def shown_table(table: TaskTable, pages: Mapping[str, str], all_rows: str = "") -> dict[str, Any]:
    """Return template values for a table.

    Args:
        table: The table.
        pages: Path of each run's page, by the key of the run.
        all_rows: Path of the page with all rows, if only the first ones are shown.
    """
    total = len(table.rows)
    table = table.top() if all_rows else table
    ranges = [range_of(table, place) for place in range(len(table.columns))]
    papers = _papers(table.rows)
    notes: dict[str, int] = {}
    noted = " ".join(table.notes)
    printed_in = [paper for paper in papers if paper not in noted]
    return {
        **vars(table),
        "id": table.id,
        "words": " ".join([table.task, table.alias, *(column.label for column in table.columns)]),
        "caption": "; printed in ".join(
            filter(None, [f"{table.alias}, version {table.version}", "; ".join(printed_in)])
        ),
        "roomy": len(table.columns) <= _ROOMY and bool(papers),
        "ends": [
            [number(end * column.scale, column.decimals) for end in (bars.low, bars.high)] if bars else []
            for column, bars in zip(table.columns, ranges, strict=True)
        ],
        "rows": [_row(row, ranges, notes, pages, len(papers) > 1) for row in table.rows],
        "reasons": list(notes),
        "all_rows": address(all_rows),
        "total": total,
    }


def _papers(rows: Sequence[BoardRow]) -> list[str]:
    """Return the papers with published values of these rows, each with its tables."""
    by_paper: dict[str, dict[str, None]] = {}
    for printed in (cell.published for row in rows for cell in row.cells if cell is not None):
        if printed is not None:
            by_paper.setdefault(printed.citation, {})[str(printed.table)] = None
    return [f"{paper}, Table {', '.join(tables)}" for paper, tables in by_paper.items()]


def _row(
    row: BoardRow, ranges: Sequence[Scale | None], notes: dict[str, int], pages: Mapping[str, str], several_papers: bool
) -> dict[str, Any]:
    counts = sorted({cell.n for cell in row.cells if cell is not None and cell.value is not None})
    printed = row.kind == "published"
    return {
        **vars(row),
        "to": address(pages[row.run]) if row.run in pages else "",
        "papers": "; ".join(_papers([row])) if printed and several_papers else "",
        "cells": [_cell(cell, bars, notes, printed) for cell, bars in zip(row.cells, ranges, strict=True)],
        "n": " / ".join(f"{count:,}" for count in counts) or "–",
        "most": counts[-1] if counts else None,
    }


def _cell(cell: Cell | None, bars: Scale | None, notes: dict[str, int], printed_row: bool) -> ShownCell | None:
    """Return a cell for the template; None if it has neither value nor reason."""
    if cell is None:
        return None
    printed, reason = cell.published.value if cell.published else None, ""
    if cell.value is None:
        reason = cell.reason or ("not measured" if cell.published and not printed_row else "")
        if not (cell.published or reason):
            return None
    drawn = interval_bar(bars, cell.value, cell.interval, printed) if bars else None
    return cell, notes.setdefault(reason, len(notes) + 1) if reason else 0, drawn


SHADES = 5
"""Number of shades; the strongest is for the best ranks."""


def shade_of(rank: int, last: int) -> int:
    """Return the shade of a rank, 0 for the strongest.

    Args:
        rank: From 1.
        last: The worst rank, at least ``rank``.
    """
    return (rank - 1) * SHADES // last


def shown_ranks(table: RankTable) -> dict[str, Any]:
    """Return template values for a rank table: ranks by task, and tau between tasks."""
    last = max((rank for ranks in table.ranks.values() for rank in ranks if rank is not None), default=1)
    tasks = [task for task, _ in table.tasks]
    return {
        "subject": table.subject,
        "tasks": table.tasks,
        "rows": [
            (name, [None if rank is None else (rank, shade_of(rank, last)) for rank in ranks])
            for name, ranks in table.ranks.items()
        ],
        "tau": [(task, [_tau(table, row, column) for column in range(len(tasks))]) for row, task in enumerate(tasks)],
    }


def _tau(table: RankTable, row: int, column: int) -> tuple[str, str]:
    """Return text and CSS class of a cell with tau."""
    if row == column:
        return "·", "empty"
    tau = table.tau.get((row, column), table.tau.get((column, row)))
    if tau is None:
        return "–", "empty"
    return number(tau, 2), "cold" if tau < 0 else f"h{min(int((1 - tau) * SHADES), SHADES - 1)}"
