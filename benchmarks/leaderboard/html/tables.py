"""The tables by task: values with their intervals drawn, beside what papers print."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...tables.pages.charts import Bar, Scale, interval_bar, rank_lines
from ...tables.pages.rendering import difference, number
from ..board import BoardRow, Cell, Column, PrintedValue, RankTable, SuiteCell, SuiteTable, TaskTable
from ..formats import ranks_text
from .rendering import address, ident, task_id

_ROOMY = 3
"""Columns up to which there is room for longer bars, with what papers print beside them."""


class ShownCell(NamedTuple):
    """What a table shows of a cell.

    Attributes:
        value: By which rows are sorted; None where the cell is empty.
        shown: The value, or what a paper prints in place of one.
        note: Number of the note that says why there is no measured value; 0 for none.
        rank: That of the value within its column.
        letters: Its significance letters.
        printed: What a paper prints beside it.
        gap: Measured less printed.
        ends: Of its interval.
        ranks: The ranks that tests leave open.
        bar: Its drawing.
    """

    value: str | None
    shown: str = ""
    note: int = 0
    rank: int | None = None
    letters: str = ""
    printed: str = ""
    gap: str = ""
    ends: tuple[str, str] | None = None
    ranks: str = ""
    bar: Bar | None = None


def range_of(table: TaskTable, column: int) -> Scale | None:
    """Return the range of a column: of its values, intervals and printed values; None if it has none."""
    found: list[float] = []
    for row in table.rows:
        if cell := row.cells[column]:
            printed = cell.published.value if cell.published else None
            found += [one for one in (cell.value, cell.low, cell.high, printed) if one is not None]
    return Scale(min(found), max(found)) if found else None


def shown_table(table: TaskTable, pages: Mapping[str, str], all_rows: str = "", total: int = 0) -> dict[str, Any]:
    """Return what templates show of a table.

    Args:
        table: Its numbers.
        pages: Path of each run's page, by the key of the run.
        all_rows: Path of the page with all rows, where the table has the first ones alone.
        total: How many these are.
    """
    ranges = [range_of(table, place) for place in range(len(table.columns))]
    papers = _papers(table.rows)
    notes: dict[str, int] = {}
    noted = " ".join(table.notes)
    printed_in = [paper for paper in papers if paper not in noted]
    return {
        "id": task_id(table),
        "task": table.task,
        "alias": table.alias,
        "version": table.version,
        "about": table.about,
        "words": " ".join([table.task, table.alias, *(column.label for column in table.columns)]),
        "caption": "; printed in ".join(
            filter(None, [f"{table.alias}, version {table.version}", "; ".join(printed_in)])
        ),
        "what": "Metric" if table.subject == "metric" else "Model",
        # A lone row has nothing to be held against: neither bars nor ranks.
        "line": len(table.rows) == 1,
        "roomy": len(table.columns) <= _ROOMY and bool(papers),
        "heads": [
            {
                "key": column.key,
                "label": column.label,
                "order": "asc" if column.lower_is_better else "desc",
                "lower": column.lower_is_better,
                "ends": [number(end * column.scale, column.decimals) for end in (bars.low, bars.high)] if bars else [],
            }
            for column, bars in zip(table.columns, ranges, strict=True)
        ],
        "rows": [_row(row, table.columns, ranges, notes, pages, len(papers) > 1) for row in table.rows],
        "reasons": list(notes),
        "notes": table.notes,
        "all_rows": address(all_rows),
        "total": total,
    }


def _papers(rows: Sequence[BoardRow]) -> list[str]:
    """Return the papers that print values of these rows, each with its tables."""
    found: dict[str, dict[str, None]] = {}
    for printed in (cell.published for row in rows for cell in row.cells if cell is not None):
        if printed is not None:
            found.setdefault(printed.citation, {})[str(printed.table)] = None
    return [f"{paper}, Table {', '.join(tables)}" for paper, tables in found.items()]


def _row(
    row: BoardRow,
    columns: Sequence[Column],
    ranges: Sequence[Scale | None],
    notes: dict[str, int],
    pages: Mapping[str, str],
    of_several_papers: bool,
) -> dict[str, Any]:
    counts = sorted({cell.n for cell in row.cells if cell is not None and cell.value is not None})
    printed = row.kind == "published"
    return {
        "name": row.name,
        "to": address(pages[row.run]) if row.run in pages else "",
        "model": row.model,
        "printed": printed,
        "papers": "; ".join(_papers([row])) if printed and of_several_papers else "",
        "marks": row.marks,
        "cells": [
            _cell(cell, column, bars, notes, printed)
            for cell, column, bars in zip(row.cells, columns, ranges, strict=True)
        ],
        "n": " / ".join(f"{count:,}" for count in counts) or "–",
        "most": counts[-1] if counts else None,
    }


def _cell(
    cell: Cell | None, column: Column, bars: Scale | None, notes: dict[str, int], printed_row: bool
) -> ShownCell | None:
    """Return what is shown of a cell; None of one without value and reason."""
    if cell is None:
        return None
    if cell.value is not None:
        return measured(cell, cell.value, column, bars)
    reason = cell.reason or ("" if printed_row or cell.published is None else "not measured")
    note = notes.setdefault(reason, len(notes) + 1) if reason else 0
    if cell.published is None:
        return ShownCell(None, note=note) if note else None
    return ShownCell(f"{cell.published.value:.6g}", cell.published.printed, note=note, bar=_bar(cell, bars))


def measured(cell: Cell, value: float, column: Column, bars: Scale | None) -> ShownCell:
    """Return what is shown of a measured value: value and letters, bar, printed value, interval.

    Args:
        cell: Its cell.
        value: The value.
        column: Its column.
        bars: What bars are drawn on; None for no bar.
    """
    scale, decimals, printed = column.scale, column.decimals, cell.published
    ends = None
    if cell.low is not None and cell.high is not None:
        ends = number(cell.low * scale, decimals), number(cell.high * scale, decimals)
    return ShownCell(
        f"{value:.6g}",
        number(value * scale, decimals),
        rank=cell.rank,
        letters=cell.group,
        printed=printed.printed if printed else "",
        gap=difference((value - printed.value) * scale, decimals) if printed else "",
        ends=ends,
        ranks=ranks_text(cell),
        bar=_bar(cell, bars),
    )


def _bar(cell: Cell, bars: Scale | None) -> Bar | None:
    if bars is None:
        return None
    interval = None if cell.low is None or cell.high is None else (cell.low, cell.high)
    return interval_bar(bars, cell.value, interval, cell.published.value if cell.published else None)


def legend() -> dict[str, Any]:
    """Return cells that show how tables are read."""
    column = Column("", "", 100.0, 2, True)
    printed = PrintedValue(0.415, "41.5", "", "")
    return {
        "first": measured(Cell(0.4189, rank=1, group="a"), 0.4189, column, None),
        "bar": _bar(Cell(0.4189, 0.4020, 0.4360, 1000, printed), Scale(0.38, 0.45)),
        "second": measured(Cell(0.4153, rank=2, group="ab"), 0.4153, column, None),
        "both": measured(Cell(0.4189, published=printed), 0.4189, column, None),
        "marks": ["50 of 400 documents"],
    }


def shown_suite(table: SuiteTable, to: Callable[[str], str]) -> dict[str, Any]:
    """Return what templates show of a published table.

    Args:
        table: The table.
        to: Gives the address of a run's page by the key of the run; empty where it has none.
    """
    notes: dict[str, int] = {}

    def shown(cell: SuiteCell | None) -> dict[str, Any] | None:
        if cell is None:
            return None
        missing = cell.reason if not cell.measured else ""
        return {
            "measured": cell.measured.replace("-", "−"),
            "printed": cell.printed,
            "difference": cell.difference.replace("-", "−"),
            "to": to(cell.run),
            "note": notes.setdefault(missing, len(notes) + 1) if missing else 0,
        }

    rows = [(label, [shown(cell) for cell in cells]) for label, cells in table.rows]
    return {
        "id": "suite-" + ident(table.suite),
        "name": table.suite,
        "about": table.about,
        "words": " ".join([table.suite, *table.heads]),
        "heads": table.heads,
        "rows": rows,
        "measured": table.measured,
        "total": table.total,
        "notes": list(notes),
        "note": table.note,
    }


SHADES = 5
"""Number of shades, the strongest for the best ranks."""
MAX_LINES = 16
"""Names up to which lines between their ranks can be told apart; more have the table alone."""


def shade_of(rank: int, last: int) -> int:
    """Return the shade of a rank, 0 for the strongest.

    Args:
        rank: From 1.
        last: The last rank that there is; no less.
    """
    return (rank - 1) * SHADES // last


def shown_ranks(table: RankTable) -> dict[str, Any]:
    """Return what templates show of a rank table: ranks by task, and tau between tasks."""
    last = max((rank for ranks in table.ranks.values() for rank in ranks if rank is not None), default=1)
    tasks = [task for task, _ in table.tasks]
    return {
        "id": f"ranks-{table.subject}",
        "what": f"{table.subject}s",
        "subject": table.subject.capitalize(),
        "tasks": table.tasks,
        "rows": [
            (name, [None if rank is None else (rank, shade_of(rank, last)) for rank in ranks])
            for name, ranks in table.ranks.items()
        ],
        "lines": rank_lines(table.ranks, tasks, last) if 2 <= len(table.ranks) <= MAX_LINES else None,
        "tau": [(task, [_tau(table, row, column) for column in range(len(tasks))]) for row, task in enumerate(tasks)],
    }


def _tau(table: RankTable, row: int, column: int) -> tuple[str, str]:
    """Return what a cell of tau shows, and its class."""
    if row == column:
        return "·", "empty"
    tau = table.tau.get((row, column), table.tau.get((column, row)))
    if tau is None:
        return "–", "empty"
    return number(tau, 2), "cold" if tau < 0 else f"h{min(int((1 - tau) * SHADES), SHADES - 1)}"
