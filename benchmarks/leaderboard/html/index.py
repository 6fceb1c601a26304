"""The leaderboard's pages of tables: the first page, the overview, and a page a task."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from string import ascii_lowercase
from typing import Any

from ....adapters.aliases import ModelSpec, list_aliases
from ...protocols.contract import Subject
from ...statistics.significance import letters_in
from ...tables.pages.charts import Scale, interval_bar
from ...tables.pages.rendering import number
from ..board import Board, BoardRow, BoardRun, Cell, Column, RankTable, TaskTable
from ..task_tables import main_column, newest_tables, whole_columns
from .rendering import address, rendered


def index_page(board: Board, pages: Mapping[str, str], task_pages: Mapping[str, str]) -> bytes:
    """Return ``index.html``.

    Args:
        board: The leaderboard.
        pages: Path of each run's page, by the key of the run.
        task_pages: Path of the page with all rows of a table, by its anchor, if the first page shows only the top rows.
    """
    aliases = Counter(table.alias for table in board.tables)
    return rendered(
        "index.html",
        up="",
        board=board,
        pages=pages,
        overviews=overviews(board, pages),
        most_of_overview=FIRST_ROWS,
        overview_page=OVERVIEW_PAGE,
        contents=[
            (table.id, table.alias if aliases[table.alias] == 1 else f"{table.alias} ({table.version})")
            for table in board.tables
        ],
        filters={table.task: table.alias for table in board.tables},
        tables=[shown_table(table, pages, task_pages.get(table.anchor, "")) for table in board.tables],
        to=lambda key: address(pages.get(key, "")),
        ranks=list(map(shown_ranks, board.ranks)),
    )


def task_page(table: TaskTable, runs: Sequence[BoardRun], pages: Mapping[str, str]) -> bytes:
    """Return the page of a task: its table and its runs.

    Args:
        table: The table of the task.
        runs: The runs of this version of the task.
        pages: Path of each run's page, relative to the leaderboard's folder, by the key of the run.
    """
    above = {run.key: f"../{pages[run.key]}" for run in runs}
    return rendered(
        "task_page.html",
        up="../",
        back=address(f"../index.html#{table.id}"),
        table=shown_table(table, above),
        filters={table.task: table.alias},
        runs=runs,
        pages=above,
    )


def overview_page(board: Board, pages: Mapping[str, str]) -> bytes:
    """Return ``overview.html``, where tasks and metrics are chosen; empty if no matrix has two tasks.

    Args:
        board: The leaderboard.
        pages: Path of each run's page, by the key of the run.
    """
    matrices = overviews(board, pages)
    return rendered("overview_page.html", up="./", overviews=matrices) if matrices else b""


OVERVIEW_PAGE = "overview.html"
FIRST_ROWS = 25
"""Rows of each matrix on the first page."""


_ROOMY = 3
"""Maximum number of columns for long bars with published values next to them."""


ShownCell = tuple[Cell, int, dict[str, Any] | None]
"""A cell, the number of the note on its missing value (0 for none), and its drawing."""


def range_of(table: TaskTable, column: int) -> Scale | None:
    """Return the range of a column over values, intervals and published values; None if it is empty."""
    values: list[float] = []
    for row in table.rows:
        if cell := row.cells[column]:
            printed = cell.published.value if cell.published else None
            values += [value for value in (cell.value, cell.low, cell.high, printed) if value is not None]
    return Scale(min(values), max(values)) if values else None


def shown_table(table: TaskTable, pages: Mapping[str, str], all_rows: str = "") -> dict[str, Any]:
    """Return template values for a table.

    Args:
        table: The table.
        pages: Path of each run's page, by the key of the run.
        all_rows: Path of the page with all rows, if only the first ones are shown.
    """
    total = len(table.rows)
    table = table.top() if all_rows else table
    ranges = [range_of(table, place) for place in range(len(table.columns))]
    papers = _papers(table.rows)
    notes: dict[str, int] = {}
    noted = " ".join(table.notes)
    printed_in = [paper for paper in papers if paper not in noted]
    return {
        **vars(table),
        "id": table.id,
        "words": " ".join([table.task, table.alias, *(column.label for column in table.columns)]),
        "caption": "; printed in ".join(
            filter(None, [f"{table.alias}, version {table.version}", "; ".join(printed_in)])
        ),
        "roomy": len(table.columns) <= _ROOMY and bool(papers),
        "ends": [
            [number(end * column.scale, column.decimals) for end in (bars.low, bars.high)] if bars else []
            for column, bars in zip(table.columns, ranges, strict=True)
        ],
        "rows": [_row(row, ranges, notes, pages, len(papers) > 1) for row in table.rows],
        "reasons": list(notes),
        "all_rows": address(all_rows),
        "total": total,
    }


def _papers(rows: Sequence[BoardRow]) -> list[str]:
    """Return the papers with published values of these rows, each with its tables."""
    by_paper: dict[str, dict[str, None]] = {}
    for printed in (cell.published for row in rows for cell in row.cells if cell is not None):
        if printed is not None:
            by_paper.setdefault(printed.citation, {})[str(printed.table)] = None
    return [f"{paper}, Table {', '.join(tables)}" for paper, tables in by_paper.items()]


def _row(
    row: BoardRow, ranges: Sequence[Scale | None], notes: dict[str, int], pages: Mapping[str, str], several_papers: bool
) -> dict[str, Any]:
    counts = sorted({cell.n for cell in row.cells if cell is not None and cell.value is not None})
    printed = row.kind == "published"
    return {
        **vars(row),
        "to": address(pages[row.run]) if row.run in pages else "",
        "papers": "; ".join(_papers([row])) if printed and several_papers else "",
        "cells": [_cell(cell, bars, notes, printed) for cell, bars in zip(row.cells, ranges, strict=True)],
        "n": " / ".join(f"{count:,}" for count in counts) or "–",
        "most": counts[-1] if counts else None,
    }


def _cell(cell: Cell | None, bars: Scale | None, notes: dict[str, int], printed_row: bool) -> ShownCell | None:
    """Return a cell for the template; None if it has neither value nor reason."""
    if cell is None:
        return None
    printed, reason = cell.published.value if cell.published else None, ""
    if cell.value is None:
        reason = cell.reason or ("not measured" if cell.published and not printed_row else "")
        if not (cell.published or reason):
            return None
    drawn = interval_bar(bars, cell.value, cell.interval, printed) if bars else None
    return cell, notes.setdefault(reason, len(notes) + 1) if reason else 0, drawn


SHADES = 5
"""Number of shades; the strongest is for the best ranks."""


def shade_of(rank: int, last: int) -> int:
    """Return the shade of a rank, 0 for the strongest.

    Args:
        rank: From 1.
        last: The worst rank, at least ``rank``.
    """
    return (rank - 1) * SHADES // last


def shown_ranks(table: RankTable) -> dict[str, Any]:
    """Return template values for a rank table: ranks by task, and tau between tasks."""
    last = max((rank for ranks in table.ranks.values() for rank in ranks if rank is not None), default=1)
    tasks = [task for task, _ in table.tasks]
    return {
        **vars(table),
        "rows": [
            (name, [None if rank is None else (rank, shade_of(rank, last)) for rank in ranks])
            for name, ranks in table.ranks.items()
        ],
        "tau": [(task, [_tau(table, row, column) for column in range(len(tasks))]) for row, task in enumerate(tasks)],
    }


def _tau(table: RankTable, row: int, column: int) -> tuple[str, str]:
    """Return text and CSS class of a cell with tau."""
    if row == column:
        return "·", "empty"
    tau = table.tau.get((row, column), table.tau.get((column, row)))
    if tau is None:
        return "–", "empty"
    return number(tau, 2), "cold" if tau < 0 else f"h{min(int((1 - tau) * SHADES), SHADES - 1)}"


_MISSING = 10_000
"""Added to the sort value of a mean rank for each chosen column without a rank."""
_SHADED = 4
"""Places with a shade; it must differ from the page behind it."""
_FACTS = ("size", "licence", "date")
_Place = tuple[TaskTable, Column]


def overviews(board: Board, pages: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return template values for the matrices of metrics and of models; each needs at least two tasks.

    Args:
        board: The leaderboard.
        pages: Path of each run's page, by the key of the run.
    """
    models = {run.key: run.record.model_name or "" for run in board.runs}
    subjects: tuple[Subject, ...] = ("metric", "model")
    return list(filter(None, (_matrix(board, subject, pages, models) for subject in subjects)))


