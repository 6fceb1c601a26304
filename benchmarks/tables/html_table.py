"""Tables as notebooks show them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from .html_text import html_text


def html_table(rows: Sequence[Mapping[str, object]], left: Collection[str] = (), title: str = "") -> str:
    """Return rows as a table, every text in it escaped.

    Args:
        rows: Column to value, the same columns in each.
        left: The columns of texts; others stand at the right.
        title: What stands above it.
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
    """Return what a notebook shows: parts of HTML, in which nothing is taken for a formula."""
    return f'<div class="tex2jax_ignore mathjax_ignore">{"".join(parts)}</div>'


def _side(name: str, left: Collection[str]) -> str:
    return f' style="text-align:{"left" if name in left else "right"}"'
