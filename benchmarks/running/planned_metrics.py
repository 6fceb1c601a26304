"""The metrics of a run: built, and checked against what the task and the models offer."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...adapters.contracts import PAIRWISE
from ...boundary import Boundary
from ...errors import MetricError, TaskError, UsageError, placed
from ...metrics import DIRECTION, EVALUATE_PREFIX, MEAN, Aggregate, Metric, Need, build_metric, configured, metrics
from ...metrics.function_metric import FunctionMetric
from ...metrics.hf_evaluate import EvaluateMetric
from ...tasks.schema import MetricEntry, TaskConfig
from ...tasks.yaml_files import FunctionReference, ParsedFile
from ..inputs.models import NamedModels
from ..inputs.settings import COLUMNS, read_metric


@dataclass(frozen=True)
class PlannedMetric:
    """A metric with its settings, ready to score.

    Attributes:
        name: How the result is called.
        metric: The metric.
        aggregation: How its system-level value is made.
        default_settings: Whether it is the metric as papers print it, not a variant of it.
        error: What the machine lacks for it; empty if it can run.
        code: Of a metric that the task file holds as a function or class: which, with a hash of its code.
        entry: What it was built from.
        arguments: Its settings, with files in their folders.
    """

    name: str
    metric: Metric
    aggregation: str
    default_settings: bool
    error: str = ""
    code: str = ""
    entry: MetricEntry | None = field(default=None, repr=False, compare=False)
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process builds it anew: what a metric has loaded is not sent."""
        if self.entry is None:
            return PlannedMetric, tuple(vars(self).values())
        return _built_anew, (self.entry, dict(self.arguments), {**vars(self), "metric": None})

    @property
    def aggregate(self) -> Aggregate:
        """How its system-level value is made of items."""
        return self.metric if self.aggregation == "corpus" else MEAN


def _built_anew(entry: MetricEntry, arguments: Mapping[str, Any], values: Mapping[str, Any]) -> PlannedMetric:
    return PlannedMetric(**{**values, "metric": build_entry(entry, arguments)})


def pool_of(planned: PlannedMetric) -> str:
    """Return where a metric can run: where the model is that it needs, or anywhere (``cpu``)."""
    return next((role for role in ("encoder", "judge") if role in planned.metric.needs), "cpu")


def finds_by_id(planned: Iterable[PlannedMetric]) -> bool:
    """Return whether a metric that can run finds scores by the ids of rows."""
    return any(not one.error and one.metric.by_id for one in planned)


def metric_fingerprints(planned: Sequence[PlannedMetric]) -> dict[str, Any]:
    """Return what decides the values of each metric, by name; those that cannot run here have none."""
    return {
        plan.name: {
            **plan.metric.fingerprint(),
            "aggregation": plan.aggregation,
            **({"code": plan.code} if plan.code else {}),
        }
        for plan in planned
        if not plan.error
    }


def require_one(planned: Sequence[PlannedMetric]) -> None:
    """Raise if none of the metrics can run on this machine.

    Raises:
        MetricError: None can; the message is that of the first.
    """
    if planned and all(one.error for one in planned):
        message, _, hint = planned[0].error.partition("\n")
        raise MetricError(f"metric '{planned[0].name}': {message}", hint)


def require_family(planned: Sequence[PlannedMetric], encoder: str, family: str) -> None:
    """Raise if a metric is defined with other weights than an encoder has: its number would bear a wrong name.

    Raises:
        UsageError: So it is.
    """
    for one in planned:
        if not _takes(one.metric, family):
            wanted = one.metric.encoder_family
            fault = f"is defined with weights of the family '{wanted}'" if wanted else "compares vectors"
            raise UsageError(
                f"metric '{one.name}' {fault}; those of {encoder} are of '{family}'.",
                "'bench ls models' lists what there is (adapter pac: family pac; blip_itm and flava: pairwise, which "
                "the metric itm_score takes; the others: clip).",
            )


def _takes(metric: Metric, family: str) -> bool:
    """Return whether a metric takes encoders of a family: the one that it names, or all that have vectors."""
    if metric.encoder_family is not None:
        return metric.encoder_family == family
    return family != PAIRWISE or "encoder" not in metric.needs


