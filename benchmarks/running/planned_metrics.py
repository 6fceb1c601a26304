"""The metrics of a run: built, and checked against the task and the models."""

import hashlib
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...adapters.contracts import PAIRWISE
from ...boundary import Boundary
from ...errors import MetricError, TaskError, UsageError, placed
from ...metrics import DIRECTION, EVALUATE_PREFIX, MEAN, Aggregate, Metric, Need, build_metric, configured, metrics
from ...metrics.contract import BUILT_IN
from ...metrics.function_metric import FunctionMetric
from ...metrics.hf_evaluate import EvaluateMetric
from ...metrics.words.tokenizers import OF_LANGUAGE
from ...tasks.schema import MetricEntry, TaskConfig
from ...tasks.yaml_files import FunctionReference, ParsedFile
from ..inputs.models import NamedModels
from ..inputs.settings import COLUMNS, read_metric


@dataclass(frozen=True)
class PlannedMetric:
    """A metric with its settings, ready to score.

    Attributes:
        name: The name of the result.
        metric: The metric.
        aggregation: The aggregation of its system-level value.
        default_settings: Whether it has the settings of papers, not those of a variant.
        error: The missing dependency; empty if it can run.
        code: Name and hash of the code, for a function or class of the task file or of the user.
        entry: The entry that it was built from.
        arguments: Its settings, with resolved paths of files.
    """

    name: str
    metric: Metric
    aggregation: str
    default_settings: bool
    error: str = ""
    code: str = ""
    entry: MetricEntry | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process rebuilds it: loaded state is not sent."""
        if self.entry is None:
            return PlannedMetric, tuple(vars(self).values())
        return _built_anew, (self.entry, dict(self.arguments), {**vars(self), "metric": None})

    def require(self) -> None:
        """Raise if it cannot run here.

        Raises:
            MetricError: With its name and what is missing.
        """
        require_one([self])

    def fetched_by(self) -> str:
        """Return what ``bench fetch`` is given to get what it reads; empty if nothing of that is missing."""
        if all(resource.is_here() for resource in self.metric.resources()):
            return ""
        settings = ",".join(f"{key}={value}" for key, value in self.arguments.items())
        name = str(self.entry.metric) if self.entry else self.name
        return f"{name}[{settings}]" if settings else name

    @property
    def aggregate(self) -> Aggregate:
        """The aggregation of items to the system-level value."""
        return self.metric if self.aggregation == "corpus" else MEAN


def _built_anew(entry: MetricEntry, arguments: Mapping[str, Any], values: Mapping[str, Any]) -> PlannedMetric:
    return PlannedMetric(**dict[str, Any](values, metric=build_entry(entry, arguments)))


def pool_of(planned: PlannedMetric) -> str:
    """Return the role of the worker that a metric needs: that of its model, or ``cpu``."""
    return next((role for role in ("encoder", "judge") if role in planned.metric.needs), "cpu")


def finds_by_id(planned: Iterable[PlannedMetric]) -> bool:
    """Return whether a runnable metric looks up scores by the ids of rows."""
    return any(not plan.error and plan.metric.by_id for plan in planned)


def metric_fingerprints(planned: Sequence[PlannedMetric]) -> dict[str, Any]:
    """Return the fingerprint of each metric by name, without those that cannot run here."""
    return {
        plan.name: {
            **plan.metric.fingerprint(),
            "aggregation": plan.aggregation,
            **({"code": plan.code} if plan.code else {}),
        }
        for plan in planned
        if not plan.error
    }


def _code_of(metric: type) -> str:
    """Return name and hash of the source of a user's class and its bases."""
    own = [base for base in metric.__mro__ if not base.__module__.startswith(BUILT_IN)]
    try:
        source = "".join(inspect.getsource(base) for base in own if base.__module__ not in sys.stdlib_module_names)
    except (OSError, TypeError):
        return f"{metric.__qualname__}@unknown"
    return f"{metric.__qualname__}@{hashlib.sha256(source.encode()).hexdigest()[:16]}"


def require_one(planned: Sequence[PlannedMetric]) -> None:
    """Raise if none of the metrics can run on this machine.

    Raises:
        MetricError: None can; with the message of the first.
    """
    if planned and all(metric.error for metric in planned):
        message, _, hint = planned[0].error.partition("\n")
        raise MetricError(f"metric '{planned[0].name}': {message}", hint)


def require_family(planned: Sequence[PlannedMetric], encoder: str, family: str) -> None:
    """Raise if a metric needs weights of another family than an encoder has.

    Raises:
        UsageError: The families differ.
    """
    for plan in planned:
        if not _takes(plan.metric, family):
            raise UsageError(
                f"metric '{plan.name}' {_mismatch(plan.metric, encoder, family)}.",
                "'bench ls models' lists the models (adapter pac: family pac; blip_itm and flava: pairwise, which "
                "the metric itm_score takes; the others: clip).",
            )


