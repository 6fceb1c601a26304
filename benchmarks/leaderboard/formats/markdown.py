"""The leaderboard as a page of Markdown, as GitHub shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..board import TOP_ROWS, Board, BoardRow, Cell, Column, OmittedRun, RankTable, SuiteTable, TaskTable
from ..suites_of_board import NOT_RUN
from ..task_tables import main_column
from .numbers import difference_text, interval_text, ranks_text, value_text

_MOST_PUBLISHED = 12
"""More published rows than that are folded away below the measured ones."""

_LEGEND = """\
Made by `bench leaderboard build` from the records of finished runs. The best measured value of a column is **bold**.
Below a value stands its bootstrap interval (95 % of the resamples, whole images drawn). Letters are significance
groups within a column: rows that share a letter do not differ (paired bootstrap, Holm's correction, 5 %).
*Published* is what the paper prints, with the difference of ours from it; rows in *italics* are published only.
A number in brackets leads to what must be known of a run: which documents it lacks, and how many captions say
nothing and count as empty ones. Runs that are incomplete, of a part of the data, or of other data than most have no
rank; those of one subset of the documents are ranked among themselves where no run is of all."""


def readme(board: Board) -> dict[str, bytes]:
    """Return ``README.md``."""
    return {"README.md": ("\n".join(_lines(board)).rstrip("\n") + "\n").encode()}


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, within a table, too."""
    plain = " ".join(text.split())
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", plain)


def _lines(board: Board) -> Iterator[str]:
    yield from ("# Leaderboard", "", _LEGEND, "")
    if not board.tables:
        yield from ("There are no runs yet.", "")
    for table in board.tables:
        about = f": {escaped(table.about)}" if table.about else ""
        yield f"- [{escaped(_title(table, board))}](#{_anchor(table)}){about}"
    yield ""
    for table in board.tables:
        yield from _task(table, board)
    if board.suites:
        yield from (
            "## Published tables",
            "",
            "Ours, and in brackets what the paper prints; a dash stands for what was not run.",
            "",
        )
    for suite in board.suites:
        yield from _suite(suite)
    for ranks in board.ranks:
        yield from _ranks(ranks)
    yield from _runs(board)
    yield from _left_out(board.left_out)


def _title(table: TaskTable, board: Board) -> str:
    several = sum(other.alias == table.alias for other in board.tables) > 1
    return f"{table.alias} (version {table.version})" if several else table.alias


def _anchor(table: TaskTable) -> str:
    return re.sub(r"[^\w-]+", "-", table.anchor)


def _task(table: TaskTable, board: Board) -> Iterator[str]:
    yield from (f'<a id="{_anchor(table)}"></a>', "", f"## {escaped(_title(table, board))}", "")
    if table.about:
        yield from (escaped(table.about), "")
    marks: dict[str, int] = {}
    published = [row for row in table.rows if row.kind == "published" and not board.is_large]
    folded = len(published) > _MOST_PUBLISHED
    rows = [row for row in table.rows if not folded or row.kind == "measured"]
    yield from _table_of(table, rows[:TOP_ROWS] if board.is_large else rows, marks)
    if board.is_large and len(rows) > TOP_ROWS:
        yield from (f"The first {TOP_ROWS} of {len(rows):,} rows; leaderboard.csv holds all.", "")
    for mark, number in marks.items():
        yield f"\\[{number}\\] {escaped(mark)}  "
    if marks:
        yield ""
    for note in table.notes:
        yield from (_note(note), "")
    if folded:
        yield from (f"<details><summary>{len(published)} published rows</summary>", "")
        yield from _table_of(table, published, {})
        yield from ("</details>", "")


def _note(note: str) -> str:
    # Commands in notes stand in backticks, which stay.
    return "".join(
        part if number % 2 else escaped(f"x{part}x")[1:-1]
        for number, part in enumerate(re.split(r"(`[^`|<>]*`)", note))
    )


def _table_of(table: TaskTable, rows: Sequence[BoardRow], marks: dict[str, int]) -> Iterator[str]:
    main = main_column(table.subject, table.columns)
    place = table.columns.index(main) if main else 0
    with_model = any(row.model for row in rows)
    measured = any(row.kind == "measured" for row in rows)
    heads = ["#"] if measured else []
    heads += ["Metric", *(["Model"] if with_model else [])] if table.subject == "metric" else ["Model"]
    aligned = [":--"] * len(heads)
    printed = [
        any((cell := row.cells[number]) and cell.published for row in rows) for number in range(len(table.columns))
    ]
    for number, column in enumerate(table.columns):
        names = [escaped(column.label)] if measured else []
        names += [f"{'' if measured else escaped(column.label) + ' '}published"] if printed[number] else []
        heads += names
        aligned += ["--:"] * len(names)
    if measured:
        heads.append("n")
        aligned.append("--:")
    yield _row(heads)
    yield _row(aligned)
    for row in rows:
        cell = row.cells[place] if row.cells else None
        first = [str(cell.rank) if cell and cell.rank else ""] if measured else []
        name = escaped(row.name)
        first.append(f"*{name}*" if row.kind == "published" and measured else f"{name}{_marks(row.marks, marks)}")
        if with_model:
            first.append(escaped(row.model))
        for number, column in enumerate(table.columns):
            one = row.cells[number]
            if measured:
                first.append(_measured(one, column, marks))
            if printed[number]:
                first.append(_published(one, column))
        if measured:
            first.append(f"{cell.n:,}" if cell and row.kind == "measured" else "")
        yield _row(first)
    yield ""


def _marks(texts: Sequence[str], marks: dict[str, int]) -> str:
    return "".join(f" <sup>\\[{marks.setdefault(text, len(marks) + 1)}\\]</sup>" for text in texts)


def _measured(cell: Cell | None, column: Column, marks: dict[str, int]) -> str:
    if cell is None:
        return ""
    if cell.value is None:
        return f"–{_marks([cell.reason], marks)}" if cell.reason else ""
    text = value_text(cell, column)
    text = f"**{text}**" if cell.rank == 1 else text
    group = f" <sup>{cell.group}</sup>" if cell.group else ""
    below = [interval_text(cell, column).replace(", ", " – ")]
    below += [f"rank {ranks}"] if (ranks := ranks_text(cell)) else []
    small = "; ".join(filter(None, below))
    return f"{text}{group}" + (f"<br><sub>{small}</sub>" if small else "")


def _published(cell: Cell | None, column: Column) -> str:
    if cell is None or cell.published is None:
        return ""
    difference = difference_text(cell, column)
    return escaped(cell.published.printed) + (f"<br><sub>{difference}</sub>" if difference else "")


def _suite(suite: SuiteTable) -> Iterator[str]:
    about = f"{_html(suite.suite)}: {_html(suite.about)}"
    yield f"<details><summary>{about} {suite.measured} of {suite.total} cells measured</summary>"
    yield ""
    yield _row(["", *map(escaped, suite.heads)])
    yield _row([":--", *["--:"] * len(suite.heads)])
    reasons: dict[str, int] = {}
    for label, of_row in suite.rows:
        texts = []
        for cell in of_row:
            if cell is None:
                texts.append("")
                continue
            printed = f" ({escaped(cell.printed)})" if cell.printed else ""
            # Most cells of a large table were just not run, which the dash says.
            why = [cell.reason] if cell.reason not in ("", NOT_RUN) else []
            ours = f"**{cell.measured}**" if cell.measured else f"–{_marks(why, reasons)}"
            texts.append(ours + printed + (f"<br><sub>{cell.difference}</sub>" if cell.difference else ""))
        yield _row([escaped(label), *texts])
    yield ""
    for reason, number in reasons.items():
        yield f"\\[{number}\\] {escaped(reason)}  "
    if reasons:
        yield ""
    if suite.note:
        yield from (escaped(suite.note), "")
    yield from ("</details>", "")


def _ranks(ranks: RankTable) -> Iterator[str]:
    what = ranks.subject
    yield from (f"## How stable are the ranks of {what}s?", "")
    yield f"Rank of each {what} among those that are listed, by task."
    yield ""
    heads = [f"{escaped(alias)}<br><sub>{escaped(column)}</sub>" for alias, column in ranks.tasks]
    yield _row([what.capitalize(), *heads])
    yield _row([":--", *["--:"] * len(heads)])
    for name, of_task in ranks.ranks.items():
        yield _row([escaped(name), *("" if rank is None else str(rank) for rank in of_task)])
    yield from ("", "Kendall's τ-b between the rankings of two tasks, over all that both have:", "")
    yield _row(["", *heads[1:]])
    yield _row([":--", *["--:"] * len(heads[1:])])
    for one in range(len(heads) - 1):
        taus = (ranks.tau.get((one, other)) for other in range(1, len(heads)))
        yield _row([heads[one], *("" if tau is None else f"{tau:.2f}" for tau in taus)])
    yield ""


def _runs(board: Board) -> Iterator[str]:
    runs = board.runs
    if board.is_large:
        yield from ("## Runs", "", f"{len(runs):,} runs, which leaderboard.json lists.", "")
        return
    yield from ("## Runs", "", f"<details><summary>{len(runs):,} runs</summary>", "")
    yield _row(["Run", "Model", "Documents", "Started (UTC)", "To know"])
    yield _row([":--", ":--", "--:", ":--", ":--"])
    for run in runs:
        yield _row(
            [
                escaped(run.key),
                escaped(run.record.model_name or ""),
                f"{run.record.documents.effective:,}",
                f"{run.record.started:%Y-%m-%d %H:%M}",
                "; ".join(map(escaped, run.marks)),
            ]
        )
    yield from ("", "</details>", "")


def _left_out(left_out: Sequence[OmittedRun]) -> Iterator[str]:
    if left_out:
        yield from (f"## Left out: {len(left_out):,} {'folder' if len(left_out) == 1 else 'folders'}", "")
        yield from (_row(["Folder", "Why"]), _row([":--", ":--"]))
        yield from (_row([escaped(one.key), escaped(one.reason)]) for one in left_out)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _html(text: str) -> str:
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
