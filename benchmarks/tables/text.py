"""Numbers and texts of tables, files and pages: plain, CSV, HTML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..statistics.contract import Interval

_GREEK = "alpha beta gamma delta epsilon eta theta kappa lambda mu pi rho sigma tau phi chi omega Delta Sigma Omega"
LATEX_SYMBOLS = str.maketrans(
    {
        "–": "--", "—": "---", "…": r"\ldots{}", "×": r"$\times$", "±": r"$\pm$", "−": r"$-$",
        "²": r"\textsuperscript{2}", "³": r"\textsuperscript{3}", "∞": r"$\infty$", "≤": r"$\leq$", "≥": r"$\geq$",
        "→": r"$\rightarrow$",
    }
    | {letter: rf"$\{name}$" for letter, name in zip("αβγδεηθκλμπρστφχωΔΣΩ", _GREEK.split(), strict=True)}
)  # fmt: skip
"""Characters that LaTeX cannot print as they are, for ``str.translate``."""
_FORMULA = re.compile(r"(?![+-][\d.]+\Z)[=+\-@\t\r\n]")
"""Beginning of a text that a spreadsheet takes for a formula; numbers are none."""


def decimals_for(scale: float, values: Iterable[float | None]) -> int:
    """Return the number of decimals of scaled numbers in tables."""
    return 2 if scale > 1 or any(abs(value or 0) > 10 for value in values) else 4


def show_number(value: float, decimals: int) -> str:
    """Return a number as tables print it."""
    # CIDEr's 1-R² reaches 10^7, where decimals do not matter.
    return f"{value:.3e}" if abs(value) >= 1e6 else f"{no_minus_zero(value, decimals):,.{decimals}f}"


def show_difference(value: float, decimals: int) -> str:
    """Return a difference as tables print it, with its sign."""
    return f"{no_minus_zero(value, decimals):+.{decimals}f}"


def show_interval(interval: Interval | None, scale: float, decimals: int, empty: str = "") -> str:
    """Return the ends of an interval as tables print them, ``[low, high]``; ``empty`` where it has none."""
    ends = interval and interval.ends
    return f"[{', '.join(show_number(end * scale, decimals) for end in ends)}]" if ends else empty


def no_minus_zero(value: float, decimals: int) -> float:
    """Return a number rounded, and no zero with a sign."""
    return round(value, decimals) + 0.0


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Return rows as CSV with a head, without a line break at the end.

    A text that a spreadsheet would take for a formula (a model called ``=1+1``) gets an apostrophe, which makes it
    text there; numbers stay numbers.

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
    csv.writer(buffer, lineterminator="\r\n").writerow(
        [f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value for value in values]
    )
    return buffer.getvalue().removesuffix("\r\n")


_BIDI_CONTROLS = re.compile(r"[\u202a-\u202e\u2066-\u2069]")


def readable(value: object) -> str:
    """Return a value as text, with bidirectional controls as code points (``[U+202E]``)."""
    return _BIDI_CONTROLS.sub(lambda match: f"[U+{ord(match[0]):04X}]", str(value))


def texts_of(value: Any) -> list[str]:
    """Return a caption, or several, as texts; none of None."""
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def html_text(value: object) -> str:
    """Return a value as text that is safe between tags and in quoted attributes, and :func:`readable`."""
    return escape(readable(value))


def html_table(rows: Sequence[Mapping[str, object]], left: Collection[str] = (), title: str = "") -> str:
    """Return rows as a table, every text in it escaped.

    Args:
        rows: Column to value, the same columns in each.
        left: The columns of texts; others are right-aligned.
        title: Its caption.
    """
    columns = list(rows[0]) if rows else []
    heads = "".join(f"<th{_side(name, left)}>{html_text(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td{_side(name, left)}>{html_text(row[name])}</td>" for name in columns) + "</tr>"
        for row in rows
    )
    caption = f"<caption>{html_text(title)}</caption>" if title else ""
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def html_lines(lines: Sequence[str]) -> str:
    """Return lines below one another, escaped."""
    return f"<small>{'<br>'.join(map(html_text, lines))}</small>" if lines else ""


def html_output(*parts: str) -> str:
    """Return HTML for a notebook, without rendering of formulas."""
    return f'<div class="tex2jax_ignore mathjax_ignore">{"".join(parts)}</div>'


def _side(name: str, left: Collection[str]) -> str:
    return f' style="text-align:{"left" if name in left else "right"}"'
