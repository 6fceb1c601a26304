"""How metrics, or models, rank over tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ..protocols.contract import Subject
from ..statistics.concordance import Concordance
from .board import Column, RankTable, TaskTable
from .task_tables import main_column

_LEAST = 3
"""So many must be shared before rankings are compared."""


def rank_tables(tables: Sequence[TaskTable]) -> tuple[RankTable, ...]:
    """Return how rows of the newest version of each task rank, for metrics and for models.

    Tasks that share fewer than three rows with every other one are left out. Ranks are among the rows that all of
    these tasks have; where those are fewer than three, among the rows that two or more have, None where a task
    lacks one.
    """
    found = (_rank_table(subject, newest_tables(tables)) for subject in ("metric", "model"))
    return tuple(one for one in found if one is not None)


def newest_tables(tables: Sequence[TaskTable]) -> list[TaskTable]:
    """Return the table of the newest version of each task, which comes first among those of its task."""
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
        and len(values := _values(table, column)) >= _LEAST
    ]
    scored = [
        (table, column, values)
        for table, column, values in scored
        if any(len(values.keys() & other.keys()) >= _LEAST for one, _, other in scored if one is not table)
    ]
    if len(scored) < 2:
        return None
    all_values = [values for _, _, values in scored]
    counts = Counter(name for values in all_values for name in values)
    names = [name for name, count in counts.items() if count == len(scored)]
    if len(names) < _LEAST:
        names = [name for name, count in counts.items() if count > 1]
    by_task = [_ranks({name: values[name] for name in names if name in values}) for values in all_values]
    ranks = {name: tuple(of_task.get(name) for of_task in by_task) for name in names}
    pairs = [(one, other) for one in range(len(scored)) for other in range(one + 1, len(scored))]
    return RankTable(
        subject,
        tuple((table.alias, column.label) for table, column, _ in scored),
        dict(sorted(ranks.items(), key=lambda item: (_mean(item[1]), item[0]))),
        {(one, other): _tau(all_values[one], all_values[other]) for one, other in pairs},
    )


def _values(table: TaskTable, column: Column) -> dict[str, float]:
    """Return the values of the ranked rows, more being better, by the name of the row."""
    place = table.columns.index(column)
    towards = -1 if column.lower_is_better else 1
    return {
        row.full_name: towards * cell.value
        for row in table.rows
        if (cell := row.cells[place]) is not None and cell.rank is not None and cell.value is not None
    }


def _ranks(values: Mapping[str, float]) -> dict[str, int]:
    first: dict[float, int] = {}
    for place, value in enumerate(sorted(values.values(), reverse=True), 1):
        first.setdefault(value, place)
    return {name: first[value] for name, value in values.items()}


def _mean(ranks: Sequence[int | None]) -> float:
    known = [rank for rank in ranks if rank is not None]
    return sum(known) / len(known)


def _tau(first: Mapping[str, float], second: Mapping[str, float]) -> float | None:
    """Return Kendall's τ-b of two rankings over what they share; None for fewer than three, or all tied."""
    shared = list(first.keys() & second.keys())
    if len(shared) < _LEAST:
        return None
    here, there = (np.array([values[name] for name in shared]) for values in (first, second))
    counts = Concordance(here, there).counts(np.ones(len(shared)))
    untied_first, untied_second = counts.pairs - counts.tied_scores, counts.pairs - counts.tied_human
    if not (untied_first and untied_second):
        return None
    return counts.balance / math.sqrt(untied_first * untied_second)
