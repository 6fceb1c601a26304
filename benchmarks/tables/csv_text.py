"""Rows as CSV, as every file and table of capbench has it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

_FORMULA = re.compile(r"(?![+-][\d.]+\Z)[=+\-@\t\r\n]")
"""How a text begins that a spreadsheet computes with; one that is a number is none."""


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Return rows as CSV with a head, without a line break at the end.

    A text that a spreadsheet would take for a formula (a model called ``=1+1``) has an apostrophe before it, which
    makes it text there; numbers stay numbers.

    Args:
        rows: Column to value; what is None or missing is an empty field.
        columns: Their order; that of the first row unless given.
    """
    head = list(columns if columns is not None else rows[0] if rows else [])
    return "\n".join([_line(head), *(_line([row.get(column) for column in head]) for row in rows)])


def _line(values: Sequence[Any]) -> str:
    buffer = io.StringIO(newline="")
    # Of the characters that break a line, the module quotes only those that end its own.
    csv.writer(buffer, lineterminator="\r\n").writerow([_cell(value) for value in values])
    return buffer.getvalue().removesuffix("\r\n")


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
