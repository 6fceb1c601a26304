"""The table of one version of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from ...adapters.aliases import list_aliases
from ...errors import BenchError
from ...tasks.schema import PublishedTable
from ..protocols.contract import Subject
from ..protocols.job import Result
from ..published.values import SPELLINGS, Published, load, papers, printed_decimals
from .board import BoardRow, BoardRun, Cell, Column, PrintedValue, TaskTable
from .measured import MeasuredRow, measured_metrics, measured_models
from .significance import Groups, groups_of_metrics, groups_of_models

_MOST_DECIMALS = 6


def task_table(runs: Sequence[BoardRun]) -> tuple[TaskTable, set[str]]:
    """Return the table of some runs of one task and version, and the keys of the runs that its numbers are of."""
    newest = max(runs, key=lambda run: (run.record.date, run.key)).record
    subject = newest.protocol.subject
    measured = measured_metrics(runs) if subject == "metric" else measured_models(runs)
    columns = _columns(subject, measured)
    main = main_column(subject, columns)
    measured.sort(key=lambda row: _order(row, main))
    ranks = {column.key: _ranks(column, measured) for column in columns}
    groups_of = groups_of_metrics if subject == "metric" else groups_of_models
    groups, notes = groups_of(columns, [row for row in measured if row.ranked])
    rows = [
        BoardRow(
            row.name,
            row.model,
            "measured",
            row.run.key,
            tuple(_cell(row, column, groups, ranks) for column in columns),
            _marks(row),
        )
        for row in measured
    ]
    printed, sources = published_rows(subject, newest.published_table, columns, measured)
    used = {run.key for row in measured for run in row.runs.values()}
    about = " ".join(newest.description.split())
    return (
        TaskTable(
            newest.task,
            newest.alias,
            str(newest.version),
            about,
            subject,
            tuple(columns),
            (*rows, *printed),
            (*sources, *notes),
        ),
        used,
    )


def main_column(subject: Subject, columns: Sequence[Column]) -> Column | None:
    """Return the column that a task is ranked by: the first statistic over all categories, or the first metric."""
    whole = [column for column in columns if subject == "model" or "." not in column.key]
    ranked = [column for column in whole if column.higher_is_better is not None]
    return next(iter(ranked or whole or columns), None)


def _marks(row: MeasuredRow) -> tuple[str, ...]:
    """Return the marks of all runs behind a row, and its own."""
    behind = {run.key: run for run in row.runs.values()}
    of_runs = [mark for key in sorted(behind) for mark in behind[key].marks]
    return tuple(dict.fromkeys([*of_runs, *row.marks]))


def _columns(subject: Subject, measured: Sequence[MeasuredRow]) -> list[Column]:
    # Runs of all data come first, so that their order of columns is that of the table.
    found: dict[str, Result] = {}
    for row in sorted(measured, key=lambda row: (not row.ranked, -row.run.record.date, row.run.key)):
        for key, result in row.results.items():
            found.setdefault(key, result)
    place = 0 if subject == "model" else 1
    labels = [result.label[place] for result in found.values()]
    return [
        Column(
            key,
            _label(key, result.label[place], labels),
            result.scale,
            _decimals(key, result.scale, measured),
            result.higher_is_better,
        )
        for key, result in found.items()
    ]


def _label(key: str, label: str, labels: Sequence[str]) -> str:
    if labels.count(label) == 1:
        return label
    by = key.rpartition(" [")[2].rstrip("]") if key.endswith("]") and " [" in key else key
    return f"{label} ({by})"


def _decimals(key: str, scale: float, measured: Sequence[MeasuredRow]) -> int:
    values = [row.results[key].value for row in measured if key in row.results]
    large = any(value is not None and abs(value) > 10 for value in values)
    printed = [one.printed for row in measured if (one := beside(row, key))]
    return min(_MOST_DECIMALS, max(2 if scale > 1 or large else 4, *map(printed_decimals, printed), 0))


def _order(row: MeasuredRow, main: Column | None) -> tuple[bool, bool, float, str, str]:
    result = row.results.get(main.key) if main else None
    value = result.value if result else None
    towards = 1 if main is not None and main.lower_is_better else -1
    return not row.ranked, value is None, towards * (value or 0.0), row.name, row.model


def _ranks(column: Column, measured: Sequence[MeasuredRow]) -> dict[int, int]:
    """Return the rank of each row that has one, by the row's identity; equal values share the better rank."""
    if column.higher_is_better is None:
        return {}
    values = {
        id(row): result.value
        for row in measured
        if row.ranked and (result := row.results.get(column.key)) and result.value is not None
    }
    towards = 1 if column.higher_is_better else -1
    first: dict[float, int] = {}
    for place, value in enumerate(sorted(values.values(), key=lambda value: -towards * value), 1):
        first.setdefault(value, place)
    return {row: first[value] for row, value in values.items()}


