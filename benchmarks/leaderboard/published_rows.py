"""The published numbers of a task: beside what was measured, and in rows of their own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ...adapters.aliases import list_aliases
from ...errors import BenchError
from ...tasks.schema import PublishedTable
from ..protocols.contract import Subject
from ..published.values import SPELLINGS, Published, load, papers
from .board import Cell, Column, Printed, Row
from .measured import Measured


def beside(row: Measured, column: str) -> Printed | None:
    """Return what a paper prints for a number that was measured, as its record says."""
    if column not in row.runs:
        return None
    one = row.runs[column].record.published.get(row.keys[column])
    return None if one is None else Printed(one.value, one.printed, _citation(one.paper), one.table)


def published_rows(
    subject: Subject, table: PublishedTable | None, columns: Sequence[Column], measured: Sequence[Measured]
) -> tuple[list[Row], list[str]]:
    """Return a row for everything that the task's published table prints and nobody here measured.

    Args:
        subject: What the rows are.
        table: The published table of the task; None where there is none.
        columns: The columns of the table.
        measured: The rows that were measured.

    Returns:
        The rows in the order of the paper, and notes on where the numbers stand.
    """
    if table is None:
        return [], []
    try:
        records = _by_task(table.paper, table.table)
    except BenchError:
        # A paper that this capbench does not have: its numbers stand beside measured ones all the same.
        return [], []
    here = {task: records_of for task in _tasks(table, columns) if (records_of := records.get(task))}
    covered = _covered(subject, table, measured)
    rows: dict[tuple[str, str], dict[str, Printed]] = {}
    categories = {category for column in columns if (category := column.key.partition(".")[2])}
    for column in columns:
        statistic, _, category = column.key.partition(".")
        if subject == "metric" and not category and table.categories and categories != set(table.categories):
            # The paper's mean is over other categories than ours.
            continue
        for one in here.get(_task(table, category if subject == "metric" else ""), ()):
            printed = Printed(one.value / one.scale, one.printed, one.citation, one.table)
            if subject == "metric" and one.statistic == table.statistics.get(statistic, statistic):
                rows.setdefault((one.metric, one.model or ""), {})[column.key] = printed
            elif (
                subject == "model"
                and one.model
                and _same(one.metric, table.metrics.get(column.label, column.label))
            ):
                rows.setdefault((one.model, ""), {})[column.key] = printed
    found = [
        Row(name, model, "published", "", tuple(_cell(cells.get(column.key)) for column in columns))
        for (name, model), cells in rows.items()
        if (_plain(name) if subject == "metric" else name, model) not in covered
        and (_plain(name) if subject == "metric" else name, None) not in covered
    ]
    return found, [f"Published: {_citation(table.paper)}, Table {table.table}."] if rows else []


def _cell(printed: Printed | None) -> Cell | None:
    return None if printed is None else Cell(None, published=printed)


@cache
def _by_task(paper: str, table: int | str) -> dict[str, list[Published]]:
    found: dict[str, list[Published]] = {}
    for record in load(paper).records:
        if record.table == table:
            found.setdefault(record.task, []).append(record)
    return found


def _task(table: PublishedTable, category: str) -> str:
    return table.task.replace("{category}", category or "mean")


def _tasks(table: PublishedTable, columns: Sequence[Column]) -> list[str]:
    categories = ["", *(column.key.partition(".")[2] for column in columns)]
    return list(dict.fromkeys(_task(table, category) for category in categories))


def _covered(
    subject: Subject, table: PublishedTable, measured: Sequence[Measured]
) -> set[tuple[str, str | None]]:
    """Return the paper's names of the rows that stand beside measured numbers; model None for any."""
    covered: set[tuple[str, str | None]] = set()
    for row in measured:
        if not any(beside(row, column) for column in row.results):
            continue
        if subject == "model":
            covered |= {(name, "") for name in _published_as().get((table.paper, row.name), ())}
            continue
        label = next(iter(row.results.values())).label[0]
        if row.model:
            label = _printed_as().get((table.paper, row.model, label), label)
        covered.add((_plain(table.metrics.get(label, label)), None))
    return covered


def _plain(metric: str) -> str:
    return SPELLINGS.get(metric, metric)


def _same(one: str, other: str) -> bool:
    return _plain(one) == _plain(other)


@cache
def _published_as() -> dict[tuple[str, str], tuple[str, ...]]:
    return {
        (paper, name): tuple(names)
        for name, spec in list_aliases().items()
        for paper, names in spec.published_as.items()
    }


@cache
def _printed_as() -> dict[tuple[str, str, str], str]:
    return {
        (paper, name, label): printed
        for name, spec in list_aliases().items()
        for paper, labels in spec.printed_as.items()
        for label, printed in labels.items()
    }


@cache
def _citation(paper: str) -> str:
    return load(paper).citation if paper in papers() else paper
