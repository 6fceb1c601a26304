"""Runs a suite: what can be run here is run, and the rest says what it needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...adapters.aliases import resolve_model
from ...errors import BenchError
from ...tasks.index import TaskIndex, build_index
from ...tasks.locate import DataLocations
from ..api import evaluate
from ..inputs.models import NamedModels
from ..protocols.results import Result
from ..published.values import Published
from ..records.task_run import TaskRun
from ..running.plan import make_plan
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


Found = Mapping[tuple[RowModels, str, str], Mapping[tuple[str, str], Result]]
"""By models, task and metric (empty for what a task measures itself): results by statistic and category."""


@dataclass(frozen=True)
class Cell:
    """One number of the table.

    Attributes:
        label: What the row is called.
        head: What stands above the column.
        result: What was measured; None if it was not.
        published: What the paper prints; None if it prints nothing there.
        reason: Why nothing was measured.
    """

    label: str
    head: str
    result: Result | None
    published: Published | None
    reason: str = ""


@dataclass
class SuiteRun:
    """A suite that was run.

    Attributes:
        suite: The suite.
        cells: Its cells, row by row.
        runs: The runs behind them.
    """

    suite: Suite
    cells: list[Cell] = field(default_factory=list)
    runs: list[TaskRun] = field(default_factory=list)


def run_suite(
    suite: Suite,
    *,
    data: Mapping[str, Path] | None = None,
    on_finish: Callable[[TaskRun], None] = lambda run: None,
    **options: Any,
) -> SuiteRun:
    """Run every cell of a suite that data and weights here allow.

    Args:
        suite: The suite.
        data: Task name to the path of its local data.
        on_finish: Called with each finished run.
        **options: As :func:`capbench.evaluate` takes them (``output_path``, ``store``, ``resamples``, ...).

    Returns:
        All cells; those that could not be run have the reason.
    """
    index = build_index(options.get("include_path", ()))
    named = index.expand_names(data or {})
    locations = DataLocations.from_environment(named, options.get("allow_outside", ()))
    finished, decoding = SuiteRun(suite), options.pop("generation_kwargs", {})
    found: dict[tuple[RowModels, str, str], dict[tuple[str, str], Result]] = {}
    reasons: dict[tuple[RowModels, str, str], str] = {}
    for models, wanted in wanted_runs(suite).items():
        ready = {}
        for task, metrics in wanted.items():
            runnable, refused = _runnable(index, locations, models, task, metrics)
            reasons.update({(models, task, metric): reason for metric, reason in refused.items()})
            if runnable:
                ready.setdefault(tuple(runnable), []).append(task)
        for metrics, tasks in ready.items():

            def keep(run: TaskRun, models: RowModels = models) -> None:
                finished.runs.append(run)
                for result in run.results:
                    key = (models, run.record.task, result.metric)
                    found.setdefault(key, {})[result.statistic, result.category] = result
                for metric, reason in run.failed_metrics.items():
                    reasons[models, run.record.task, metric] = reason
                on_finish(run)

            try:
                evaluate(
                    models.model,
                    tasks,
                    encoder=models.encoder,
                    judge=models.judge,
                    metrics=[metric for metric in metrics if metric],
                    data=dict(data or {}),
                    on_finish=keep,
                    generation_kwargs={**decoding, **json.loads(models.decoding)},
                    **options,
                )
            except BenchError as error:
                for task in tasks:
                    for metric in metrics:
                        reasons.setdefault((models, task, metric), _one_line(error))
    finished.cells += suite_cells(suite, found, reasons)
    return finished


def wanted_runs(suite: Suite) -> dict[RowModels, dict[str, list[str]]]:
    """Return, by the models of the rows, the metrics of each task; ``""`` stands for what the task has itself."""
    wanted: dict[RowModels, dict[str, list[str]]] = {}
    for row, column in _places(suite):
        if not (row.needs or column.needs):
            metrics = wanted.setdefault(RowModels.of(row), {}).setdefault(column.task, [])
            metric = column.metric or row.metric or ""
            if metric not in metrics:
                metrics.append(metric)
    return wanted


def _places(suite: Suite) -> Iterator[tuple[SuiteRow, SuiteColumn]]:
    for row in suite.rows:
        for column in suite.columns:
            if not row.only or column.task in row.only:
                yield row, column


def _runnable(
    index: TaskIndex, locations: DataLocations, models: RowModels, task: str, metrics: list[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the metrics that can be run on a task, and why the others cannot."""
    runnable, refused = [], {}
    for metric in metrics:
        try:
            names = (models.model, models.encoder, models.judge)
            named = NamedModels.of(*(resolve_model(name) if name else None for name in names))
            wanted = [metric] if metric else []
            make_plan(index, [task], models=named, metric_names=wanted, locations=locations)
            runnable.append(metric)
        except BenchError as error:
            refused[metric] = _one_line(error)
    return runnable, refused


def suite_cells(
    suite: Suite, found: Found, reasons: Mapping[tuple[RowModels, str, str], str]
) -> Iterator[Cell]:
    """Yield the cells of a suite, row by row.

    Args:
        suite: The suite.
        found: What was measured.
        reasons: Why it was not, by models, task and metric.
    """
    for row, column in _places(suite):
        metric = column.metric or row.metric or ""
        key = (RowModels.of(row), column.task, metric)
        needs = row.needs or column.needs
        by_statistic = None if needs else found.get(key) if metric else _only(found, key)
        for statistic in column.statistics:
            for category in column.categories:
                result = (by_statistic or {}).get((statistic, "" if category == "mean" else category))
                reason = needs or reasons.get(key, "") or (result.reason if result else "")
                here = {one for _, one in by_statistic or {}}
                lacking = [one for one in column.categories if one not in (*here, "mean")]
                if result is not None and category == "mean" and lacking:
                    result, reason = None, f"the data here lacks {', '.join(lacking)}"
                published = suite.published(row, column, statistic, category)
                measured = result if result is not None and result.value is not None else None
                yield Cell(
                    _row_label(suite, row),
                    _head(column, statistic, category),
                    measured,
                    published,
                    reason,
                )


def _only(found: Found, key: tuple[RowModels, str, str]) -> Mapping[tuple[str, str], Result] | None:
    """Return the results of a task that has one measure of its own, whatever its name."""
    return next((results for (models, task, _), results in found.items() if (models, task) == key[:2]), None)


def _row_label(suite: Suite, row: SuiteRow) -> str:
    label = suite.label(row)
    if label and row.printed_model:
        return f"{label} ({row.printed_model})"
    return label or row.printed_model or row.model or ""


def _head(column: SuiteColumn, statistic: str, category: str) -> str:
    from ..statistics import statistics

    label = statistics[statistic].label if statistic in statistics else ""
    return column.head or " ".join(filter(None, (column.printed.format(category=category), label)))


def _one_line(error: BenchError) -> str:
    return error.message.partition("\n")[0]
