"""The table of one version of a task."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from statistics import fmean
from typing import TypeVar

import numpy as np

from ...adapters.aliases import list_aliases
from ...errors import BenchError
from ...tasks.schema import PublishedTable
from ..protocols.contract import Subject
from ..protocols.job import Result
from ..published.values import SPELLINGS, Published, citation, load, printed_decimals
from ..statistics.concordance import Concordance
from ..tables.text import decimals_for
from .board import BoardRow, BoardRun, Cell, Column, PrintedValue, RankTable, TaskTable
from .measured import Groups, MeasuredRow, groups_of_metrics, groups_of_models, measured_metrics, measured_models

_MOST_DECIMALS = 6
_Name = TypeVar("_Name")


def task_table(runs: Sequence[BoardRun]) -> tuple[TaskTable, set[str]]:
    """Return the table for runs of one task and version, and the keys of the runs that it uses."""
    newest = max(runs, key=lambda run: (run.record.date, run.key)).record
    subject = newest.protocol.subject
    measured = measured_metrics(runs) if subject == "metric" else measured_models(runs)
    columns = _columns(subject, measured)
    main = main_column(subject, columns)
    measured.sort(key=lambda row: _order(row, main))
    ranks = {column.key: _ranks(column, measured) for column in columns}
    groups_of = groups_of_metrics if subject == "metric" else groups_of_models
    groups, notes = groups_of(columns, [row for row in measured if row.ranked])
    rows: list[BoardRow] = []
    for row in measured:
        cells = tuple(_cell(row, column, groups, ranks) for column in columns)
        rows.append(BoardRow(row.name, row.model, "measured", row.run.key, cells, _marks(row)))
    printed, sources = published_rows(subject, newest.published_table, columns, measured)
    used = {value.run.key for row in measured for value in row.values.values()}
    names = newest.task, newest.alias, str(newest.version), " ".join(newest.description.split())
    by_rule = newest.protocol.by_rule
    return TaskTable(*names, subject, tuple(columns), (*rows, *printed), (*sources, *notes), by_rule), used


def main_column(subject: Subject, columns: Sequence[Column]) -> Column | None:
    """Return the ranking column of a task: the first statistic over all categories, or the first metric."""
    whole = whole_columns(subject, columns)
    ranked = [column for column in whole if column.higher_is_better is not None]
    return next(iter(ranked or whole or columns), None)


def whole_columns(subject: Subject, columns: Sequence[Column]) -> list[Column]:
    """Return the columns over all categories."""
    return [column for column in columns if subject == "model" or "." not in column.key]


def _marks(row: MeasuredRow) -> tuple[str, ...]:
    """Return the marks of a row and of all its runs."""
    behind = {value.run.key: value.run for value in row.values.values()}
    of_runs = [mark for key in sorted(behind) for mark in behind[key].marks]
    return tuple(dict.fromkeys([*of_runs, *row.marks]))


def _columns(subject: Subject, measured: Sequence[MeasuredRow]) -> list[Column]:
    # Runs on all the data come first and set the order of columns.
    results: dict[str, Result] = {}
    for row in sorted(measured, key=lambda row: (not row.ranked, -row.run.record.date, row.run.key)):
        for key, value in row.values.items():
            results.setdefault(key, value.result)
    place = 0 if subject == "model" else 1
    labels = [result.label[place] for result in results.values()]
    columns: list[Column] = []
    for key, result in results.items():
        label, decimals = _label(key, result.label[place], labels), _decimals(key, result.scale, measured)
        columns.append(Column(key, label, result.scale, decimals, result.higher_is_better))
    return columns


def _label(key: str, label: str, labels: Sequence[str]) -> str:
    if labels.count(label) == 1:
        return label
    by = key.rpartition(" [")[2].rstrip("]") if key.endswith("]") and " [" in key else key
    return f"{label} ({by})"


def _decimals(key: str, scale: float, measured: Sequence[MeasuredRow]) -> int:
    shown = decimals_for(scale, (row.values[key].result.value for row in measured if key in row.values))
    printed = [printed_decimals(number.printed) for row in measured if (number := beside(row, key))]
    return min(_MOST_DECIMALS, max(shown, *printed, 0))


def _order(row: MeasuredRow, main: Column | None) -> tuple[bool, bool, float, str, str]:
    value = row.value(main.key) if main else None
    towards = 1 if main is not None and main.lower_is_better else -1
    return not row.ranked, value is None, towards * (value or 0.0), row.name, row.model


def _ranks(column: Column, measured: Sequence[MeasuredRow]) -> dict[int, int]:
    """Return the rank of each ranked row, by the ``id`` of the row."""
    if column.higher_is_better is None:
        return {}
    values = {id(row): value for row in measured if row.ranked and (value := row.value(column.key)) is not None}
    towards = 1 if column.higher_is_better else -1
    return _with_ties({row: towards * value for row, value in values.items()})


def _with_ties(values: Mapping[_Name, float]) -> dict[_Name, int]:
    """Return the rank of each value, 1 for the greatest; ties get the better rank."""
    rising = sorted(values.values())
    return {name: len(rising) - bisect_right(rising, value) + 1 for name, value in values.items()}


def _cell(row: MeasuredRow, column: Column, groups: Groups, ranks: Mapping[str, Mapping[int, int]]) -> Cell | None:
    if column.key not in row.values:
        return None
    result = row.values[column.key].result
    letters, rank_range = groups.get(column.key, {}).get(id(row), ("", None))
    low, high = (result.interval.low, result.interval.high) if result.interval else (None, None)
    return Cell(
        result.value,
        low,
        high,
        result.n,
        beside(row, column.key),
        letters,
        ranks[column.key].get(id(row)),
        result.reason if result.value is None else "",
        rank_range if column.higher_is_better is not None else None,
    )


def beside(row: MeasuredRow, column: str) -> PrintedValue | None:
    """Return the published counterpart of a measured value, from the run's record."""
    if column not in row.values:
        return None
    number = row.values[column].run.record.published.get(row.values[column].key)
    return None if number is None else PrintedValue(number.value, number.printed, citation(number.paper), number.table)


