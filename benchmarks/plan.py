"""Resolves names and checks everything that can be checked before work starts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..adapters.aliases import ModelSpec
from ..errors import MetricError, TaskError, UsageError
from ..metrics import Metric, Need, build_metric
from ..tasks.documents import missing_data
from ..tasks.index import IndexEntry, TaskIndex
from ..tasks.locate import DataLocations
from ..tasks.schema import LOCAL_FORMATS, MetricEntry, StatisticEntry, TaskConfig, load_task
from ..tasks.sources import load_source
from ..tasks.yaml_files import ParsedFile
from .metric_names import read_metric
from .models import NamedModels
from .pixels import PixelFinder
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
        captioner: The model that writes the captions, not loaded; None where they are given.
        encoder: The model that encodes images and texts, not loaded; None if no metric needs it.
        judge: The model that judges captions, not loaded; None if no metric needs it.
        data: Where the local copy of the data is; None if the hub is asked.
        left_out: Metrics of the task that this run goes without, with the reason.
    """

    task: TaskConfig
    path: Path
    protocol: Protocol
    metrics: list[PlannedMetric]
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    captioner: ModelSpec | None = None
    encoder: ModelSpec | None = None
    judge: ModelSpec | None = None
    data: Path | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path | None:
        """Where the data is: the local copy, or the folder of a task whose data lies beside its file."""
        return self.data or (self.path.parent if self.task.dataset_path in LOCAL_FORMATS else None)

    @property
    def model(self) -> ModelSpec | None:
        """The model under test: what results are of."""
        return self.captioner or self.encoder or self.judge


