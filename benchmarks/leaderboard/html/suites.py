"""Published tables, cell by cell: what the paper prints, what was measured, and the difference."""

from __future__ import annotations

from collections.abc import Mapping

from ..board import SuiteCell, SuiteTable
from .markup import Footnotes, ident, link, scrolling, text


def suite_section(table: SuiteTable, pages: Mapping[str, str]) -> str:
    """Return the section of a published table.

    Args:
        table: The table.
        pages: Path of each run's page, by the key of the run.
    """
    name = "suite-" + ident(table.suite)
    footnotes = Footnotes(name)
    heads = "".join(f'<th scope="col">{text(head)}</th>' for head in table.heads)
    body = "".join(
        f'<tr><th scope="row">{text(row)}</th>{"".join(_cell(cell, footnotes, pages) for cell in cells)}</tr>\n'
        for row, cells in table.rows
    )
    total = sum(cell is not None for _, cells in table.rows for cell in cells)
    caption = f"{table.measured} of {total} cells measured. A cell: measured, printed (difference)."
    markup = (
        f'<table class="rows"><caption>{caption}</caption><thead><tr><th scope="col">Row</th>{heads}</tr>'
        f"</thead><tbody>{body}</tbody></table>"
    )
    notes = [table.note] if table.note else []
    return (
        f'<section class="block" id="{name}" aria-labelledby="{name}-h" data-words="{text(table.suite)} '
        f'{text(" ".join(table.heads))}"><h3 id="{name}-h">{text(table.suite)}</h3><p>{text(table.about)}</p>'
        f"{scrolling(table.suite, markup)}{footnotes.listing(notes)}</section>\n"
    )


def _cell(cell: SuiteCell | None, footnotes: Footnotes, pages: Mapping[str, str]) -> str:
    if cell is None:
        return "<td></td>"
    printed = f'<span class="p"><b>{text(cell.printed)}</b></span>' if cell.printed else ""
    if not cell.measured:
        missing = footnotes.mark(cell.reason) if cell.reason else '<span class="empty">–</span>'
        return f'<td><span class="s">{missing}<small>{printed}</small></span></td>'
    measured = text(cell.measured)
    if cell.run in pages:
        measured = link(pages[cell.run], measured)
    gap = f" ({text(cell.difference.replace('-', '−'))})" if cell.difference else ""
    return f'<td><span class="s">{measured}<small>{printed}{gap}</small></span></td>'