OF_MODELS: frozenset[Need] = frozenset({"encoder", "judge"})
"""What metrics need of a model: their numbers are those of metric and model together."""
_OF_DATA: Mapping[Need, tuple[str, str]] = {
    "references": ("needs references", "doc_to_target"),
    "image": ("looks at images", "doc_to_image"),
    "boxes": ("needs the parts of each image as boxes", "doc_to_boxes"),
    "objects": ("needs the objects that were marked in each image", "doc_to_objects"),
}
"""What metrics need of a task, and the key that gives it."""
_NEEDS_MODEL: Mapping[Need, tuple[str, str]] = {
    "encoder": (
        "needs a model that encodes images and texts",
        "Name one with --model, or beside a model that writes captions with --encoder ('bench ls models').",
    ),
    "judge": (
        "needs a model that judges",
        "Name one with --judge, such as --judge openai_judge --judge_args model=NAME ('bench ls adapters').",
    ),
}


def _left_out(planned: Sequence[PlannedMetric], models: NamedModels) -> dict[str, str]:
    """Return the metrics of a task's own list for which there is no model, with the reason."""
    encoder = models.encoder
    reasons: dict[str, str] = {}
    for one in planned:
        for need, (reason, _) in _NEEDS_MODEL.items():
            if need in one.metric.needs and getattr(models, need) is None:
                reasons.setdefault(one.name, reason)
        if encoder and not _takes(one.metric, encoder.family):
            reasons.setdefault(one.name, f"is defined with other weights than those of {encoder.name}")
    return reasons


def plan_metrics(
    task: TaskConfig, parsed: ParsedFile, models: NamedModels, names: Sequence[str], data: Path | None
) -> tuple[list[PlannedMetric], dict[str, str]]:
    """Build the metrics of a run.

    Args:
        task: The task.
        parsed: Its file, which says where a fault stands.
        models: The models that the user named.
        names: Metrics in place of those of the task.
        data: The data set's folder, or a file in it; None if it is not on this machine.

    Returns:
        The metrics, and those of the task that the run goes without, with the reason.

    Raises:
        TaskError: The task lists a metric that is not known, lacks what it needs or stands there twice.
        UsageError: So does the user; or none of the task's can be used.
    """
    # A metric that the task lists is taken as the task sets it.
    listed = {one.called: one for one in task.metric_list}
    entries = [listed.get(name) or read_metric(name) for name in names] or task.metric_list
    # What a task lists besides may go unused; what a user names may not.
    offers: set[Need] = {need for need in OF_MODELS if not names or getattr(models, need) is not None}
    offers |= {need for need, (_, key) in _OF_DATA.items() if key in task.templates}
    planned: list[PlannedMetric] = []
    for number, entry in enumerate(entries):
        try:
            beside = parsed.path.parent if entry in task.metric_list else None
            planned.append(plan_metric(entry, frozenset(offers), data, beside))
        except UsageError as error:
            if names:
                raise
            raise placed(error, parsed.where("metric_list", str(number))) from error
    require_distinct(task, "metric", [one.name for one in planned])
    if names and models.encoder is not None:
        require_family(planned, models.encoder.name, models.encoder.family)
    left_out = {} if names else _left_out(planned, models)
    kept = [one for one in planned if one.name not in left_out] if left_out else planned
    if entries and not kept:
        reasons = dict.fromkeys(left_out.values())
        raise UsageError(
            f"task '{task.task}': none of its metrics ({', '.join(left_out)}) can be used: {'; '.join(reasons)}",
            "Name others with --metrics, or a model with --model.",
        )
    return kept, left_out


def require_inside(task: TaskConfig, parsed: ParsedFile, boundary: Boundary, allowed: Sequence[Path]) -> None:
    """Raise if a metric that a task lists would read a file that the task may not, or run one of the data.

    Args:
        task: The task.
        parsed: Its file, which says where a fault stands.
        boundary: Which files it may read.
        allowed: Folders that the user allowed besides.

    Raises:
        TaskError: One would.
    """
    code = Boundary.of(parsed.path, *allowed)
    for number, entry in enumerate(task.metric_list):
        place = parsed.where("metric_list", str(number))
        if arguments := entry.arguments:
            # Without settings there is no file, and no need to load the metric.
            known = isinstance(entry.metric, str) and entry.metric in metrics
            own = metrics[str(entry.metric)].own_files if known else frozenset[str]()
            for name, value in arguments.items():
                boundary.require(value, place, parsed.path.parent if name in own else Path.cwd())
        if isinstance(entry.metric, str) and entry.metric.startswith(EVALUATE_PREFIX):
            code.require(entry.metric.removeprefix(EVALUATE_PREFIX), place, Path.cwd())