def make_plan(
    index: TaskIndex,
    tasks: Sequence[str],
    *,
    models: NamedModels | None = None,
    metric_names: Sequence[str] = (),
    locations: DataLocations,
) -> list[PlannedRun]:
    """Plan the runs of some tasks.

    Args:
        index: Known tasks.
        tasks: Names of tasks, groups or tags.
        models: The models; None for tasks and metrics that need none.
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
    models = models or NamedModels()
    plan = [plan_task(entry, models, metric_names, locations) for entry in entries]
    names = ", ".join(planned.task.task for planned in plan)
    if models.captioner is not None and not any(planned.captioner for planned in plan):
        raise UsageError(
            f"--model {models.captioner.name}: no model writes captions for {names}; "
            "the metrics score given captions.",
            "Leave --model out, or name a model that encodes images and texts, or judges.",
        )
    if models.judge is not None and not any(planned.judge for planned in plan):
        raise UsageError(
            f"model {models.judge.name}: none of the metrics of {names} uses a model that judges.",
            "Leave it out, or name such a metric with --metrics ('bench ls metrics').",
        )
    if models.encoder is not None and not any(planned.encoder for planned in plan):
        raise UsageError(
            f"model {models.encoder.name}: none of the metrics of {names} uses a model that encodes images "
            "and texts.",
            "Leave it out, or name such a metric with --metrics ('bench ls metrics').",
        )
    for planned in plan:
        require_one(planned.metrics)
        if planned.task.custom_dataset is not None and planned.data is None:
            source = load_source(planned.task, planned.path)
            if source is None or not source.generated:
                raise missing_data(planned.task, source, locations)
        if planned.protocol.needs_encoder or any("image" in one.metric.needs for one in planned.metrics):
            PixelFinder(planned.task, planned.root).require()
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
    entry: IndexEntry, models: NamedModels, metric_names: Sequence[str], locations: DataLocations
) -> PlannedRun:
    """Plan one task; see :func:`make_plan`."""
    task, parsed = load_task(entry.path)
    try:
        protocol = protocols[task.output_type]()
    except UsageError as error:
        raise TaskError(f"{parsed.where('output_type')}: {error.message}", error.hint) from error
    if protocol.needs_encoder and models.encoder is None:
        raise UsageError(
            f"task '{task.task}' tests a model that encodes images and texts, and none was named.",
            "Name one with --model; 'bench ls models' lists what there is.",
        )
    if protocol.needs_captioner and models.captioner is None:
        raise UsageError(
            f"task '{task.task}' scores the captions of a model, and none was named.",
            "Name one with --model; 'bench ls models' lists what there is, --model captions:FILE serves yours.",
        )
    if not protocol.takes_metrics:
        _require_no_metrics(task, parsed, metric_names)
    # A metric that the task lists is taken as the task sets it.
    listed = {one.name or one.metric: one for one in task.metric_list}
    metric_entries = [listed.get(name) or read_metric(name) for name in metric_names] or task.metric_list
    data = locations.find(task.task, load_source(task, entry.path))
    offers = _offers(task, models)
    planned: list[PlannedMetric] = []
    for number, metric_entry in enumerate(metric_entries):
        try:
            # What a task lists besides may go unused; what a user names may not.
            planned.append(plan_metric(metric_entry, offers if metric_names else offers | _MODELS, data))
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
        ("metric", len(metric_entries), {one.name for one in planned}),
        ("statistic", len(task.statistics), set(chosen)),
    ):
        if len(named) != count:
            raise TaskError(f"task '{task.task}' lists a {kind} twice", "Give the second one another 'name'.")
    if metric_names and models.encoder is not None:
        require_family(planned, models.encoder.name, models.encoder.family)
    left_out = {} if metric_names else _left_out(planned, protocol, models)
    planned = [one for one in planned if one.name not in left_out]
    if metric_entries and not planned:
        reasons = dict.fromkeys(left_out.values())
        raise UsageError(
            f"task '{task.task}': none of its metrics ({', '.join(left_out)}) can be used: {'; '.join(reasons)}",
            "Name others with --metrics, or a model with --model.",
        )
    try:
        _find_published(task, protocol, planned, chosen)
    except TaskError as error:
        raise TaskError(f"{parsed.where('published')}: {error.message}", error.hint) from error
    uses_encoder = protocol.needs_encoder or any("encoder" in one.metric.needs for one in planned)
    return PlannedRun(
        task,
        entry.path,
        protocol,
        planned,
        chosen,
        captioner=models.captioner if protocol.needs_captioner else None,
        encoder=models.encoder if uses_encoder else None,
        judge=models.judge if any("judge" in one.metric.needs for one in planned) else None,
        data=data,
        left_out=left_out,
    )


def require_family(planned: Sequence[PlannedMetric], encoder: str, family: str) -> None:
    """Raise if a metric is defined with other weights than an encoder has: its number would bear a wrong name.

    Raises:
        UsageError: So it is.
    """
    for one in planned:
        wanted = one.metric.encoder_family
        if wanted not in (None, family):
            raise UsageError(
                f"metric '{one.name}' is defined with weights of the family '{wanted}'; those of {encoder} are "
                f"of '{family}'.",
                "'bench ls models' lists what there is (adapter pac: family pac; the others: clip).",
            )


_KEY_OF_NEED: Mapping[Need, str] = {
    "references": "doc_to_target",
    "image": "doc_to_image",
    "boxes": "doc_to_boxes",
    "objects": "doc_to_objects",
}
_MODELS: frozenset[Need] = frozenset({"encoder", "judge"})
_UNMET: Mapping[Need, tuple[str, str]] = {
    "references": ("needs references, and the task has none (doc_to_target).", ""),
    "image": ("looks at images, and the task has none (doc_to_image).", ""),
    "boxes": ("needs the parts of each image as boxes, and the task has none (doc_to_boxes).", ""),
    "objects": (
        "needs the objects that were marked in each image, and the task has none (doc_to_objects).", ""
    ),
    "encoder": (
        "needs a model that encodes images and texts, and none was named.",
        "Name one with --model, or beside a model that writes captions with --encoder ('bench ls models').",
    ),
    "judge": (
        "needs a model that judges, and none was named.",
        "Name one with --judge, such as --judge openai_judge --judge_args model=NAME ('bench ls adapters').",
    ),
}  # fmt: skip


def _offers(task: TaskConfig, models: NamedModels) -> frozenset[Need]:
    """Return what a task and the named models have for metrics."""
    offers: set[Need] = {need for need, key in _KEY_OF_NEED.items() if getattr(task, key) is not None}
    if models.encoder is not None:
        offers.add("encoder")
    if models.judge is not None:
        offers.add("judge")
    return frozenset(offers)


def _left_out(planned: Sequence[PlannedMetric], protocol: Protocol, models: NamedModels) -> dict[str, str]:
    """Return the metrics of a task's own list that a run goes without, with the reason."""
    encoder = models.encoder
    by_model = [one for one in planned if one.metric.needs & _MODELS]
    reasons: dict[str, str] = {}
    for one in by_model:
        if "encoder" in one.metric.needs and encoder is None:
            reasons[one.name] = "needs a model that encodes images and texts"
        elif "judge" in one.metric.needs and models.judge is None:
            reasons[one.name] = "needs a model that judges"
        elif encoder and one.metric.encoder_family not in (None, encoder.family):
            reasons[one.name] = f"is defined with other weights than those of {encoder.name}"
    # Where a model under test encodes or judges, it is what the run is of.
    if len(reasons) < len(by_model) and not protocol.needs_captioner:
        others = (one.name for one in planned if one not in by_model)
        reasons |= dict.fromkeys(others, "does not depend on the model")
    return reasons