def published_rows(
    subject: Subject, table: PublishedTable | None, columns: Sequence[Column], measured: Sequence[MeasuredRow]
) -> tuple[list[BoardRow], list[str]]:
    """Return the rows of the task's published table that were not measured.

    Args:
        subject: Type of the rows.
        table: The published table of the task; None if there is none.
        columns: The columns of the table.
        measured: The measured rows.

    Returns:
        The rows in the order of the paper, and notes that cite the published table.
    """
    if table is None:
        return [], []
    try:
        records = _by_task(table.paper, table.table)
    except BenchError:
        # The installed capbench lacks the paper; records still have the published values of measured rows.
        return [], []
    covered = _covered(subject, table, measured)
    rows: dict[tuple[str, str], dict[str, PrintedValue]] = {}
    categories = {category for column in columns if (category := column.key.partition(".")[2])}
    for column in columns:
        statistic, _, category = column.key.partition(".")
        if subject == "metric" and not category and table.categories and categories != set(table.categories):
            # The paper averages over other categories.
            continue
        category = category if subject == "metric" else ""
        called = table.metrics.get(column.label, column.label)
        for record in records.get(table.task.replace("{category}", category or "mean"), ()):
            printed = PrintedValue(record.value / record.scale, record.printed, record.citation, record.table)
            if subject == "metric" and record.statistic == table.statistics.get(statistic, statistic):
                rows.setdefault((record.metric, record.model or ""), {})[column.key] = printed
            elif subject == "model" and record.model and _plain(record.metric) == _plain(called):
                rows.setdefault((record.model, ""), {})[column.key] = printed
    shown: list[BoardRow] = []
    for (name, model), printed in rows.items():
        if (_plain(name) if subject == "metric" else name) not in covered:
            cells = [Cell(None, published=printed[column.key]) if column.key in printed else None for column in columns]
            shown.append(BoardRow(name, model, "published", "", tuple(cells)))
    return shown, [f"Published: {citation(table.paper)}, Table {table.table}."] if rows else []