def _matrix(
    board: Board, subject: Subject, pages: Mapping[str, str], models: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the values of a matrix. Chosen at first are the metrics by which the table of a task is sorted."""
    places = list(_places(board, subject))
    tasks = {table.task: table.alias for table, _ in places}
    if len(tasks) < 2:
        return None
    mains = {table.task: main_column(subject, table.columns) for table, _ in places}
    metrics = {column.label: False for _, column in places}
    metrics |= {column.label: True for table, column in places if column is mains[table.task]}
    chosen = [metrics[column.label] for _, column in places]
    rows = list(_rows(places, chosen, pages, models))
    facts = [name for name in _FACTS if any(row["facts"][name] for row in rows)]
    return {
        "subject": subject,
        "places": [(table, column, shown) for (table, column), shown in zip(places, chosen, strict=True)],
        "tasks": tasks,
        "metrics": metrics,
        "facts": facts,
        "rows": rows,
        "unranked": any(cell and cell["shade"] == "unranked" for row in rows for cell in row["cells"]),
    }


def _places(board: Board, subject: Subject) -> Iterator[_Place]:
    """Yield the newest version of each task with measured rows, with each of its columns that ranks them."""
    for table in newest_tables(board.tables):
        if table.subject == subject and any(row.kind == "measured" for row in table.rows):
            main = main_column(subject, table.columns)
            ranking = [c for c in whole_columns(subject, table.columns) if c.higher_is_better is not None]
            # The number of a checklist is the mean over its rules.
            for column in [main] if table.by_rule or not ranking else ranking:
                if column is not None:
                    yield table, column


def _rows(
    places: Sequence[_Place], chosen: Sequence[bool], pages: Mapping[str, str], models: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return one row per metric and model, or per model: most ranks first, then by mean rank, then by name."""
    names: dict[tuple[str, str], dict[int, BoardRow]] = {}
    for at, (table, _) in enumerate(places):
        for row in table.rows:
            if row.kind == "measured":
                names.setdefault((row.name, row.model), {})[at] = row
    shades = [_shades(table, column) for table, column in places]
    aliases, unnamed = list_aliases(), ModelSpec("", "")
    rows = []
    for (name, model), of_tasks in names.items():
        cells: list[dict[str, Any] | None] = [None] * len(places)
        for at, row in of_tasks.items():
            table, column = places[at]
            cell = row.cells[table.columns.index(column)]
            if cell is not None and cell.value is not None:
                cells[at] = _shown(cell, column, shades[at].get(id(cell), "unranked"), pages.get(row.run, ""))
        spec = aliases.get(model or models.get(next(iter(of_tasks.values())).run, ""), unnamed)
        ranks = [cell["rank"] for cell, shown in zip(cells, chosen, strict=True) if shown and cell and cell["rank"]]
        missing = sum(chosen) - len(ranks)
        rows.append(
            {
                "name": name,
                "model": model,
                "facts": {fact: getattr(spec, fact) for fact in _FACTS},
                "mean": number(fmean(ranks), 1) if ranks else "",
                "of": len(ranks) if missing else 0,
                "order": _MISSING * missing + (fmean(ranks) if ranks else 0.0),
                "cells": cells,
            }
        )
    return sorted(rows, key=lambda row: (row["order"], row["name"], row["model"]))


def _shown(cell: Cell, column: Column, shade: str, page: str) -> dict[str, Any]:
    """Return a value in a matrix: sort value, text, rank, shade, and the page of its run."""
    shown = number(None if cell.value is None else cell.value * column.scale, column.decimals)
    return {"value": f"{cell.value:.6g}", "shown": shown, "rank": cell.rank, "shade": shade, "to": address(page)}


def _shades(table: TaskTable, column: Column) -> dict[int, str]:
    """Return the shade of each ranked cell of a column, by the ``id`` of the cell.

    A cell is placed after those that are significantly better: values that are not significantly different from the
    best have the strongest shade. Each of the first places has its own shade, later ones have none, and if all cells
    have the same place, no cell has one.
    """
    ranked = [cell for _, cell in table.cells(column) if cell.rank is not None]
    tested = any(cell.rank_range for cell in ranked) or (
        len(ranked) <= len(ascii_lowercase) and all(cell.group for cell in ranked)
    )
    place_of = {id(cell): _place(cell, ranked) if tested else cell.rank or 0 for cell in ranked}
    places = sorted(set(place_of.values()))
    shaded = places[:_SHADED] if len(places) > 1 else []
    return {key: f"h{shaded.index(place)}" if place in shaded else "alone" for key, place in place_of.items()}


def _place(cell: Cell, ranked: Sequence[Cell]) -> int:
    """Return 1 and the number of cells that are significantly better than a cell."""
    if cell.rank_range:
        return cell.rank_range[0]
    letters = letters_in(cell.group)
    return 1 + sum((other.rank or 0) < (cell.rank or 0) and not letters & letters_in(other.group) for other in ranked)
