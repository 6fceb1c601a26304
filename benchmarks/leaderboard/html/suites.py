"""Published tables, cell by cell: what the paper prints, what was measured, and the difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..board import SuiteCell, SuiteTable
from .names import ident


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
