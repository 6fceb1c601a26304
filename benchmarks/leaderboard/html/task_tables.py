"""The tables by task: values with their intervals drawn, beside what papers print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..board import Cell, Column, Row, TaskTable
from ..formats.numbers import ranks_text
from .markup import Footnotes, ident, link, marks, number, scrolling, text

BAR_WIDTH = 100
BAR_HEIGHT = 10
ROOMY = 3
"""Columns up to which there is room for longer bars, with what papers print beside them."""


@dataclass(frozen=True)
class Span:
    """The range that all bars of a column are drawn on, in plain values."""

    low: float
    high: float

    def at(self, value: float) -> str:
        """Return where a value stands in a bar, as text."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return f"{3 + share * (BAR_WIDTH - 6):.1f}".removesuffix(".0")


def span_of(table: TaskTable, column: int) -> Span | None:
    """Return the range of a column: of its values, intervals and printed values; None if it has none."""
    found: list[float] = []
    for row in table.rows:
        if cell := row.cells[column]:
            printed = cell.published.value if cell.published else None
            found += [one for one in (cell.value, cell.low, cell.high, printed) if one is not None]
    return Span(min(found), max(found)) if found else None


def task_section(table: TaskTable, pages: Mapping[str, str], below: str = "") -> str:
    """Return the section of a task.

    Args:
        table: Its numbers.
        pages: Path of each run's page, by the key of the run.
        below: Markup that stands below the table.
    """
    name = "task-" + ident(table.anchor)
    footnotes = Footnotes(name)
    spans = [span_of(table, place) for place in range(len(table.columns))]
    body = "".join(_row(table, row, spans, footnotes, pages) for row in table.rows)
    heads = "".join(_head(column, span) for column, span in zip(table.columns, spans, strict=True))
    what = "Metric" if table.subject == "metric" else "Model"
    noted = " ".join(table.notes)
    papers = [paper for paper in _papers(table.rows) if paper not in noted]
    caption = f"{table.alias}, version {table.version}"
    if papers:
        caption += f"; printed in {'; '.join(papers)}"
    words = " ".join([table.task, table.alias, *(column.label for column in table.columns)])
    markup = (
        f'<table class="rows{" roomy" if len(table.columns) <= ROOMY else ""}">'
        f"<caption>{text(caption)}</caption><thead><tr>"
        f'<th scope="col" data-sort="text" aria-sort="none"><button type="button">{what}</button></th>{heads}'
        '<th scope="col" class="number" data-sort="desc" aria-sort="none"><button type="button">n</button></th>'
        f"</tr></thead><tbody>{body}</tbody></table>"
    )
    about = f"<p>{text(table.about)}</p>" if table.about else ""
    return (
        f'<section class="block" id="{name}" aria-labelledby="{name}-h" data-task="{text(table.task)}" '
        f'data-words="{text(words)}"><h3 id="{name}-h">{text(table.alias)} '
        f'<span class="version">version {text(table.version)}</span></h3>{about}'
        f"{scrolling(table.alias, markup)}{below}{footnotes.listing(table.notes)}</section>\n"
    )


def _papers(rows: Sequence[Row]) -> list[str]:
    """Return the papers that print values of these rows, each with its tables."""
    found: dict[str, dict[str, None]] = {}
    for printed in (cell.published for row in rows for cell in row.cells if cell is not None):
        if printed is not None:
            found.setdefault(printed.citation, {})[str(printed.table)] = None
    return [f"{paper}, Table {', '.join(tables)}" for paper, tables in found.items()]


def _head(column: Column, span: Span | None) -> str:
    order = "desc" if column.higher_is_better else "asc"
    scale = ""
    if span is not None:
        ends = [number(end * column.scale, column.decimals) for end in (span.low, span.high)]
        scale = f"<small>bars {ends[0]} to {ends[1]}</small>"
    lower = "" if column.higher_is_better else "<small>lower is better</small>"
    return (
        f'<th scope="col" data-sort="{order}" aria-sort="none">'
        f'<button type="button">{text(column.label)}</button>{lower}{scale}</th>'
    )