def _takes(metric: Metric, family: str) -> bool:
    """Return whether a metric takes encoders of a family: the named one, or all with vectors."""
    if metric.encoder_family is not None:
        return metric.encoder_family == family
    return family != PAIRWISE or "encoder" not in metric.needs


def _mismatch(metric: Metric, encoder: str, family: str) -> str:
    wanted = f"weights of family '{metric.encoder_family}'" if metric.encoder_family else "vectors"
    return f"needs {wanted}; {encoder} is of family '{family}'"


OF_MODELS: frozenset[Need] = frozenset({"encoder", "judge"})
"""Needs of metrics for a model; their numbers depend on metric and model."""
_OF_DATA: Mapping[Need, tuple[str, str]] = {
    "references": ("needs references", "doc_to_target"),
    "image": ("looks at images", "doc_to_image"),
    "boxes": ("needs the parts of each image as boxes", "doc_to_boxes"),
    "objects": ("needs the objects that were marked in each image", "doc_to_objects"),
}
"""Needs of metrics for a task, with the key that provides it."""
NEEDS_ENCODER, NEEDS_JUDGE = "needs a model that encodes images and texts", "needs a model that judges"
"""Reasons why a metric of a task's list is not run."""
_NEEDS_MODEL: Mapping[Need, tuple[str, str]] = {
    "encoder": (NEEDS_ENCODER, "Name one with --model, or with --encoder next to a captioner ('bench ls models')."),
    "judge": (
        NEEDS_JUDGE,
        "Name one with --judge, such as --judge openai_judge --judge_args model=NAME ('bench ls adapters').",
    ),
}


def _left_out(planned: Sequence[PlannedMetric], models: NamedModels) -> dict[str, str]:
    """Return the metrics in a task's list without a fitting model, with the reason."""
    encoder = models.encoder
    reasons: dict[str, str] = {}
    for plan in planned:
        for need, (reason, _) in _NEEDS_MODEL.items():
            if need in plan.metric.needs and getattr(models, need) is None:
                reasons.setdefault(plan.name, reason)
        if encoder and not _takes(plan.metric, encoder.family):
            reasons.setdefault(plan.name, _mismatch(plan.metric, encoder.name, encoder.family))
    return reasons


def plan_metrics(
    task: TaskConfig, parsed: ParsedFile, models: NamedModels, names: Sequence[str], data: Path | None
) -> tuple[list[PlannedMetric], dict[str, str]]:
    """Build the metrics of a run.

    Args:
        task: The task.
        parsed: Its file, for the location of faults.
        models: The models that the user named.
        names: Metrics in place of those of the task.
        data: The data set's folder, or a file in it; None if it is not on this machine.

    Returns:
        The metrics, and the excluded metrics of the task with the reason.

    Raises:
        TaskError: The task lists a metric that is unknown, lacks a dependency or occurs twice.
        UsageError: The user names such a metric; or no metric of the task can be used.
    """
    # A metric that the task lists keeps the task's settings.
    listed = {entry.called: entry for entry in task.metric_list}
    entries = [listed.get(name) or read_metric(name) for name in names] or task.metric_list
    # Unusable metrics of a task are excluded; those of a user are errors.
    offers: set[Need] = {need for need in OF_MODELS if not names or getattr(models, need) is not None}
    offers |= {need for need, (_, key) in _OF_DATA.items() if key in task.templates}
    planned: list[PlannedMetric] = []
    for number, entry in enumerate(entries):
        try:
            beside = parsed.path.parent if entry in task.metric_list else None
            planned.append(plan_metric(in_language(entry, task.language), frozenset(offers), data, beside))
        except UsageError as error:
            if names:
                raise
            raise placed(error, parsed.where("metric_list", str(number))) from error
    require_distinct(task, "metric", [metric.name for metric in planned])
    if names and models.encoder is not None:
        require_family(planned, models.encoder.name, models.encoder.family)
    left_out = {} if names else _left_out(planned, models)
    kept = [metric for metric in planned if metric.name not in left_out] if left_out else planned
    if entries and not kept:
        reasons = dict.fromkeys(left_out.values())
        raise UsageError(
            f"task '{task.task}': none of its metrics ({', '.join(left_out)}) can be used: {'; '.join(reasons)}",
            "Name others with --metrics, or what they need with --model, --encoder or --judge.",
        )
    return kept, left_out


def in_language(entry: MetricEntry, language: str) -> MetricEntry:
    """Return a metric's entry with the tokeniser of a task's language, unless it names one.

    Raises:
        UsageError: The metric reads English alone, and the language is another.
    """
    if language == "en" or not isinstance(entry.metric, str) or entry.metric not in metrics:
        return entry
    metric = metrics[entry.metric]
    if metric.english_only:
        raise UsageError(
            f"metric '{entry.metric}' is English's: its word lists or parser know no other language, and the captions "
            f"of the task are in '{language}'.",
            "Leave it out. BLEU, ROUGE-L and CIDEr find the words of other languages by their setting 'tokenizer'.",
        )
    if "tokenizer" in entry.arguments or "tokenizer" not in inspect.signature(metric).parameters:
        return entry
    return entry.model_copy(update={"tokenizer": OF_LANGUAGE.get(language, "13a")})