def plan_metric(entry: MetricEntry, offers: frozenset[Need], data: Path | None = None) -> PlannedMetric:
    """Build a metric and look whether it can run here.

    Args:
        entry: The metric and its settings.
        offers: What the captions come with, and which models there are.
        data: The data set's folder, or a file in it; None if it is not on this machine.

    Raises:
        UsageError: Unknown metric or argument, or it needs what is not offered.
    """
    try:
        metric = build_metric(entry.metric, entry.arguments)
        if data is not None and metric.data_files & entry.arguments.keys():
            metric = build_metric(entry.metric, _in_folder(entry.arguments, metric.data_files, data))
    except (TypeError, ValueError) as error:
        raise UsageError(f"metric '{entry.metric}': {error}") from error
    for attribute in ("label", "source"):
        if not hasattr(metric, attribute):
            raise UsageError(
                f"metric '{entry.metric}': its class has no '{attribute}'.", "See capbench.metrics.Metric."
            )
    for need in sorted(metric.needs - offers):
        fault, hint = _UNMET[need]
        raise UsageError(f"metric '{entry.metric}' {fault}", hint)
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
            name in metric.set_by_data or (name in defaults and defaults[name].default == value)
            for name, value in entry.arguments.items()
        ),
        error=error,
    )


def _in_folder(arguments: Mapping[str, Any], files: frozenset[str], data: Path) -> dict[str, Any]:
    """Return a metric's arguments with the data set's files as paths."""
    folder = data if data.is_dir() else data.parent
    return {
        name: str(folder / value) if name in files and isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _require_no_metrics(task: TaskConfig, parsed: ParsedFile, metric_names: Sequence[str]) -> None:
    """Raise if metrics or statistics are named for a protocol that has none."""
    does = f"protocol '{task.output_type}' tests the model itself"
    if metric_names:
        raise UsageError(f"--metrics {','.join(metric_names)}: {does}; task '{task.task}' takes no metrics.")
    for key in ("metric_list", "statistics"):
        if getattr(task, key):
            raise TaskError(f"{parsed.where(key)}: {key}: {does}, and takes none", "Leave the key out.")


def _find_published(
    task: TaskConfig,
    protocol: Protocol,
    planned: Sequence[PlannedMetric],
    chosen: Mapping[str, Statistic],
) -> None:
    """Look up every published number once, so that a wrong paper, table or task is no surprise at the end."""
    if (table := task.published) is None:
        return
    if not protocol.takes_metrics:
        # No model is called so: what is looked up here is the table.
        for metric in table.metrics:
            find_in(table, metric, "accuracy", model="")
    for one in planned:
        if one.metric.needs & _MODELS:
            # Its number is that of a model, and is looked up by what the paper calls the two together.
            continue
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
