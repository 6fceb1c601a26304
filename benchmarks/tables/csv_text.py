"""Rows as CSV, as every file and table of capbench has it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    return "\n".join(csv_lines(rows, columns) if rows or columns is not None else [""])


def csv_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> Iterator[str]:
    """Yield the lines of :func:`csv_text`, without their breaks; none where there is neither a row nor a head."""
    head = columns
    if head is not None:
        yield _line(head)
    for row in rows:
        if head is None:
            head = list(row)
            yield _line(head)
        yield _line([row.get(column) for column in head])


def _line(values: Sequence[Any]) -> str:
    buffer = io.StringIO(newline="")
    # Of the characters that break a line, the module quotes only those that end its own.
    csv.writer(buffer, lineterminator="\r\n").writerow([_cell(value) for value in values])
    return buffer.getvalue().removesuffix("\r\n")


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