def require_inside(task: TaskConfig, parsed: ParsedFile, boundary: Boundary, allowed: Sequence[Path]) -> None:
    """Raise if a metric that a task lists would read a forbidden file, or run a file of the data.

    Args:
        task: The task.
        parsed: Its file, for the location of faults.
        boundary: Which files it may read.
        allowed: Folders that the user allowed in addition.

    Raises:
        TaskError: A metric would.
    """
    code = Boundary.of(parsed.path, *allowed)
    for number, entry in enumerate(task.metric_list):
        place = parsed.where("metric_list", str(number))
        if arguments := entry.arguments:
            # Without settings there is no file to check.
            known = isinstance(entry.metric, str) and entry.metric in metrics
            own = metrics[str(entry.metric)].own_files if known else frozenset[str]()
            for name, value in arguments.items():
                boundary.require(value, place, parsed.path.parent if name in own else Path.cwd())
        if isinstance(entry.metric, str) and entry.metric.startswith(EVALUATE_PREFIX):
            code.require(entry.metric.removeprefix(EVALUATE_PREFIX), place, Path.cwd())


def require_distinct(task: TaskConfig, kind: str, names: Sequence[str]) -> None:
    """Raise if two results have the same name.

    Raises:
        TaskError: Two have the same name.
    """
    if repeated := [name for name in names if names.count(name) > 1]:
        raise TaskError(
            f"task '{task.task}' lists {kind} '{repeated[0]}' twice", "Give the second one another 'name', or 'label'."
        )


def may_need(names: Sequence[str], need: Need) -> bool:
    """Return whether one of some metrics may need a column; unknown ones count as such.

    Args:
        names: As :func:`~..inputs.settings.read_metric` reads them.
        need: The column.
    """
    typed = (str(read_metric(name).metric) for name in names)
    known = [metrics[name] if name in metrics else None for name in typed]  # noqa: SIM401 - no dict
    return any(metric is None or need in metric.needs for metric in known)


def plan_metric(
    entry: MetricEntry, offers: frozenset[Need], data: Path | None = None, beside: Path | None = None
) -> PlannedMetric:
    """Build a metric and check whether it can run here.

    Args:
        entry: The metric and its settings.
        offers: The available columns of captions and models.
        data: The data set's folder, or a file in it; None if it is not on this machine.
        beside: Folder of the task file that lists the metric; None if the user named it.

    Raises:
        UsageError: The metric or an argument is unknown, a need is not met, or its name is that of a column of the
            samples.
    """
    if (name := entry.called).partition(".")[0] in COLUMNS:
        raise UsageError(
            f"metric '{entry.metric}' cannot have the name '{name}', which is a column of samples.parquet.",
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
            raise UsageError(f"metric '{entry.metric}' {fault}, but none was named.", hint)
        fault, key = _OF_DATA[need]
        raise UsageError(f"metric '{entry.metric}' {fault}, but the task does not set {key}.")
    error = ""
    if isinstance(metric, EvaluateMetric):
        metric.named_by = beside
    try:
        metric.check()
    except MetricError as failure:
        error = str(failure)
    defaults = inspect.signature(type(metric)).parameters
    code = entry.metric.fingerprint() if isinstance(entry.metric, FunctionReference) else ""
    if not code and not type(metric).__module__.startswith(BUILT_IN):
        code = _code_of(type(metric))
    return PlannedMetric(
        name=name,
        metric=metric,
        aggregation=entry.aggregation or metric.aggregation,
        default_settings=all(
            setting in metric.set_by_data or (setting in defaults and defaults[setting].default == value)
            for setting, value in entry.arguments.items()
        ),
        error=error,
        code=code,
        entry=entry,
        arguments=placed | direction,
    )


def build_entry(entry: MetricEntry, arguments: Mapping[str, Any]) -> Metric:
    """Build the metric of an entry: a registered one, or a function or class of the task.

    Args:
        entry: The entry.
        arguments: Its settings.

    Raises:
        UsageError: The metric, or a setting, is unknown.
        TaskError: The function cannot be loaded.
        TypeError: The function, or class, does not take its settings.
        ValueError: A setting has a value that the metric does not take.
    """
    if isinstance(entry.metric, str):
        return build_metric(entry.metric, arguments)
    function = entry.metric.resolve()
    if isinstance(function, type):
        if not issubclass(function, Metric):
            raise UsageError(f"metric '{entry.metric}' is a class, but not a subclass of capbench.metrics.Metric.")
        return configured(function, str(entry.metric), arguments)
    return FunctionMetric(function, entry.called, **arguments)
