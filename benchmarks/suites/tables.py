"""Renders a suite that was run: ours beside the published values, and why a cell is empty."""

from __future__ import annotations

import json
from typing import Any

from ..tables.results import tabulated
from ..tables.text import csv_text, show_number
from .run import SuiteRun, TableCell

_RECORDED = "rec"


def suite_rows(run: SuiteRun) -> list[dict[str, Any]]:
    """Return a flat dict a cell, values unscaled."""
    return [
        {
            "suite": run.suite.suite,
            "row": cell.label,
            "column": cell.head,
            "value": cell.result.value if cell.result else None,
            "low": cell.result.interval.low if cell.result and cell.result.interval else None,
            "high": cell.result.interval.high if cell.result and cell.result.interval else None,
            "published": cell.published.value / cell.published.scale if cell.published else None,
            "recorded": cell.is_recorded,
            "reason": "" if cell.result else cell.reason,
        }
        for cell in run.cells
    ]


def render_suite(run: SuiteRun, fmt: str = "github") -> str:
    """Return a suite as a table: ``github`` or ``latex`` as papers print it, ``csv`` or ``json`` a row a cell.

    A cell is ``ours (published)``; a number in brackets leads to why ours is missing, and a mark says that it is of
    recorded scores.
    """
    if fmt == "json":
        return json.dumps(suite_rows(run), indent=2, ensure_ascii=False, allow_nan=False)
    if fmt == "csv":
        return csv_text(suite_rows(run))
    reasons: dict[str, int] = {}
    table: dict[str, dict[str, str]] = {}
    heads = list(dict.fromkeys(cell.head for cell in run.cells))
    for cell in run.cells:
        # Two rows of one label fill each other's gaps: another metric for the videos of a table, say.
        table.setdefault(cell.label, {})[cell.head] = _text(cell, reasons)
    rows = [{"": label, **{head: cells.get(head, "") for head in heads}} for label, cells in table.items()]
    notes = [f"[{number}] {reason}" for reason, number in reasons.items()]
    if any(cell.is_recorded for cell in run.cells):
        notes.insert(0, f"[{_RECORDED}] of scores from a file of --recorded, which nothing here computed")
    return "\n".join(
        [tabulated(rows, fmt), "", "ours (published)", *notes, *([run.suite.note] if run.suite.note else [])]
    )


def _text(cell: TableCell, reasons: dict[str, int]) -> str:
    scale = cell.published.scale if cell.published else cell.result.scale if cell.result else 1.0
    printed = f" ({cell.published.printed})" if cell.published else ""
    if cell.result is None or cell.result.value is None:
        mark = f" [{reasons.setdefault(cell.reason, len(reasons) + 1)}]" if cell.reason else ""
        return f"-{printed}{mark}"
    decimals = max(2, cell.published.decimals if cell.published else 0)
    mark = f" [{_RECORDED}]" if cell.is_recorded else ""
    return f"{show_number(cell.result.value * scale, decimals)}{printed}{mark}"
