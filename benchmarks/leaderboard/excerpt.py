"""The leaderboard's top rows, for the README of the repository that keeps the runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from .board import Board
from .formats.markdown import escaped
from .formats.numbers import value_text
from .ranks import newest_tables
from .task_tables import main_column

BEGIN = "<!-- leaderboard: made by 'bench leaderboard build --readme' -->"
END = "<!-- end of leaderboard -->"
_PLACES = 3


def with_excerpt(path: Path, board: Board) -> str:
    """Return a Markdown file's text with the board's top rows between its two marks.

    Raises:
        DataError: The file cannot be read, or does not hold both marks, once each and in order.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise DataError(
            f"{path}: has no place for the leaderboard's top rows.", f"Add two lines to it:\n{BEGIN}\n{END}"
        )
    before, _, rest = text.partition(BEGIN)
    return "".join([before, BEGIN, "\n", excerpt(board), END, rest.partition(END)[2]])


def excerpt(board: Board) -> str:
    """Return a table with a line a task: the best rows of its main column. Tasks that rank nothing are left out."""
    lines = list(_lines(board))
    heads = ["Task", "By", *map(str, range(1, _PLACES + 1))]
    table = [heads, [":--"] * len(heads), *lines] if lines else []
    return "".join(f"| {' | '.join(cells)} |\n" for cells in table) or "There are no runs yet.\n"


def _lines(board: Board) -> Iterator[list[str]]:
    for table in newest_tables(board.tables):
        column = main_column(table.subject, table.columns)
        if column is None:
            continue
        place = table.columns.index(column)
        ranked = [
            (cell.rank, escaped(row.full_name), f"{value_text(cell, column)}{_group(cell.group)}")
            for row in table.rows
            if (cell := row.cells[place]) is not None and cell.rank is not None and cell.rank <= _PLACES
        ]
        if ranked:
            best = [f"{name} {value}" for _, name, value in sorted(ranked)[:_PLACES]]
            yield [escaped(table.alias), escaped(column.label), *best, *[""] * (_PLACES - len(best))]


def _group(letters: str) -> str:
    return f" <sup>{re.sub('[^a-zA-Z,-]', '', letters)}</sup>" if letters else ""
