"""What a leaderboard shows: tables by task and by suite, and the runs behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ..records.record import Record

MOST_ROWS = 2500
"""Rows, and runs, that one page shows: about 6 MB of HTML, and half a megabyte of Markdown."""
TOP_ROWS = 10
"""Rows of each table on the first page of a leaderboard that has more."""


@dataclass(frozen=True)
class BoardRun:
    """A run that the leaderboard is made from.

    Attributes:
        key: Its folder below that of the runs, with ``/`` (``flickr8k_expert/no-model/20261120T…``).
        folder: The folder itself.
        record: Its ``run.json``.
        marks: What a reader must know before comparing it (``"50 of 400 documents (--limit)"``,
            ``"version 1.0; the task is at 2.0"``, ``"the data failed its checks"``).
    """

    key: str
    folder: Path
    record: Record
    marks: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The model, as text."""
        return self.record.model_name or "no model"

    @property
    def began(self) -> str:
        """When it began, in UTC, to the minute."""
        return f"{self.record.started:%Y-%m-%d %H:%M}"


@dataclass(frozen=True)
class OmittedRun:
    """A run that the leaderboard does not show.

    Attributes:
        key: As of :class:`BoardRun`.
        reason: Why, in a sentence without a full stop.
    """

    key: str
    reason: str


@dataclass(frozen=True)
class PrintedValue:
    """A published number beside a measured one, or in place of one.

    Attributes:
        value: Plain value (a tau of 0.439).
        printed: As the paper prints it (``"43.9"``).
        citation: The paper in a few words.
        table: Its table.
    """

    value: float
    printed: str
    citation: str
    table: int | str


@dataclass(frozen=True)
class Cell:
    """One number of a table; plain values, to be shown times the column's scale.

    Attributes:
        value: The measured value; None where a published row has only the printed one, or there is none.
        low: Lower end of its confidence interval.
        high: Upper end.
        n: Rows behind it.
        published: What a paper prints for the same thing.
        group: Significance letters within the column; empty where nothing was tested, and where they would be too
            many to read.
        rank: 1 for the best measured value of the column; published values have none.
        reason: Why there is no value.
        rank_range: Best and worst rank within the column that tests leave open; None where nothing was tested here.
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


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes:
        key: The statistic, or the metric, as records call it (``kendall_c``, ``cider``, ``accuracy.HM``).
        label: As tables print it.
        scale: Tables show values times this.
        decimals: Digits behind the point that tables show.
        higher_is_better: Whether more is better; None where that says nothing, and nobody is ranked.
    """

    key: str
    label: str
    scale: float
    decimals: int
    higher_is_better: bool | None

    @property
    def lower_is_better(self) -> bool:
        """Whether the least value is the best."""
        return self.higher_is_better is False


@dataclass(frozen=True)
class BoardRow:
    """A row of a table.

    Attributes:
        name: The metric (``CIDEr``) or the model (``llava-1.5``).
        model: Beside a metric: the model that it was computed with; empty where it needs none.
        kind: ``measured``, or ``published`` for a row that nobody here has run.
        run: Key of its run; empty for published rows.
        cells: One a column, None where it has none.
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
    """All numbers of one version of a task, measured rows best first, then the published ones.

    Attributes:
        task: Name of the task.
        alias: Its name in tables.
        version: Its version.
        about: What it measures, in a sentence.
        subject: What its rows are: ``metric`` (rows are metrics, columns statistics) or ``model`` (rows are
            models, columns metrics or measures).
        columns: The columns.
        rows: The rows.
        notes: What a reader must know.
    """

    task: str
    alias: str
    version: str
    about: str
    subject: Literal["metric", "model"]
    columns: tuple[Column, ...]
    rows: tuple[BoardRow, ...]
    notes: tuple[str, ...] = ()

    def top(self) -> TaskTable:
        """Return the table with its first rows alone."""
        return replace(self, rows=self.rows[:TOP_ROWS])

    @property
    def anchor(self) -> str:
        """Name of the table in links, unique within a leaderboard."""
        return f"{self.task}-{self.version}".replace(".", "-")


@dataclass(frozen=True)
class SuiteCell:
    """A cell of a published table, on the scale that the paper prints.

    Attributes:
        measured: Ours, as text; empty where nothing was measured.
        printed: The paper's; empty where it prints nothing.
        difference: Ours minus the paper's, with sign; empty where one is missing.
        run: Key of the run behind ours.
        reason: Why nothing was measured.
    """

    measured: str
    printed: str
    difference: str
    run: str
    reason: str


@dataclass(frozen=True)
class SuiteTable:
    """A published table beside what was measured.

    Attributes:
        suite: Name of the suite.
        about: What it is, in a sentence.
        heads: What stands above the columns.
        rows: What a row is called, and its cells by column; None where the table has none.
        note: What to know when the two are compared.
    """

    suite: str
    about: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[SuiteCell | None, ...]], ...]
    note: str = ""

    @property
    def measured(self) -> int:
        """Number of cells that were measured."""
        return sum(bool(cell and cell.measured) for _, cells in self.rows for cell in cells)

    @property
    def total(self) -> int:
        """Number of cells."""
        return sum(cell is not None for _, cells in self.rows for cell in cells)


@dataclass(frozen=True)
class RankTable:
    """How the same metrics, or models, rank over tasks.

    Attributes:
        subject: ``metric`` or ``model``.
        tasks: Aliases of the tasks, each with the column that its ranking is by (``("Composite", "τ-c")``).
        ranks: Name to its rank in each task among those that all these tasks have; None where it is missing.
        tau: Kendall's tau-b between the rankings of two tasks (indices of ``tasks``), over what they share;
            None where they share fewer than three.
    """

    subject: Literal["metric", "model"]
    tasks: tuple[tuple[str, str], ...]
    ranks: Mapping[str, tuple[int | None, ...]]
    tau: Mapping[tuple[int, int], float | None]


@dataclass(frozen=True)
class Board:
    """A leaderboard.

    Attributes:
        tables: By task, in order of their aliases; older versions of a task after the newest.
        suites: Published tables of which at least one cell was measured.
        ranks: Rank stability, for metrics and for models, where two tasks or more share three or more.
        runs: The runs that are shown.
        left_out: The runs that are not.
    """

    tables: tuple[TaskTable, ...]
    suites: tuple[SuiteTable, ...]
    ranks: tuple[RankTable, ...]
    runs: tuple[BoardRun, ...]
    left_out: tuple[OmittedRun, ...]

    @property
    def is_large(self) -> bool:
        """Whether one page would be too long to be opened and read, so that it shows the top of each table."""
        return sum(len(table.rows) for table in self.tables) + len(self.runs) > MOST_ROWS