def _row(
    table: TaskTable, row: Row, spans: list[Span | None], footnotes: Footnotes, pages: Mapping[str, str]
) -> str:
    cells = "".join(
        _cell(cell, column, span, footnotes, row)
        for cell, column, span in zip(row.cells, table.columns, spans, strict=True)
    )
    name = link(pages[row.run], text(row.name)) if row.run in pages else text(row.name)
    below = f"<small>{text(row.model)}</small>" if row.model else ""
    counts = sorted({cell.n for cell in row.cells if cell is not None and cell.value is not None})
    n = " / ".join(f"{count:,}" for count in counts)
    sortable = f' data-v="{counts[-1]}"' if counts else ""
    printed = row.kind == "published"
    kind = ' class="printed"' if printed else ""
    if printed:
        name += ' <span class="tag">published only</span>'
        if len(_papers(table.rows)) > 1:
            below += f"<small>{text('; '.join(_papers([row])))}</small>"
    return (
        f'<tr{kind}><th scope="row" data-s="{text(row.name)}">{name}{below}{marks(row.marks)}</th>{cells}'
        f'<td class="number"{sortable}>{n or "–"}</td></tr>\n'
    )


def _cell(cell: Cell | None, column: Column, span: Span | None, footnotes: Footnotes, row: Row) -> str:
    if cell is None or (cell.value is None and cell.published is None and not cell.reason):
        return '<td><span class="empty">–</span></td>'
    if cell.value is None and cell.published is None:
        return f"<td>{footnotes.mark(cell.reason)}</td>"
    if cell.value is None and cell.published is not None:
        empty = "" if row.kind == "published" else f"{footnotes.mark(cell.reason or 'not measured')} "
        return (
            f'<td data-v="{cell.published.value:.6g}"><div class="c">'
            f'<span class="v">{empty}{text(cell.published.printed)}</span>{bar(cell, span)}</div></td>'
        )
    return f'<td data-v="{cell.value:.6g}">{measured(cell, column, span)}</td>'


def measured(cell: Cell, column: Column, span: Span | None) -> str:
    """Return what a cell shows of a measured value: value and letters, bar, printed value, interval."""
    if cell.value is None:
        raise ValueError("the cell has no measured value")
    value = number(cell.value * column.scale, column.decimals)
    if cell.rank == 1:
        value = f"<strong>{value}</strong>"
    elif cell.rank == 2:
        value = f"<u>{value}</u>"
    letters = f"<sup>{text(cell.group)}</sup>" if cell.group else ""
    printed = interval = ""
    if cell.published is not None:
        gap = number((cell.value - cell.published.value) * column.scale, column.decimals, sign=True)
        printed = f'<small class="p"><b>{text(cell.published.printed)}</b> ({gap})</small>'
    if cell.low is not None and cell.high is not None:
        ends = [number(end * column.scale, column.decimals) for end in (cell.low, cell.high)]
        interval = f'<small class="i">[{ends[0]}, {ends[1]}]</small>'
    ranks = f'<small class="i">rank {ranks}</small>' if (ranks := ranks_text(cell)) else ""
    return f'<div class="c"><span class="v">{value}{letters}</span>{bar(cell, span)}{printed}{interval}{ranks}</div>'


def bar(cell: Cell, span: Span | None) -> str:
    """Return a drawing of a cell: its interval as a line, its value as a dot, the printed one as a tick.

    It repeats numbers that the cell says in words, so readers of the page aloud are spared it.
    """
    if span is None:
        return ""
    middle = BAR_HEIGHT / 2
    drawn = ""
    if cell.low is not None and cell.high is not None:
        drawn += f'<path d="M{span.at(cell.low)} {middle:g}H{span.at(cell.high)}"/>'
    if cell.published is not None:
        drawn += f'<path class="t" d="M{span.at(cell.published.value)} 0V{BAR_HEIGHT}"/>'
    if cell.value is not None:
        drawn += f'<circle cx="{span.at(cell.value)}" cy="{middle:g}" r="2.6"/>'
    return f'<svg class="b" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" aria-hidden="true">{drawn}</svg>'
