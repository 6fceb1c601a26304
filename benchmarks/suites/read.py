"""Suites: a published table as a list of runs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from ...errors import TaskError, UsageError, did_you_mean
from ...tasks.schema import Strict, faults_of
from ...tasks.yaml_files import parse
from ..published.values import Published, Table, find

FOLDER = Path(__file__).parent
RECORDED = "recorded"
"""The metric of rows that capbench cannot compute; only precomputed scores fill them."""
REFERENCES = "references"
"""Placeholder metric for statistics of the references themselves."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class SuiteColumn(Strict):
    """Columns of the table that one task fills."""

    task: str = ""
    """The task; left out where ``needs`` says why there is none."""
    printed: str
    """The paper's name of the task; ``{category}`` stands for each of ``categories``."""
    statistics: list[str]
    """The statistics that it prints, by our names."""
    printed_statistics: dict[str, str] = Field(default_factory=dict)
    """The paper's names of statistics, where they differ."""
    categories: list[str] = Field(default_factory=lambda: [""])
    """Categories of the result, ``mean`` for all of the data set; none where the task has none."""
    mean_of: list[str] = Field(default_factory=list)
    """The categories that ``mean`` is of, where the table prints it alone."""
    metric: str | None = None
    """The metric of the column, where columns are metrics and rows are models that write captions."""
    printed_metric: str | None = None
    """The paper's name of it, or of the column; ``{category}`` stands for each of ``categories``."""
    encoder: str | None = None
    """Alias of the encoder of the column's metric."""
    head: str | None = None
    """Head of the column; by default the task and the statistic."""
    images: Annotated[list[str], BeforeValidator(_as_list)] = Field(default_factory=list)
    """The images that it is measured on, where rows may have been trained on some of them (``trained_on``)."""
    only: Annotated[list[str], BeforeValidator(_as_list)] = Field(default_factory=list)
    """The rows that the column is for, by their metric or whole name; all unless given."""
    needs: str = ""
    """Why no task fills the columns."""

    @property
    def name(self) -> str:
        """Name of the column for users: its head, or the paper's name of its metric."""
        return self.head or self.printed_metric or self.metric or ""

    @model_validator(mode="after")
    def _task_or_reason(self) -> SuiteColumn:
        if bool(self.task) == bool(self.needs):
            raise ValueError("a column needs a task, or 'needs' with the reason why there is none")
        if "mean" in self.categories and not self.averaged:
            raise ValueError("a column with only the category mean must list the averaged categories in 'mean_of'")
        return self

    @property
    def averaged(self) -> list[str]:
        """The categories that ``mean`` is of."""
        return self.mean_of or [category for category in self.categories if category != "mean"]


class SuiteRow(Strict):
    """A row of the table: a metric, a model, or both."""

    metric: str | None = None
    """The metric of the row, where rows are metrics."""
    printed: str | None = None
    """The paper's name of the metric; by default the metric's label."""
    model: str | None = None
    """Alias of the model under test."""
    judge: str | None = None
    """Alias of the judge of the metrics, in addition to a model that writes captions."""
    generation_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Decoding settings of the row, over those of the task and of the user."""
    printed_model: str | None = None
    """The paper's name of the model."""
    only: Annotated[list[str], BeforeValidator(_as_list)] = Field(default_factory=list)
    """The tasks that this row is for; all of the suite unless given."""
    trained_on: Annotated[list[str], BeforeValidator(_as_list)] = Field(default_factory=list)
    """The images that the model was trained on; it has no number in a column that is measured on some of them."""
    needs: str = ""
    """Why the row is not run by a name alone."""
    no_task: str = ""
    """Why no task measures the row, even with a user's inputs."""

    @model_validator(mode="after")
    def _something(self) -> SuiteRow:
        if not (self.metric or self.model or self.printed_model):
            raise ValueError("a row needs 'metric', 'model' or 'printed_model'")
        if self.metric == RECORDED and not self.printed:
            raise ValueError("a row of recorded scores needs the paper's metric name in 'printed'")
        if self.generation_kwargs and not self.model:
            raise ValueError("generation_kwargs need a model, but the row has none")
        return self


class Suite(Strict):
    """A published table, and the runs that reproduce it."""

    suite: str
    """Its name."""
    description: str
    """One sentence for ``bench ls suites``."""
    paper: str
    """Key of the paper, as in ``benchmarks/published``."""
    table: Table
    """Number of its table, or the name of the page."""
    columns: list[SuiteColumn] = Field(min_length=1)
    """In the order of the table."""
    rows: list[SuiteRow] = Field(min_length=1)
    """In the order of the table."""
    note: str = ""
    """Known differences from the paper."""

    def places(self) -> Iterator[tuple[int, SuiteRow, SuiteColumn]]:
        """Yield the row's number, row and column of each place that a run fills."""
        for number, row in enumerate(self.rows):
            names = {self.label(row), self.name(row)}
            for column in self.columns:
                if (not row.only or column.task in row.only) and (not column.only or names & {*column.only}):
                    yield number, row, column

    def published(self, row: SuiteRow, column: SuiteColumn, statistic: str, category: str) -> Published | None:
        """Return the published value of a cell; None without one."""
        if set(row.trained_on) & set(column.images):
            return None
        metric = (column.printed_metric or self.label(row)).format(category=category)
        task = column.printed.format(category=category)
        printed = column.printed_statistics.get(statistic, statistic)
        return find(self.paper, self.table, task, metric, printed, row.printed_model)

    def label(self, row: SuiteRow) -> str:
        """Return the paper's name of a row's metric; empty for a row that is a model."""
        return row.printed or (_label_of(row.metric) if row.metric else "")

    def name(self, row: SuiteRow) -> str:
        """Return the name of a row: its metric, with the model in brackets, or its model."""
        label = self.label(row)
        if label and row.printed_model:
            return f"{label} ({row.printed_model})"
        return label or row.printed_model or row.model or ""


@cache
def _label_of(metric: str) -> str:
    from ...metrics import build_metric
    from ..inputs.settings import read_metric

    entry = read_metric(metric)
    return build_metric(str(entry.metric), entry.arguments).label


def suite_names() -> list[str]:
    """Return the names of the suites."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def list_suites() -> list[Suite]:
    """Return the suites there are, by name."""
    return [_load(path) for path in sorted(FOLDER.glob("*.yaml"))]


def load_suite(name: str) -> Suite:
    """Return a suite by name.

    Raises:
        UsageError: There is none of that name.
        TaskError: Its file is faulty.
    """
    known = suite_names()
    if name not in known:
        raise UsageError(f"unknown suite '{name}'.{did_you_mean(name, known)}", "'bench ls suites' lists all.")
    return _load(FOLDER / f"{name}.yaml")


@cache
def _load(path: Path) -> Suite:
    parsed = parse(path)
    try:
        suite = Suite.model_validate(parsed.values)
    except ValidationError as error:
        raise TaskError("\n".join(faults_of(error, parsed, Suite))) from error
    if suite.suite != path.stem:
        raise TaskError(f"{parsed.where('suite')}: suite '{suite.suite}' must have the name of its file, {path.name}")
    return suite
