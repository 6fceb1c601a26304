"""Numbers of a leaderboard as tables print them."""

from __future__ import annotations

from ...tables.results import show_difference, show_number
from ..board import Cell, Column


def value_text(cell: Cell, column: Column) -> str:
    """Return the measured value; empty where there is none."""
    return "" if cell.value is None else show_number(cell.value * column.scale, column.decimals)


def interval_text(cell: Cell, column: Column) -> str:
    """Return the interval as ``low, high``; empty where there is none."""
    if cell.value is None or cell.low is None or cell.high is None:
        return ""
    low, high = (show_number(end * column.scale, column.decimals) for end in (cell.low, cell.high))
    return f"{low}, {high}"


def ranks_text(cell: Cell) -> str:
    """Return the ranks that tests leave open, as ``3–17``; empty where nothing was tested."""
    if cell.rank_range is None:
        return ""
    best, worst = cell.rank_range
    return str(best) if best == worst else f"{best}–{worst}"


def difference_text(cell: Cell, column: Column) -> str:
    """Return measured minus published, with its sign; empty where one is missing."""
    if cell.value is None or cell.published is None:
        return ""
    return show_difference((cell.value - cell.published.value) * column.scale, column.decimals)
