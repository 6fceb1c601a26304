"""Resolves names and checks everything that can be checked before work starts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..adapters.aliases import ModelSpec
from ..errors import MetricError, TaskError, UsageError
from ..metrics import Metric, build_metric
from ..tasks.documents import missing_data
from ..tasks.index import IndexEntry, TaskIndex
from ..tasks.locate import DataLocations
from ..tasks.schema import MetricEntry, StatisticEntry, TaskConfig, load_task
from ..tasks.sources import load_source
from .protocols import protocols
from .protocols.contract import Protocol
from .published_values import find_in
from .statistics import statistics
from .statistics.contract import FunctionStatistic, Statistic


@dataclass(frozen=True)
class PlannedMetric:
    """A metric with its settings, ready to score.

    Attributes:
        name: How the result is called.
        metric: The metric.
        aggregation: How its system-level value is made.
        default_settings: Whether it is the metric as papers print it, not a variant of it.
        error: What the machine lacks for it; empty if it can run.
    """

    name: str
    metric: Metric
    aggregation: str
    default_settings: bool
    error: str = ""


@dataclass(frozen=True)
class PlannedRun:
    """One task and one model, with every name resolved.

    Attributes:
        task: The task.
        path: Its YAML file.
        protocol: What its ``output_type`` does.
        metrics: The metrics, in the task's order.
        statistics: The statistics by name; empty for protocols that have none.
        model: The model, not loaded; None for text metrics on given captions.
        data: Where the local copy of the data is; None if the hub is asked.
    """

    task: TaskConfig
    path: Path
    protocol: Protocol
    metrics: list[PlannedMetric]
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    model: ModelSpec | None = None
    data: Path | None = None


def make_plan(
    index: TaskIndex,
    tasks: Sequence[str],
    *,
    model: ModelSpec | None = None,
    metric_names: Sequence[str] = (),
    locations: DataLocations,
) -> list[PlannedRun]:
    """Plan the runs of some tasks.

    Args:
        index: Known tasks.
        tasks: Names of tasks, groups or tags.
        model: The model; None for tasks that need none.
        metric_names: Metrics in place of those of the task.
        locations: Where local copies of data may be.

    Raises:
        UsageError: A name is unknown, a model is missing, or a metric lacks what it needs.
        TaskError: A task file is faulty.
        MetricError: The machine lacks what every metric of a task needs; a metric that lacks it alone
            is planned with its error, and the others run.
        DataError: A raw data set is not on this machine.
    """
    entries = index.resolve(tasks)
    if not entries:
        raise UsageError("no task was named", "'bench ls tasks' lists what there is.")
    plan = [plan_task(entry, model, metric_names, locations) for entry in entries]
    if model is not None and not any(planned.protocol.needs_captioner for planned in plan):
        names = ", ".join(planned.task.task for planned in plan)
        raise UsageError(
            f"--model {model.name}: no model writes captions for {names}; the metrics score given captions.",
            "Leave --model out.",
        )
    for planned in plan:
        require_one(planned.metrics)
        if planned.task.custom_dataset is not None and planned.data is None:
            raise missing_data(planned.task, load_source(planned.task, planned.path), locations)
    return plan


def require_one(planned: Sequence[PlannedMetric]) -> None:
    """Raise if none of the metrics can run on this machine.

    Raises:
        MetricError: None can; the message is that of the first.
    """
    if planned and all(one.error for one in planned):
        message, _, hint = planned[0].error.partition("\n")
        raise MetricError(f"metric '{planned[0].name}': {message}", hint)


def plan_task(
    entry: IndexEntry, model: ModelSpec | None, metric_names: Sequence[str], locations: DataLocations
) -> PlannedRun:
    """Plan one task; see :func:`make_plan`."""
    task, parsed = load_task(entry.path)
    try:
        protocol = protocols[task.output_type]()
    except UsageError as error:
        raise TaskError(f"{parsed.where('output_type')}: {error.message}", error.hint) from error
    if protocol.needs_captioner and model is None:
        raise UsageError(
            f"task '{task.task}' scores the captions of a model, and none was named.",
            "Name one with --model; 'bench ls models' lists what there is, --model captions:FILE serves yours.",
        )
    metric_entries = [MetricEntry(metric=name) for name in metric_names] or task.metric_list
    planned = []
    for number, metric_entry in enumerate(metric_entries):
        try:
            planned.append(
                plan_metric(
                    metric_entry,
                    has_references=task.doc_to_target is not None,
                    has_objects=task.doc_to_objects is not None,
                )
            )
        except UsageError as error:
            if metric_names:
                raise
            raise TaskError(
                f"{parsed.where('metric_list', str(number))}: {error.message}", error.hint
            ) from error
    try:
        chosen = {e.name or e.statistic: make_statistic(e) for e in task.statistics}
    except UsageError as error:
        raise TaskError(f"{parsed.where('statistics')}: {error.message}", error.hint) from error
    for kind, count, named in (
        ("metric", len(metric_entries), {p.name for p in planned}),
        ("statistic", len(task.statistics), set(chosen)),
    ):
        if len(named) != count:
            raise TaskError(f"task '{task.task}' lists a {kind} twice", "Give the second one another 'name'.")
    try:
        _find_published(task, planned, chosen)
    except TaskError as error:
        raise TaskError(f"{parsed.where('published')}: {error.message}", error.hint) from error
    data = locations.find(task.task, load_source(task, entry.path))
    return PlannedRun(
        task, entry.path, protocol, planned, chosen, model if protocol.needs_captioner else None, data
    )


def plan_metric(entry: MetricEntry, *, has_references: bool, has_objects: bool) -> PlannedMetric:
    """Build a metric and look whether it can run here.

    Raises:
        UsageError: Unknown metric or argument, or the task has no references or objects for it.
    """
    try:
        metric = build_metric(entry.metric, entry.arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(f"metric '{entry.metric}': {error}") from error
    for attribute in ("label", "source"):
        if not hasattr(metric, attribute):
            raise UsageError(
                f"metric '{entry.metric}': its class has no '{attribute}'.", "See capbench.metrics.Metric."
            )
    if "references" in metric.needs and not has_references:
        raise UsageError(f"metric '{entry.metric}' needs references, and the task has none (doc_to_target).")
    if "objects" in metric.needs and not has_objects:
        raise UsageError(
            f"metric '{entry.metric}' needs the objects that were marked in each image, and the task has none "
            "(doc_to_objects)."
        )
    error = ""
    try:
        metric.check()
    except MetricError as failure:
        error = str(failure)
    defaults = inspect.signature(type(metric)).parameters
    return PlannedMetric(
        name=entry.name or entry.metric,
        metric=metric,
        aggregation=entry.aggregation or metric.aggregation,
        default_settings=all(
            name in defaults and defaults[name].default == value for name, value in entry.arguments.items()
        ),
        error=error,
    )


def _find_published(
    task: TaskConfig, planned: Sequence[PlannedMetric], chosen: Mapping[str, Statistic]
) -> None:
    """Look up every published number once, so that a wrong paper, table or task is no surprise at the end."""
    if (table := task.published) is None:
        return
    for one in planned:
        for name in chosen or (one.aggregation,):
            find_in(table, one.metric.label, name)


def make_statistic(entry: StatisticEntry) -> Statistic:
    """Build a statistic.

    Raises:
        UsageError: Unknown statistic or argument.
    """
    registered = statistics[entry.statistic]
    if not isinstance(registered, type):
        # A package's entry point may name a plain function.
        return FunctionStatistic(registered, **entry.arguments)
    try:
        return registered(**entry.arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(f"statistic '{entry.statistic}': {error}") from error
