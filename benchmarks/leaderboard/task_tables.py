"""The table of one version of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..protocols.contract import Subject
from ..protocols.results import Result
from ..published.values import printed_decimals
from .board import BoardRun, Cell, Column, Row, TaskTable
from .measured import Measured, measured_metrics, measured_models
from .published_rows import beside, published_rows
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
        Row(
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


def _marks(row: Measured) -> tuple[str, ...]:
    """Return the marks of all runs behind a row, and its own."""
    behind = {run.key: run for run in row.runs.values()}
    of_runs = [mark for key in sorted(behind) for mark in behind[key].marks]
    return tuple(dict.fromkeys([*of_runs, *row.marks]))


def _columns(subject: Subject, measured: Sequence[Measured]) -> list[Column]:
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


def _decimals(key: str, scale: float, measured: Sequence[Measured]) -> int:
    values = [row.results[key].value for row in measured if key in row.results]
    large = any(value is not None and abs(value) > 10 for value in values)
    printed = [one.printed for row in measured if (one := beside(row, key))]
    return min(_MOST_DECIMALS, max(2 if scale > 1 or large else 4, *map(printed_decimals, printed), 0))


def _order(row: Measured, main: Column | None) -> tuple[bool, bool, float, str, str]:
    result = row.results.get(main.key) if main else None
    value = result.value if result else None
    towards = 1 if main is not None and main.lower_is_better else -1
    return not row.ranked, value is None, towards * (value or 0.0), row.name, row.model


def _ranks(column: Column, measured: Sequence[Measured]) -> dict[int, int]:
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


def _cell(
    row: Measured,
    column: Column,
    groups: Groups,
    ranks: Mapping[str, Mapping[int, int]],
) -> Cell | None:
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
