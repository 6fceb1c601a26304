"""Text formats of the leaderboard: GitHub Markdown, LaTeX, JSON and CSV."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..tables.pages.rendering import page_name, text_templates
from ..tables.text import LATEX_SYMBOLS, csv_text, show_difference, show_number
from .board import TOP_ROWS, Board, BoardRow, BoardRun, Cell, Column, SuiteCell, SuiteTable, TaskTable
from .suites_of_board import NOT_RUN
from .task_tables import main_column, newest_tables

SCHEMA_VERSION = 1
JSON_FILE = "leaderboard.json"
_CSV_COLUMNS = (
    "task", "alias", "version", "kind", "name", "model", "column", "label", "value", "low", "high", "n", "rank",
    "group", "ranks", "published", "printed", "citation", "table", "run", "marks", "reason",
)  # fmt: skip
_MOST_PUBLISHED = 12
"""Maximum number of published rows in the main table; if there are more, they go into a folded table."""
BEGIN = "<!-- leaderboard: made by 'bench leaderboard build --readme' -->"
END = "<!-- end of leaderboard -->"
_PLACES = 3
_HEAD = r"""% Needs \usepackage{booktabs}. Include it with \input, for example in a table environment.
\providecommand{\best}[1]{\textbf{#1}}
\providecommand{\second}[1]{\underline{#1}}
"""
_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "`": r"\textasciigrave{}",
}  # fmt: skip
_LATEX = str.maketrans(_SPECIAL) | LATEX_SYMBOLS


def value_text(cell: Cell, column: Column) -> str:
    """Return the measured value; empty if missing."""
    return "" if cell.value is None else show_number(cell.value * column.scale, column.decimals)


# --- Markdown


def markdown(text: str) -> str:
    """Escape text for Markdown, also within tables."""
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", _html(text))


def _html(text: str) -> str:
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _with_code(text: str) -> str:
    """Escape text for Markdown, but keep code in backticks."""
    parts = re.split(r"(`[^`|<>]*`)", text)
    return "".join(part if at % 2 else markdown(f"x{part}x")[1:-1] for at, part in enumerate(parts))


def readme(board: Board) -> dict[str, bytes]:
    """Return ``README.md``."""
    versions = Counter(table.alias for table in board.tables)
    tasks = [_section(table, board, several=versions[table.alias] > 1) for table in board.tables]
    suites = [(suite, list(_suite_grid(suite, reasons := {})), reasons) for suite in board.suites]
    templates = text_templates(Path(__file__).parent, md=markdown, md_with_code=_with_code, html=_html)
    page = templates.get_template("readme.md").render(board=board, tasks=tasks, suites=suites)
    return {"README.md": (page.rstrip("\n") + "\n").encode()}


def _section(table: TaskTable, board: Board, *, several: bool) -> dict[str, Any]:
    marks: dict[str, int] = {}
    published = [row for row in table.rows if row.kind == "published" and not board.is_large]
    folded = len(published) > _MOST_PUBLISHED
    rows = [row for row in table.rows if not folded or row.kind == "measured"]
    shown = rows[:TOP_ROWS] if board.is_large else rows
    return {
        **vars(table),
        "id": re.sub(r"[^\w-]+", "-", table.anchor),
        "title": f"{table.alias} (version {table.version})" if several else table.alias,
        "rows": list(_grid(table, shown, marks)),
        "shown": len(shown),
        "total": len(rows),
        "marks": marks,
        "published": len(published),
        "folded": list(_grid(table, published, {})) if folded else [],
    }


def _heads(table: TaskTable, rows: Sequence[BoardRow]) -> tuple[list[str], list[bool]]:
    """Return the headers of the name columns, and which columns have published values."""
    with_model = table.subject == "metric" and any(row.model for row in rows)
    printed = [any((cell := row.cells[at]) and cell.published for row in rows) for at in range(len(table.columns))]
    return [table.subject.capitalize(), *(["Model"] if with_model else [])], printed


def _grid(table: TaskTable, rows: Sequence[BoardRow], marks: dict[str, int]) -> Iterator[list[str]]:
    main = main_column(table.subject, table.columns)
    place = table.columns.index(main) if main else 0
    measured = any(row.kind == "measured" for row in rows)
    names, printed = _heads(table, rows)
    heads = ["#", *names] if measured else [*names]
    texts = len(heads)
    for column, is_printed in zip(table.columns, printed, strict=True):
        label = markdown(column.label)
        heads += [label] if measured else []
        heads += ["published" if measured else f"{label} published"] if is_printed else []
    heads += ["n"] if measured else []
    yield heads
    yield [":--"] * texts + ["--:"] * (len(heads) - texts)
    for row in rows:
        cell = row.cells[place] if row.cells else None
        first = [str(cell.rank) if cell and cell.rank else ""] if measured else []
        name = markdown(row.name)
        first.append(f"*{name}*" if row.kind == "published" and measured else f"{name}{_marks(row.marks, marks)}")
        first += [markdown(row.model)] if names[1:] else []
        for column, entry, is_printed in zip(table.columns, row.cells, printed, strict=True):
            first += [_measured(entry, column, marks)] if measured else []
            first += [_published(entry, column)] if is_printed else []
        first += [f"{cell.n:,}" if cell and row.kind == "measured" else ""] if measured else []
        yield first


def _marks(texts: Sequence[str], marks: dict[str, int]) -> str:
    return "".join(f" <sup>\\[{marks.setdefault(text, len(marks) + 1)}\\]</sup>" for text in texts)


def _measured(cell: Cell | None, column: Column, marks: dict[str, int]) -> str:
    if cell is None:
        return ""
    if cell.value is None:
        return f"–{_marks([cell.reason], marks)}" if cell.reason else ""
    text = value_text(cell, column)
    text = f"**{text}**" if cell.rank == 1 else text
    below = [" – ".join(show_number(end * column.scale, column.decimals) for end in cell.interval or ())]
    below += [f"rank {cell.ranks}"] if cell.ranks else []
    small = "; ".join(filter(None, below))
    return f"{text}{_superscript(cell.group)}" + (f"<br><sub>{small}</sub>" if small else "")


def _published(cell: Cell | None, column: Column) -> str:
    if cell is None or cell.published is None:
        return ""
    printed = markdown(cell.published.printed)
    if cell.value is None:
        return printed
    difference = show_difference((cell.value - cell.published.value) * column.scale, column.decimals)
    return f"{printed}<br><sub>{difference}</sub>"


def _suite_grid(suite: SuiteTable, reasons: dict[str, int]) -> Iterator[list[str]]:
    yield ["", *map(markdown, suite.heads)]
    yield [":--", *["--:"] * len(suite.heads)]
    for label, cells in suite.rows:
        yield [markdown(label), *(_suite_cell(cell, reasons) if cell else "" for cell in cells)]


def _suite_cell(cell: SuiteCell, reasons: dict[str, int]) -> str:
    # Most empty cells of a large table were not run; the dash shows that without a note.
    why = [cell.reason] if cell.reason not in ("", NOT_RUN) else []
    ours = f"**{cell.measured}**" if cell.measured else f"–{_marks(why, reasons)}"
    printed = f" ({markdown(cell.printed)})" if cell.printed else ""
    return ours + printed + (f"<br><sub>{cell.difference}</sub>" if cell.difference else "")


def with_excerpt(path: Path, board: Board) -> str:
    """Return the text of a Markdown file with the board's top rows between its two markers.

    Raises:
        DataError: The file cannot be read, or does not contain both markers once and in order.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise DataError(
            f"{path}: the markers for the leaderboard's top rows are missing", f"Add these two lines:\n{BEGIN}\n{END}"
        )
    before, _, rest = text.partition(BEGIN)
    return "".join([before, BEGIN, "\n", excerpt(board), END, rest.partition(END)[2]])


def excerpt(board: Board) -> str:
    """Return a table with the best rows of each task by its main column; tasks without ranks are omitted."""
    lines = list(_best_rows(board))
    heads = ["Task", "By", *map(str, range(1, _PLACES + 1))]
    table = [heads, [":--"] * len(heads), *lines] if lines else []
    return "".join(f"| {' | '.join(cells)} |\n" for cells in table) or "There are no runs yet.\n"


def _best_rows(board: Board) -> Iterator[list[str]]:
    for table in newest_tables(board.tables):
        column = main_column(table.subject, table.columns)
        if column is None:
            continue
        ranked = [
            (cell.rank, f"{markdown(row.full_name)} {value_text(cell, column)}{_superscript(cell.group)}")
            for row, cell in table.cells(column)
            if cell.rank is not None and cell.rank <= _PLACES
        ]
        if ranked:
            best = [text for _, text in sorted(ranked)[:_PLACES]]
            yield [markdown(table.alias), markdown(column.label), *best, *[""] * (_PLACES - len(best))]


def _superscript(letters: str) -> str:
    return f" <sup>{re.sub('[^a-zA-Z,-]', '', letters)}</sup>" if letters else ""


# --- LaTeX


def latex_files(board: Board) -> dict[str, bytes]:
    """Return one file per task table and per suite, in ``latex/``."""
    texts = [(table.anchor, f"{table.task} {table.version}", _latex_task(table)) for table in board.tables]
    texts += [(f"suite-{suite.suite}", suite.suite, _latex_suite(suite)) for suite in board.suites]
    taken: set[str] = set()
    return {f"latex/{page_name(name, taken, identity)}.tex": text.encode() for name, identity, text in texts}


def latex(text: str) -> str:
    """Escape text for LaTeX; characters that it cannot print become their code point."""
    plain = unicodedata.normalize("NFC", " ".join(text.split())).translate(_LATEX)
    return re.sub(r"[^ -~À-ÖØ-öø-ÿ]", lambda match: f"[U+{ord(match[0]):04X}]", plain)


def _latex_task(table: TaskTable) -> str:
    names, printed = _heads(table, table.rows)
    heads = list(names)
    for column, published in zip(table.columns, printed, strict=True):
        heads += [latex(column.label), *(["published"] if published else [])]
    groups: dict[str, list[list[str]]] = {"measured": [], "published": []}
    for row in table.rows:
        cells = [latex(row.name), *([latex(row.model)] if names[1:] else [])]
        for column, cell, published in zip(table.columns, row.cells, printed, strict=True):
            cells.append(_latex_value(cell, column))
            if published:
                cells.append(latex(cell.published.printed) if cell and cell.published else "")
        groups[row.kind].append(cells)
    columns = f"{'l' * len(names)}{'r' * (len(heads) - len(names))}"
    return _tabular(f"{table.alias}, version {table.version}", columns, heads, [*filter(None, groups.values())])


def _latex_value(cell: Cell | None, column: Column) -> str:
    if cell is None or not (text := value_text(cell, column)):
        return ""
    command = {1: r"\best", 2: r"\second"}.get(cell.rank or 0)
    number = f"{command}{{{latex(text)}}}" if command else latex(text)
    return number + (rf"\textsuperscript{{{latex(cell.group)}}}" if cell.group else "")


def _latex_suite(suite: SuiteTable) -> str:
    def text(cell: SuiteCell) -> str:
        return (latex(cell.measured) or "--") + (f" ({latex(cell.printed)})" if cell.printed else "")

    lines = [[latex(label), *(text(cell) if cell else "" for cell in cells)] for label, cells in suite.rows]
    heads = ["", *map(latex, suite.heads)]
    return _tabular(f"{suite.about} Ours (published).", f"l{'r' * len(suite.heads)}", heads, [lines])


def _tabular(comment: str, columns: str, heads: Sequence[str], groups: Sequence[Sequence[Sequence[str]]]) -> str:
    lines = [f"% {' '.join(comment.split())}", _HEAD.rstrip("\n"), rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines.append(_joined(heads))
    for rows in groups:
        lines += [r"\midrule", *map(_joined, rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _joined(cells: Sequence[str]) -> str:
    # LaTeX reads a bracket after \\ as its argument, so {} precedes a bracket at the start of a line.
    first, *others = cells
    return " & ".join([f"{{}}{first}" if first.startswith(("[", "*")) else first, *others]) + r" \\"


# --- JSON and CSV


def json_file(board: Board, files: Sequence[str] = ()) -> bytes:
    """Return ``leaderboard.json``: the whole leaderboard, without the records of its runs.

    Args:
        board: The leaderboard.
        files: The other files of the leaderboard, relative to its folder.
    """
    values = {
        "schema_version": SCHEMA_VERSION,
        "tables": [{**vars(table), "anchor": table.anchor} for table in board.tables],
        "suites": board.suites,
        "ranks": [
            {**vars(ranks), "tau": [{"first": a, "second": b, "tau": tau} for (a, b), tau in ranks.tau.items()]}
            for ranks in board.ranks
        ],
        "runs": list(map(_run_fields, board.runs)),
        "left_out": board.left_out,
        "files": sorted(files),
    }
    return (json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False, default=vars) + "\n").encode()


def _run_fields(run: BoardRun) -> dict[str, Any]:
    record = run.record
    known = {"key": run.key, "task": record.task, "model": record.model_name, "fingerprint": record.fingerprint}
    return {**known, "date": record.date, "marks": run.marks}


def csv_file(board: Board) -> dict[str, bytes]:
    """Return ``leaderboard.csv``: one row per value, unscaled (a tau of 0.439).

    The column ``ranks`` has the range of ranks that the tests do not exclude, where captioners were compared by tests.
    """
    rows = [
        {
            **(vars(cell.published) if cell.published else {}),
            **vars(table), **vars(column), **vars(row), **vars(cell),
            "column": column.key,
            "n": cell.n if row.kind == "measured" else None,
            "ranks": cell.ranks,
            "published": cell.published and cell.published.value,
            "marks": "; ".join(row.marks),
        }
        for table in board.tables
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell is not None
    ]  # fmt: skip
    return {"leaderboard.csv": (csv_text(rows, _CSV_COLUMNS) + "\n").encode()}