def _cell(row: MeasuredRow, column: Column, groups: Groups, ranks: Mapping[str, Mapping[int, int]]) -> Cell | None:
    result = row.results.get(column.key)
    if result is None:
        return None
    group = groups.get(column.key, {}).get(id(row))
    return Cell(
        result.value,
        result.interval.low if result.interval else None,
        result.interval.high if result.interval else None,
        result.n,
        beside(row, column.key),
        group.letters if group else "",
        ranks[column.key].get(id(row)),
        result.reason if result.value is None else "",
        group.ranks if group and column.higher_is_better is not None else None,
    )


def beside(row: MeasuredRow, column: str) -> PrintedValue | None:
    """Return what a paper prints for a number that was measured, as its record says."""
    if column not in row.runs:
        return None
    one = row.runs[column].record.published.get(row.keys[column])
    return None if one is None else PrintedValue(one.value, one.printed, _citation(one.paper), one.table)


def published_rows(
    subject: Subject, table: PublishedTable | None, columns: Sequence[Column], measured: Sequence[MeasuredRow]
) -> tuple[list[BoardRow], list[str]]:
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
    here = {task: records_of for task in _paper_tasks(table, columns) if (records_of := records.get(task))}
    covered = _covered(subject, table, measured)
    rows: dict[tuple[str, str], dict[str, PrintedValue]] = {}
    categories = {category for column in columns if (category := column.key.partition(".")[2])}
    for column in columns:
        statistic, _, category = column.key.partition(".")
        if subject == "metric" and not category and table.categories and categories != set(table.categories):
            # The paper's mean is over other categories than ours.
            continue
        for one in here.get(_paper_task(table, category if subject == "metric" else ""), ()):
            printed = PrintedValue(one.value / one.scale, one.printed, one.citation, one.table)
            if subject == "metric" and one.statistic == table.statistics.get(statistic, statistic):
                rows.setdefault((one.metric, one.model or ""), {})[column.key] = printed
            elif (
                subject == "model"
                and one.model
                and _same_metric(one.metric, table.metrics.get(column.label, column.label))
            ):
                rows.setdefault((one.model, ""), {})[column.key] = printed
    found = [
        BoardRow(name, model, "published", "", tuple(_printed_cell(cells.get(column.key)) for column in columns))
        for (name, model), cells in rows.items()
        if (_plain(name) if subject == "metric" else name, model) not in covered
        and (_plain(name) if subject == "metric" else name, None) not in covered
    ]
    return found, [f"Published: {_citation(table.paper)}, Table {table.table}."] if rows else []


def _printed_cell(printed: PrintedValue | None) -> Cell | None:
    return None if printed is None else Cell(None, published=printed)


@cache
def _by_task(paper: str, table: int | str) -> dict[str, list[Published]]:
    found: dict[str, list[Published]] = {}
    for record in load(paper).records:
        if record.table == table:
            found.setdefault(record.task, []).append(record)
    return found


def _paper_task(table: PublishedTable, category: str) -> str:
    return table.task.replace("{category}", category or "mean")


def _paper_tasks(table: PublishedTable, columns: Sequence[Column]) -> list[str]:
    categories = ["", *(column.key.partition(".")[2] for column in columns)]
    return list(dict.fromkeys(_paper_task(table, category) for category in categories))


def _covered(subject: Subject, table: PublishedTable, measured: Sequence[MeasuredRow]) -> set[tuple[str, str | None]]:
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


def _same_metric(one: str, other: str) -> bool:
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