def require_distinct(task: TaskConfig, kind: str, names: Sequence[str]) -> None:
    """Raise if two results would be called alike.

    Raises:
        TaskError: So it is.
    """
    if len(set(names)) != len(names):
        raise TaskError(f"task '{task.task}' lists a {kind} twice", "Give the second one another 'name', or 'label'.")


def look_at_images(names: Sequence[str]) -> bool:
    """Return whether one of some metrics may look at images; one that is not known may.

    Args:
        names: As :func:`~..inputs.settings.read_metric` reads them.
    """
    typed = (str(read_metric(one).metric) for one in names)
    known = [metrics[name] if name in metrics else None for name in typed]  # noqa: SIM401 - no dict
    return any(one is None or "image" in one.needs for one in known)


def plan_metric(
    entry: MetricEntry, offers: frozenset[Need], data: Path | None = None, beside: Path | None = None
) -> PlannedMetric:
    """Build a metric and look whether it can run here.

    Args:
        entry: The metric and its settings.
        offers: What the captions come with, and which models there are.
        data: The data set's folder, or a file in it; None if it is not on this machine.
        beside: The folder of the task file that lists the metric; None if the user named it.

    Raises:
        UsageError: Unknown metric or argument, it needs what is not offered, or it is called as a column of the
            samples is.
    """
    if (name := entry.called).partition(".")[0] in COLUMNS:
        raise UsageError(
            f"metric '{entry.metric}' cannot be called '{name}': a column of the samples has that name.",
            f"Columns: {', '.join(COLUMNS)}. Give the metric another 'name'.",
        )
    direction = {} if entry.higher_is_better is None else {DIRECTION: entry.higher_is_better}
    try:
        metric = build_entry(entry, entry.arguments | direction)
        folders = dict.fromkeys(metric.data_files, data if data is None or data.is_dir() else data.parent)
        if beside is not None:
            folders |= dict.fromkeys(metric.own_files, beside)
        placed = {
            name: str(folder / Path(value).expanduser())
            if (folder := folders.get(name)) is not None and isinstance(value, str)
            else value
            for name, value in entry.arguments.items()
        }
        if placed != entry.arguments:
            metric = build_entry(entry, placed | direction)
    except (TypeError, ValueError) as error:
        raise UsageError(f"metric '{entry.metric}': {error}") from error
    for attribute in ("label", "source"):
        if not hasattr(metric, attribute):
            raise UsageError(
                f"metric '{entry.metric}': its class has no '{attribute}'.", "See capbench.metrics.Metric."
            )
    for need in sorted(metric.needs - offers):
        if need in OF_MODELS:
            fault, hint = _NEEDS_MODEL[need]
            raise UsageError(f"metric '{entry.metric}' {fault}, and none was named.", hint)
        fault, key = _OF_DATA[need]
        raise UsageError(f"metric '{entry.metric}' {fault}, and the task has none ({key}).")
    error = ""
    if isinstance(metric, EvaluateMetric):
        metric.named_by = beside
    try:
        metric.check()
    except MetricError as failure:
        error = str(failure)
    defaults = inspect.signature(type(metric)).parameters
    return PlannedMetric(
        name=name,
        metric=metric,
        aggregation=entry.aggregation or metric.aggregation,
        default_settings=all(
            setting in metric.set_by_data or (setting in defaults and defaults[setting].default == value)
            for setting, value in entry.arguments.items()
        ),
        error=error,
        code=entry.metric.fingerprint() if isinstance(entry.metric, FunctionReference) else "",
        entry=entry,
        arguments=placed | direction,
    )


def build_entry(entry: MetricEntry, arguments: Mapping[str, Any]) -> Metric:
    """Build the metric of an entry: a registered one, or a function or class of the task's own.

    Args:
        entry: The entry.
        arguments: Its settings.

    Raises:
        UsageError: The metric, or a setting, is not known.
        TaskError: The function cannot be had.
        TypeError: The function, or class, does not take its settings.
        ValueError: A setting has a value that the metric does not take.
    """
    if isinstance(entry.metric, str):
        return build_metric(entry.metric, arguments)
    function = entry.metric.resolve()
    if isinstance(function, type):
        if not issubclass(function, Metric):
            raise UsageError(f"metric '{entry.metric}' is a class, and none of capbench.metrics.Metric.")
        return configured(function, str(entry.metric), arguments)
    return FunctionMetric(function, entry.called, **arguments)
