"""Contents of a leaderboard: tables by task and by suite, and their runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ..records.record import Record

MOST_ROWS = 2500
"""Maximum number of rows and runs on one page: about 6 MB of HTML and 0.5 MB of Markdown."""
TOP_ROWS = 10
"""Rows per table on the first page of a large leaderboard."""


def ident(name: str) -> str:
    """Return a name as an ``id`` that needs no escaping in links."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)


@dataclass(frozen=True)
class BoardRun:
    """A run that the leaderboard shows.

    Attributes:
        key: Its folder, relative to the folder of runs, with ``/`` (``flickr8k_expert/no-model/20261120T…``).
        folder: The folder itself.
        record: Its ``run.json``.
        marks: Warnings for comparisons with other runs (``"50 of 400 documents (--limit)"``,
            ``"version 1.0; the task is at 2.0"``, ``"the data failed its checks"``).
    """

    key: str
    folder: Path
    record: Record
    marks: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """Name of the model, or ``no model``."""
        return self.record.model_name or "no model"

    @property
    def began(self) -> str:
        """Start time in UTC, to the minute."""
        return f"{self.record.started:%Y-%m-%d %H:%M}"

    @property
    def folder_name(self) -> str:
        """Last part of its key."""
        return self.key.rsplit("/", 1)[-1]

    @property
    def words(self) -> str:
        """The texts by which pages find it."""
        labels = dict.fromkeys(result.label[0] for result in self.record.results.values())
        return " ".join([self.record.alias, self.record.task, self.model, *labels, *self.marks])


@dataclass(frozen=True)
class OmittedRun:
    """A run that is excluded from the leaderboard.

    Attributes:
        key: See :class:`BoardRun`.
        reason: Why it is excluded, without a full stop.
    """

    key: str
    reason: str


@dataclass(frozen=True)
class PrintedValue:
    """A published value that accompanies or replaces a measured one.

    Attributes:
        value: Unscaled value (a tau of 0.439).
        printed: The value as the paper prints it (``"43.9"``).
        citation: Short citation of the paper.
        table: Number or name of its table.
    """

    value: float
    printed: str
    citation: str
    table: int | str


@dataclass(frozen=True)
class Cell:
    """One table cell; values are unscaled, and tables multiply them by the column's scale.

    Attributes:
        value: The measured value; None where a published row has only the printed one, or there is none.
        low: Lower end of its confidence interval.
        high: Upper end.
        n: Number of rows that the value is computed from.
        published: The corresponding published value.
        group: Significance letters within the column; empty if nothing was tested or there are too many letters.
        rank: 1 for the best measured value of the column; published values have none.
        reason: Why the value is missing.
        rank_range: Best and worst rank that the tests do not exclude; None if nothing was tested.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    published: PrintedValue | None = None
    group: str = ""
    rank: int | None = None
    reason: str = ""
    rank_range: tuple[int, int] | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The confidence interval; None if an end is missing."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def ranks(self) -> str:
        """The range of ranks as ``3–17``; empty if nothing was tested."""
        return "–".join(map(str, dict.fromkeys(self.rank_range or ())))


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes:
        key: Name of the statistic or metric in records (``kendall_c``, ``cider``, ``accuracy.HM``).
        label: Its name in tables.
        scale: Factor by which tables multiply values.
        decimals: Number of decimal places in tables.
        higher_is_better: Direction; None if there is none, in which case rows have no rank.
    """

    key: str
    label: str
    scale: float
    decimals: int
    higher_is_better: bool | None

    @property
    def lower_is_better(self) -> bool:
        """Whether lower values are better."""
        return self.higher_is_better is False