@cache
def _by_task(paper: str, table: int | str) -> dict[str, list[Published]]:
    by_task: dict[str, list[Published]] = {}
    for record in load(paper).records:
        if record.table == table:
            by_task.setdefault(record.task, []).append(record)
    return by_task


def _covered(subject: Subject, table: PublishedTable, measured: Sequence[MeasuredRow]) -> set[str]:
    """Return the paper's names of the rows that are shown with measured values."""
    covered: set[str] = set()
    aliases = list_aliases()
    for row in measured:
        if not any(beside(row, column) for column in row.values):
            continue
        if subject == "model":
            covered |= {*aliases[row.name].published_as.get(table.paper, ())} if row.name in aliases else set()
            continue
        label = next(iter(row.values.values())).result.label[0]
        if row.model in aliases:
            label = aliases[row.model].printed_as.get(table.paper, {}).get(label, label)
        covered.add(_plain(table.metrics.get(label, label)))
    return covered


def _plain(metric: str) -> str:
    return SPELLINGS.get(metric, metric)


_LEAST = 3
"""Minimum number of common rows for comparing rankings."""


def rank_tables(tables: Sequence[TaskTable]) -> tuple[RankTable, ...]:
    """Return the ranks of metrics and of models across the newest versions of all tasks.

    Tasks that have fewer than three rows in common with every other task are excluded. Ranks are among the rows that
    all these tasks have. If those are fewer than three, ranks are among the rows that at least two tasks have; the
    rank is None in a task without the row.
    """
    return tuple(filter(None, (_rank_table(subject, newest_tables(tables)) for subject in ("metric", "model"))))


def newest_tables(tables: Sequence[TaskTable]) -> list[TaskTable]:
    """Return the table of the newest version of each task, which is the first table of the task."""
    newest: dict[str, TaskTable] = {}
    for table in tables:
        newest.setdefault(table.task, table)
    return list(newest.values())


def _rank_table(subject: Subject, tables: Sequence[TaskTable]) -> RankTable | None:
    scored = [
        (table, column, values)
        for table in tables
        if table.subject == subject
        and (column := main_column(subject, table.columns))
        and len(values := _ranked_values(table, column)) >= _LEAST
    ]
    scored = [
        (table, column, values)
        for table, column, values in scored
        if any(len(values.keys() & other.keys()) >= _LEAST for rival, _, other in scored if rival is not table)
    ]
    if len(scored) < 2:
        return None
    all_values = [values for _, _, values in scored]
    counts = Counter(name for values in all_values for name in values)
    names = [name for name, count in counts.items() if count == len(scored)]
    if len(names) < _LEAST:
        names = [name for name, count in counts.items() if count > 1]
    by_task = [_with_ties({name: values[name] for name in names if name in values}) for values in all_values]
    ranks = {name: tuple(of_task.get(name) for of_task in by_task) for name in names}
    pairs = combinations(range(len(scored)), 2)
    return RankTable(
        subject,
        tuple((table.alias, column.label) for table, column, _ in scored),
        dict(sorted(ranks.items(), key=lambda item: (fmean(rank for rank in item[1] if rank is not None), item[0]))),
        {(first, other): _tau(all_values[first], all_values[other]) for first, other in pairs},
    )


def _ranked_values(table: TaskTable, column: Column) -> dict[str, float]:
    """Return the values of the ranked rows by name, negated if lower is better."""
    towards = -1 if column.lower_is_better else 1
    return {
        row.full_name: towards * cell.value
        for row, cell in table.cells(column)
        if cell.rank is not None and cell.value is not None
    }


def _tau(first: Mapping[str, float], second: Mapping[str, float]) -> float | None:
    """Return Kendall's τ-b of two rankings over common rows; None for fewer than three, or if all are tied."""
    shared = list(first.keys() & second.keys())
    if len(shared) < _LEAST:
        return None
    here, there = (np.array([values[name] for name in shared]) for values in (first, second))
    counts = Concordance(here, there).counts(np.ones(len(shared)))
    untied_first, untied_second = counts.pairs - counts.tied_scores, counts.pairs - counts.tied_human
    if not (untied_first and untied_second):
        return None
    return counts.balance / math.sqrt(untied_first * untied_second)
