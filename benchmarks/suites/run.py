"""Runs the cells of a suite that can be run here, and gives the reasons for the others."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import BenchError
from ...tasks.index import build_index
from ...tasks.locate import DataLocations
from ..api import evaluate
from ..inputs.settings import read_metric
from ..protocols.job import Result
from ..published.values import Published
from ..records.task_run import TaskRun
from ..statistics import statistics
from ..tables.results import tabulated
from ..tables.text import csv_text, show_number
from .inputs import NOTHING, RowInputs
from .places import RowModels, places
from .plan import describe_references, plan_suite
from .read import REFERENCES, Suite, SuiteColumn

Results = Mapping[tuple[RowModels, str, str], Mapping[tuple[str, str], Result]]
"""Results by statistic and category; by models, task and metric (empty for the task's own measures)."""


@dataclass(frozen=True)
class TableCell:
    """One number of the table.

    Attributes:
        label: Name of the row.
        head: Head of the column.
        result: The measured result; None without one.
        published: The published value; None without one.
        reason: Why there is no result.
        is_recorded: Whether the scores are from a user's file.
    """

    label: str
    head: str
    result: Result | None
    published: Published | None
    reason: str = ""
    is_recorded: bool = False


@dataclass
class SuiteRun:
    """A suite that was run.

    Attributes:
        suite: The suite.
        cells: Its cells, row by row.
        runs: The runs behind them.
    """

    suite: Suite
    cells: list[TableCell] = field(default_factory=list)
    runs: list[TaskRun] = field(default_factory=list)


def run_suite(
    suite: Suite,
    *,
    inputs: RowInputs = NOTHING,
    data: Mapping[str, Path] | None = None,
    on_missing: Callable[[list[BenchError]], None] = lambda missing: None,
    on_finish: Callable[[TaskRun], None] = lambda run: None,
    **options: Any,
) -> SuiteRun:
    """Run every cell of a suite that data and weights here allow.

    Args:
        suite: The suite.
        inputs: User-provided inputs for its rows.
        data: Task name to the path of its local data.
        on_missing: Called before the runs with missing data and weights, each once.
        on_finish: Called with each finished run.
        **options: As :func:`capbench.evaluate` takes them (``output_path``, ``store``, ``resamples``, ...).

    Returns:
        All cells, with the reason for those that could not be run.
    """
    finished, decoding = SuiteRun(suite), options.pop("generation_kwargs", {})
    index = build_index(options.get("include_path", ()))
    locations = DataLocations.from_environment(index.expand_names(data or {}), options.get("allow_outside", ()))
    plan = plan_suite(suite, index, locations, inputs)
    on_missing(plan.missing)
    results: dict[tuple[RowModels, str, str], dict[tuple[str, str], Result]] = {}

    def keep(run: TaskRun, models: RowModels, asked: Mapping[str, str]) -> None:
        finished.runs.append(run)
        for result in run.results:
            key = (models, run.record.task, asked.get(result.metric, result.metric))
            results.setdefault(key, {})[result.statistic, result.category] = result
        for metric, reason in run.record.metric_errors.items():
            plan.reasons[models, run.record.task, asked.get(metric, metric)] = reason.partition("\n")[0]
        on_finish(run)

    for models, ready in plan.ready.items():
        for metrics, tasks in ready.items():
            try:
                if REFERENCES in metrics:
                    for task in tasks:
                        results[models, task, REFERENCES] = describe_references(index, locations, task)
                else:
                    asked = {read_metric(name).called: name for name in metrics if name}
                    evaluate(
                        tasks=tasks,
                        metrics=[metric for metric in metrics if metric],
                        data=dict(data or {}),
                        on_finish=partial(keep, models=models, asked=asked),
                        generation_kwargs={**decoding, **models.decoding},
                        **models.named(),
                        **options,
                    )
            except BenchError as error:
                for task in tasks:
                    for metric in metrics:
                        plan.reasons.setdefault((models, task, metric), error.message.partition("\n")[0])
    finished.cells += suite_cells(suite, results, plan.reasons, inputs)
    return finished


def suite_cells(
    suite: Suite, results: Results, reasons: Mapping[tuple[RowModels, str, str], str], inputs: RowInputs = NOTHING
) -> Iterator[TableCell]:
    """Yield the cells of a suite, row by row.

    Args:
        suite: The suite.
        results: The measured results.
        reasons: Reasons for missing results, by models, task and metric.
        inputs: User-provided inputs for its rows.
    """
    for place in places(suite, inputs):
        row, column = place.row, place.column
        # A task may have one measure itself, under any name.
        keys = [place.key] if place.metric else [key for key in results if key[:2] == place.key[:2]]
        by_statistic = results.get(keys[0], {}) if keys and not place.needs else {}
        for statistic in column.statistics:
            for category in column.categories:
                result = by_statistic.get((statistic, "" if category == "mean" else category))
                reason = place.needs or reasons.get(place.key, "") or (result.reason if result else "")
                here = {category for _, category in by_statistic}
                lacking = [category for category in column.averaged if category not in here]
                if result is not None and category == "mean" and lacking:
                    result, reason = None, f"the data here lacks {', '.join(lacking)}"
                published = suite.published(row, column, statistic, category)
                measured = result if result is not None and result.value is not None else None
                is_recorded = measured is not None and place.recorded is not None
                head = _head(column, statistic, category)
                yield TableCell(suite.name(row), head, measured, published, reason, is_recorded)


def _head(column: SuiteColumn, statistic: str, category: str) -> str:
    if column.head:
        return column.head.format(category=category, statistic=statistic)
    label = statistics[statistic].label if statistic in statistics else ""
    return " ".join(filter(None, (column.printed.format(category=category), label)))


_RECORDED = "rec"


def suite_rows(run: SuiteRun) -> list[dict[str, Any]]:
    """Return a flat dict a cell, values unscaled."""
    return [
        {
            "suite": run.suite.suite,
            "row": cell.label,
            "column": cell.head,
            "value": cell.result.value if cell.result else None,
            "low": cell.result.interval.low if cell.result and cell.result.interval else None,
            "high": cell.result.interval.high if cell.result and cell.result.interval else None,
            "published": cell.published.value / cell.published.scale if cell.published else None,
            "recorded": cell.is_recorded,
            "reason": "" if cell.result else cell.reason,
        }
        for cell in run.cells
    ]


def render_suite(run: SuiteRun, fmt: str = "github") -> str:
    """Return a suite as a table: ``github`` or ``latex`` as papers print it, ``csv`` or ``json`` a row a cell.

    A cell is ``ours (published)``; a number in brackets refers to the reason of a missing value, and a mark denotes
    recorded scores.
    """
    if fmt == "json":
        return json.dumps(suite_rows(run), indent=2, ensure_ascii=False, allow_nan=False)
    if fmt == "csv":
        return csv_text(suite_rows(run))
    reasons: dict[str, int] = {}
    table: dict[str, dict[str, str]] = {}
    heads = list(dict.fromkeys(cell.head for cell in run.cells))
    for cell in run.cells:
        # Two rows of one label are merged, such as a table's metrics of images and of videos.
        table.setdefault(cell.label, {})[cell.head] = _text(cell, reasons)
    rows = [{"": label, **{head: cells.get(head, "") for head in heads}} for label, cells in table.items()]
    notes = [f"[{number}] {reason}" for reason, number in reasons.items()]
    if any(cell.is_recorded for cell in run.cells):
        notes.insert(0, f"[{_RECORDED}] from scores of a file of --recorded, not computed here")
    return "\n".join(
        [tabulated(rows, fmt), "", "ours (published)", *notes, *([run.suite.note] if run.suite.note else [])]
    )


def _text(cell: TableCell, reasons: dict[str, int]) -> str:
    scale = cell.published.scale if cell.published else cell.result.scale if cell.result else 1.0
    printed = f" ({cell.published.printed})" if cell.published else ""
    if cell.result is None or cell.result.value is None:
        mark = f" [{reasons.setdefault(cell.reason, len(reasons) + 1)}]" if cell.reason else ""
        return f"-{printed}{mark}"
    decimals = max(2, cell.published.decimals if cell.published else 0)
    mark = f" [{_RECORDED}]" if cell.is_recorded else ""
    return f"{show_number(cell.result.value * scale, decimals)}{printed}{mark}"
