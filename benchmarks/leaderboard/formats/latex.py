r"""The leaderboard as LaTeX tables, one file a table, to be taken in by ``\input``."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from ..board import Board, BoardRow, Cell, Column, SuiteTable, TaskTable
from .numbers import value_text

_HEAD = r"""% Needs \usepackage{booktabs}. Take it in by \input, inside of a table or where it shall stand.
\providecommand{\best}[1]{\textbf{#1}}
\providecommand{\second}[1]{\underline{#1}}
"""
_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "`": r"\textasciigrave{}", "–": "--", "—": "---", "…": r"\ldots{}",
    "×": r"$\times$", "±": r"$\pm$", "−": r"$-$", "²": r"\textsuperscript{2}", "³": r"\textsuperscript{3}",
    "∞": r"$\infty$", "≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\rightarrow$",
}  # fmt: skip
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "η": "eta", "θ": "theta", "κ": "kappa",
    "λ": "lambda", "μ": "mu", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "χ": "chi", "ω": "omega",
    "Δ": "Delta", "Σ": "Sigma", "Ω": "Omega",
}  # fmt: skip
_LATIN = re.compile(r"[À-ÖØ-öø-ÿ]")


def latex_files(board: Board) -> dict[str, bytes]:
    """Return a file a task table and a file a suite, below ``latex/``."""
    files: dict[str, bytes] = {}
    for name, text in (
        *((table.anchor, _task(table)) for table in board.tables),
        *((f"suite-{suite.suite}", _suite(suite)) for suite in board.suites),
    ):
        files[_free(re.sub(r"[^A-Za-z0-9_-]+", "-", name), files)] = text.encode()
    return files


def escaped(text: str) -> str:
    """Return text that LaTeX prints as it is; a character that it has no letter for becomes its number."""
    plain = unicodedata.normalize("NFC", " ".join(text.split()))
    return "".join(_character(one) for one in plain)


def _character(one: str) -> str:
    if one in _SPECIAL:
        return _SPECIAL[one]
    if one in _GREEK:
        return rf"$\{_GREEK[one]}$"
    if " " <= one <= "~" or _LATIN.fullmatch(one):
        return one
    return f"[U+{ord(one):04X}]"


def _free(name: str, files: dict[str, bytes]) -> str:
    """Return a path that no other file has, on disks that do not tell cases apart, too."""
    taken = {path.casefold() for path in files}
    number, path = 1, f"latex/{name}.tex"
    while path.casefold() in taken:
        number += 1
        path = f"latex/{name}-{number}.tex"
    return path


def _task(table: TaskTable) -> str:
    with_model = any(row.model for row in table.rows)
    first = ["Metric", *(["Model"] if with_model else [])] if table.subject == "metric" else ["Model"]
    printed = [
        any((cell := row.cells[number]) and cell.published for row in table.rows)
        for number in range(len(table.columns))
    ]
    heads = list(first)
    for column, published in zip(table.columns, printed, strict=True):
        heads += [escaped(column.label), *(["published"] if published else [])]
    groups = [[row for row in table.rows if row.kind == kind] for kind in ("measured", "published")]
    lines = [[_line(row, table.columns, printed, with_model) for row in group] for group in groups if group]
    comment = f"{table.alias}, version {table.version}"
    return _tabular(comment, f"{'l' * len(first)}{'r' * (len(heads) - len(first))}", heads, lines)


def _line(row: BoardRow, columns: Sequence[Column], printed: Sequence[bool], with_model: bool) -> list[str]:
    cells = [escaped(row.name), *([escaped(row.model)] if with_model else [])]
    for column, cell, published in zip(columns, row.cells, printed, strict=True):
        cells.append(_value(cell, column))
        if published:
            cells.append(escaped(cell.published.printed) if cell and cell.published else "")
    return cells


def _value(cell: Cell | None, column: Column) -> str:
    if cell is None or not (text := value_text(cell, column)):
        return ""
    command = {1: r"\best", 2: r"\second"}.get(cell.rank or 0)
    number = f"{command}{{{escaped(text)}}}" if command else escaped(text)
    return number + (rf"\textsuperscript{{{escaped(cell.group)}}}" if cell.group else "")


def _suite(suite: SuiteTable) -> str:
    lines = []
    for label, cells in suite.rows:
        texts = []
        for cell in cells:
            printed = f" ({escaped(cell.printed)})" if cell and cell.printed else ""
            texts.append(f"{escaped(cell.measured) or '--'}{printed}" if cell else "")
        lines.append([escaped(label), *texts])
    heads = ["", *map(escaped, suite.heads)]
    return _tabular(f"{suite.about} Ours (published).", f"l{'r' * len(suite.heads)}", heads, [lines])


def _tabular(comment: str, columns: str, heads: Sequence[str], groups: Sequence[Sequence[Sequence[str]]]) -> str:
    return "\n".join(_tabular_lines(comment, columns, heads, groups)) + "\n"


def _tabular_lines(
    comment: str, columns: str, heads: Sequence[str], groups: Sequence[Sequence[Sequence[str]]]
) -> Iterator[str]:
    yield f"% {' '.join(comment.split())}"
    yield _HEAD.rstrip("\n")
    yield rf"\begin{{tabular}}{{{columns}}}"
    yield r"\toprule"
    yield _joined(heads)
    for lines in groups:
        yield r"\midrule"
        yield from map(_joined, lines)
    yield from (r"\bottomrule", r"\end{tabular}")


def _joined(cells: Sequence[str]) -> str:
    # A bracket behind \\ would be read as its argument: the first cell of the next line never begins with one bare.
    first, *others = cells
    return " & ".join([f"{{}}{first}" if first.startswith(("[", "*")) else first, *others]) + r" \\"
