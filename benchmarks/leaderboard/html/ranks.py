"""Rank stability: the rank of each metric or model by task, and how alike tasks rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tables.pages.charts import rank_lines
from ...tables.pages.rendering import number
from ..board import RankTable

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
    ordered = sorted(table.ranks.items(), key=lambda entry: (_mean(entry[1]), entry[0]))
    last = max((rank for ranks in table.ranks.values() for rank in ranks if rank is not None), default=1)
    tasks = [task for task, _ in table.tasks]
    return {
        "id": f"ranks-{table.subject}",
        "what": f"{table.subject}s",
        "subject": table.subject.capitalize(),
        "tasks": table.tasks,
        "rows": [
            (name, [None if rank is None else (rank, shade_of(rank, last)) for rank in ranks])
            for name, ranks in ordered
        ],
        "lines": rank_lines(table.ranks, tasks, last) if 2 <= len(table.ranks) <= MAX_LINES else None,
        "tau": [(task, [_tau(table, row, column) for column in range(len(tasks))]) for row, task in enumerate(tasks)],
    }


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