@dataclass(frozen=True)
class BoardRow:
    """A row of a table.

    Attributes:
        name: The metric (``CIDEr``) or the model (``llava-1.5``).
        model: For a metric, the model that it was computed with; empty if it needs none.
        kind: ``measured``, or ``published`` for a row without a run.
        run: Key of its run; empty for published rows.
        cells: One per column; None for an empty cell.
        marks: Those of its run.
    """

    name: str
    model: str
    kind: Literal["measured", "published"]
    run: str
    cells: tuple[Cell | None, ...]
    marks: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name, with the model of a metric in brackets."""
        return f"{self.name} ({self.model})" if self.model else self.name


@dataclass(frozen=True)
class TaskTable:
    """Results for one version of a task: measured rows, best first, then published rows.

    Attributes:
        task: Name of the task.
        alias: Its name in tables.
        version: Its version.
        about: One sentence on what it measures.
        subject: Type of its rows: ``metric`` (rows are metrics, columns statistics) or ``model`` (rows are
            models, columns metrics or measures).
        columns: The columns.
        rows: The rows.
        notes: Notes below the table.
        by_rule: Whether columns are rules that change captions, and the first one is their mean.
    """

    task: str
    alias: str
    version: str
    about: str
    subject: Literal["metric", "model"]
    columns: tuple[Column, ...]
    rows: tuple[BoardRow, ...]
    notes: tuple[str, ...] = ()
    by_rule: bool = False

    def top(self) -> TaskTable:
        """Return the table reduced to its first rows."""
        return replace(self, rows=self.rows[:TOP_ROWS])

    def cells(self, column: Column) -> list[tuple[BoardRow, Cell]]:
        """Return the rows with a cell in a column, and that cell."""
        place = self.columns.index(column)
        return [(row, cell) for row in self.rows if (cell := row.cells[place])]

    @property
    def anchor(self) -> str:
        """Link target of the table, unique within a leaderboard."""
        return f"{self.task}-{self.version}".replace(".", "-")

    @property
    def id(self) -> str:
        """The HTML ``id`` of the table."""
        return f"task-{ident(self.anchor)}"


@dataclass(frozen=True)
class SuiteCell:
    """A cell of a published table, on the paper's scale.

    Attributes:
        measured: The measured value, as text; empty if there is none.
        printed: The published value; empty if there is none.
        difference: Measured minus published, with sign; empty if either is missing.
        run: Key of the run with the measured value.
        reason: Why the measured value is missing.
    """

    measured: str
    printed: str
    difference: str
    run: str
    reason: str


@dataclass(frozen=True)
class SuiteTable:
    """A published table with the measured values.

    Attributes:
        suite: Name of the suite.
        about: One sentence on the table.
        heads: Column headers.
        rows: Row label, and cells by column; None for an empty cell.
        note: A note on comparing measured with published values.
    """

    suite: str
    about: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[SuiteCell | None, ...]], ...]
    note: str = ""

    @property
    def id(self) -> str:
        """The HTML ``id`` of the table."""
        return f"suite-{ident(self.suite)}"

    @property
    def reasons(self) -> list[str]:
        """The reasons for missing values, each once."""
        missing = (cell.reason for _, cells in self.rows for cell in cells if cell and not cell.measured)
        return list(dict.fromkeys(filter(None, missing)))

    @property
    def measured(self) -> int:
        """Number of measured cells."""
        return sum(bool(cell and cell.measured) for _, cells in self.rows for cell in cells)

    @property
    def total(self) -> int:
        """Number of all cells."""
        return sum(cell is not None for _, cells in self.rows for cell in cells)


@dataclass(frozen=True)
class RankTable:
    """Ranks of the same metrics or models across tasks.

    Attributes:
        subject: ``metric`` or ``model``.
        tasks: Aliases of the tasks, each with its ranking column (``("Composite", "τ-c")``).
        ranks: Name to its rank in each task, among the rows that all these tasks have; None if missing.
        tau: Kendall's tau-b between the rankings of two tasks (indices of ``tasks``), over their common rows;
            None for fewer than three common rows.
    """

    subject: Literal["metric", "model"]
    tasks: tuple[tuple[str, str], ...]
    ranks: Mapping[str, tuple[int | None, ...]]
    tau: Mapping[tuple[int, int], float | None]


@dataclass(frozen=True)
class Board:
    """All contents of a leaderboard.

    Attributes:
        tables: By task, sorted by alias; older versions of a task follow the newest.
        suites: Published tables with at least one measured cell.
        ranks: Rank stability, for metrics and for models, if two or more tasks have three or more rows in common.
        runs: The runs that are shown.
        left_out: The excluded runs.
    """

    tables: tuple[TaskTable, ...]
    suites: tuple[SuiteTable, ...]
    ranks: tuple[RankTable, ...]
    runs: tuple[BoardRun, ...]
    left_out: tuple[OmittedRun, ...]

    @property
    def is_large(self) -> bool:
        """Whether all rows are too many for one page, so that it shows only the top of each table."""
        return sum(len(table.rows) for table in self.tables) + len(self.runs) > MOST_ROWS
