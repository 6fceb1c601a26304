"""Rank stability: the rank of each metric or model by task, and how alike tasks rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tables.pages.rendering import number
from ..board import RankTable

SHADES = 5
"""Number of shades, the strongest for the best ranks."""
MAX_LINES = 16
"""Names up to which lines between their ranks can be told apart; more have the table alone."""
_ACROSS, _DOWN, _HEAD, _LETTER = 156, 28, 30, 7.5
"""Distances in the drawing: between tasks, between ranks, room for the tasks' names, and for a letter."""
_LETTERS = 20


def shade_of(rank: int, last: int) -> int:
    """Return the shade of a rank, 0 for the strongest.

    Args:
        rank: From 1.
        last: The last rank that there is; no less.
    """
    return (rank - 1) * SHADES // last


def shown_ranks(table: RankTable) -> dict[str, Any]:
    """Return what templates show of a rank table: ranks by task, and tau between tasks."""
    ordered = sorted(table.ranks.items(), key=lambda entry: (_mean(entry[1]), entry[0]))
    last = _last(table)
    return {
        "id": f"ranks-{table.subject}",
        "what": f"{table.subject}s",
        "subject": table.subject.capitalize(),
        "tasks": table.tasks,
        "rows": [
            (name, [None if rank is None else (rank, shade_of(rank, last)) for rank in ranks])
            for name, ranks in ordered
        ],
        "lines": _lines(table) if 2 <= len(table.ranks) <= MAX_LINES else None,
        "tau": [
            (task, [_tau(table, row, column) for column in range(len(table.tasks))])
            for row, (task, _) in enumerate(table.tasks)
        ],
    }


def _last(table: RankTable) -> int:
    return max((rank for ranks in table.ranks.values() for rank in ranks if rank is not None), default=1)


def _lines(table: RankTable) -> dict[str, Any]:
    """Return a drawing with a line a name through its ranks."""
    side = round(_LETTER * max(len(_cut(name)) for name in table.ranks)) + 32
    lines = (_line(name, ranks, side) for name, ranks in sorted(table.ranks.items()))
    return {
        "width": 2 * side + _ACROSS * (len(table.tasks) - 1),
        "height": _HEAD + _DOWN * _last(table),
        "heads": [(side + _ACROSS * place, _cut(task)) for place, (task, _) in enumerate(table.tasks)],
        "lines": [line for line in lines if line],
    }


def _line(name: str, ranks: Sequence[int | None], side: int) -> dict[str, Any] | None:
    points = [
        (side + _ACROSS * place, _HEAD + _DOWN * (rank - 1) + _DOWN // 2, rank)
        for place, rank in enumerate(ranks)
        if rank is not None
    ]
    if not points:
        return None
    path = "M" + "L".join(f"{x} {y}" for x, y, _ in points)
    return {"name": _cut(name), "path": path, "points": points}


def _cut(name: str) -> str:
    return name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"


def _mean(ranks: Sequence[int | None]) -> float:
    found = [rank for rank in ranks if rank is not None]
    return sum(found) / len(found) if found else float("inf")


def _tau(table: RankTable, row: int, column: int) -> tuple[str, str]:
    """Return what a cell of tau shows, and its class."""
    if row == column:
        return "·", "empty"
    tau = table.tau.get((row, column), table.tau.get((column, row)))
    if tau is None:
        return "–", "empty"
    return number(tau, 2), "cold" if tau < 0 else f"h{min(int((1 - tau) * SHADES), SHADES - 1)}"
