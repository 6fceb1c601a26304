"""Plans a suite: which of its cells can be run here, and what the others lack."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...adapters.aliases import resolve_model
from ...errors import BenchError
from ...tasks.index import TaskIndex, build_index
from ...tasks.locate import DataLocations
from ..inputs.models import NamedModels
from ..running.missing import Missing, missing
from ..running.plan import plan_tasks
from .read import Suite, SuiteColumn, SuiteRow


@dataclass(frozen=True)
class RowModels:
    """What tells apart the runs of rows.

    Attributes:
        model: Name of the model.
        encoder: Name of the encoder beside it.
        judge: Name of the judge beside it.
        decoding: How the model decodes, as JSON.
    """

    model: str | None
    encoder: str | None
    judge: str | None
    decoding: str

    @classmethod
    def of(cls, row: SuiteRow) -> RowModels:
        """Return those of a row."""
        return cls(row.model, row.encoder, row.judge, json.dumps(row.generation_kwargs, sort_keys=True))


@dataclass
class SuitePlan:
    """What will be run.

    Attributes:
        ready: By models, the tasks of metrics (none for what the task measures itself) that can be run.
        reasons: By models, task and metric, why the others cannot.
        missing: What the machine lacks for those, each thing once, in the order in which rows need it.
    """

    ready: dict[RowModels, dict[tuple[str, ...], list[str]]] = field(default_factory=dict)
    reasons: dict[tuple[RowModels, str, str], str] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)


def plan_suite(
    suite: Suite,
    *,
    data: Mapping[str, Path] | None = None,
    include_path: Sequence[str | Path] = (),
    allow_outside: Sequence[str | Path] = (),
) -> SuitePlan:
    """Plan every cell of a suite; nothing is loaded, and nothing raises for a cell.

    Args:
        suite: The suite.
        data: Task name to the path of its local data.
        include_path: Folders with task files of the user's own.
        allow_outside: Folders besides those of tasks and data whose files tasks may read.
    """
    index = build_index(include_path)
    locations = DataLocations.from_environment(index.expand_names(data or {}), allow_outside)
    plan = SuitePlan()
    lacking: dict[str, Missing] = {}
    for models, wanted in wanted_runs(suite).items():
        for task, metrics in wanted.items():
            runnable = []
            for metric in metrics:
                key = models, task, metric
                try:
                    gone = list(_missing(index, locations, *key))
                except BenchError as error:
                    plan.reasons[key] = error.message.partition("\n")[0]
                    continue
                if gone:
                    plan.reasons[key] = " ".join(one.what.partition("\n")[0] for one in gone)
                    for one in gone:
                        lacking.setdefault(one.what, one)
                else:
                    runnable.append(metric)
            if runnable:
                plan.ready.setdefault(models, {}).setdefault(tuple(runnable), []).append(task)
    plan.missing = list(lacking.values())
    return plan


def _missing(
    index: TaskIndex, locations: DataLocations, models: RowModels, task: str, metric: str
) -> Iterator[Missing]:
    names = (models.model, models.encoder, models.judge)
    named = NamedModels.of(*(resolve_model(name) if name else None for name in names))
    for planned in plan_tasks(index, [task], named, [metric] if metric else [], locations):
        yield from missing(planned, locations)


def wanted_runs(suite: Suite) -> dict[RowModels, dict[str, list[str]]]:
    """Return, by the models of the rows, the metrics of each task; ``""`` stands for what the task has itself."""
    wanted: dict[RowModels, dict[str, list[str]]] = {}
    for row, column in table_places(suite):
        if not (row.needs or column.needs):
            metrics = wanted.setdefault(RowModels.of(row), {}).setdefault(column.task, [])
            metric = column.metric or row.metric or ""
            if metric not in metrics:
                metrics.append(metric)
    return wanted


def table_places(suite: Suite) -> Iterator[tuple[SuiteRow, SuiteColumn]]:
    """Yield the row and column of each place of the table that is meant to be filled."""
    for row in suite.rows:
        for column in suite.columns:
            if not row.only or column.task in row.only:
                yield row, column
