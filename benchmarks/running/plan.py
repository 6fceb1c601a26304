"""Resolves names and checks a run before it starts."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from ...adapters import Adapter
from ...adapters.aliases import ModelSpec
from ...boundary import Boundary
from ...errors import BenchError, TaskError, UsageError, as_one, placed
from ...hub import repository_folder
from ...metrics import DIRECTION
from ...tasks.documents import require_data
from ...tasks.index import IndexEntry, TaskIndex, build_index
from ...tasks.locate import DataLocations
from ...tasks.schema import PublishedTable, StatisticEntry, TaskConfig
from ...tasks.sources import load_source
from ...tasks.yaml_files import FunctionReference, ParsedFile
from ..inputs.images import ImageFinder
from ..inputs.models import ROLES, NamedModels, named_or_given
from ..protocols.binding import load_bound
from ..protocols.contract import Protocol
from ..protocols.job import CAPTIONS, INTERVALS, Result
from ..published.values import Published, find_in
from ..statistics import as_class, statistics
from ..statistics.contract import Statistic
from .planned_metrics import OF_MODELS, PlannedMetric, plan_metrics, require_distinct, require_inside

_DOES = {"captioner": "writes captions", "encoder": "encodes images and texts", "judge": "judges"}


@dataclass(frozen=True)
class PlannedRun:
    """One task and one model, with every name resolved.

    Attributes:
        task: The task.
        path: Its YAML file.
        protocol: The protocol of its ``output_type``.
        metrics: The metrics, in the task's order.
        statistics: The statistics by name; empty for protocols that have none.
        captioner: The model that writes the captions, not loaded; None for given captions.
        encoder: The model that encodes images and texts, not loaded; None if no metric needs it.
        judge: The model that judges captions, not loaded; None if no metric needs it.
        data: The local copy of the data; None for data from the hub.
        boundary: Which files the run may read.
        left_out: Metrics of the task that this run excludes, with the reason.
    """

    task: TaskConfig
    path: Path
    protocol: Protocol[Any]
    metrics: list[PlannedMetric]
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    captioner: ModelSpec | None = None
    encoder: ModelSpec | None = None
    judge: ModelSpec | None = None
    data: Path | None = None
    boundary: Boundary = field(default_factory=Boundary)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path | None:
        """The location of the data: the local copy, or the folder of a task with data next to its file."""
        return self.data or (self.path.parent if self.task.is_local else None)

    @property
    def pixels(self) -> ImageFinder:
        """Finds the images and videos that documents name."""
        late = not self.looks_at_images and self.model is None
        return ImageFinder(self.task, self.root, self.boundary, late)

    @property
    def looks_at_images(self) -> bool:
        """Whether the run reads images or videos."""
        return self.protocol.needs_encoder or any("image" in planned.metric.needs for planned in self.metrics)

    @property
    def reads_images(self) -> bool:
        """Whether the protocol, a metric or the captioner reads images or videos."""
        return self.looks_at_images or (self.captioner is not None and not self.captioner.is_recorded)

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: the steps of the run."""
        from ..tables.text import html_output, html_table

        rows = [{"plan": name, "": text} for name, text in described(self)]
        return html_output(html_table(rows, left=rows[0]))

    def fetched_by(self) -> str:
        """Return what ``bench fetch`` is given to get the data; empty if it cannot be fetched."""
        source = load_source(self.task, self.path)
        return self.task.task if source and source.downloads else ""

    def steps(self, resamples: int) -> list[str]:
        """Return the steps with progress reports, in order.

        Args:
            resamples: Number of bootstrap resamples; 0 for no intervals.
        """
        own = [step for step in self.protocol.steps if resamples or step != INTERVALS]
        return [*([CAPTIONS] if self.captioner else []), *(metric.name for metric in self.metrics), *own]

    @property
    def model(self) -> ModelSpec | None:
        """The model under test."""
        return self.captioner or self.encoder or self.judge


@dataclass
class Missing:
    """What this machine lacks, and a run cannot fetch.

    Attributes:
        errors: An error for each missing part.
        names: What ``bench fetch`` is given to get them.
    """

    errors: list[BenchError] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, check: Callable[[], object], name: Callable[[], str] = str) -> None:
        """Run a check, and keep its errors.

        Args:
            check: Raises if something is missing.
            name: Returns what ``bench fetch`` is given to get it; empty if it cannot be fetched.
        """
        try:
            check()
        except BenchError as error:
            self.errors += error.parts
            # What is named wrongly cannot be fetched.
            self.names += filter(None, [] if isinstance(error, UsageError) else [name()])

    @property
    def remedy(self) -> str:
        """The command that fetches what can be fetched; empty if nothing can."""
        return shlex.join(["bench", "fetch", *dict.fromkeys(self.names)]) if self.names else ""

    def as_error(self) -> BenchError:
        """Return one error for all that is missing, with the command that fetches it as the hint's first line."""
        error = as_one(list({error.message: error for error in self.errors}.values()))
        return type(error)(error.message, "\n".join(filter(None, (self.remedy, error.hint))), error.parts)

    def __str__(self) -> str:
        """Return what is missing, in lines; the last one is the command."""
        hints = [f"- {error.message}" + f"\n{error.hint}".replace("\n", "\n    ").rstrip() for error in self.errors]
        return "\n".join(filter(None, ("missing on this machine:", *hints, self.remedy)))


@dataclass(frozen=True)
class ResolvedCall:
    """The plan of a call.

    Attributes:
        plan: Its runs.
        models: The models, by name or as objects.
        locations: Locations of local data.
        missing: What metrics lack, without which the others run.
        groups: The groups with a score that were named, or whose score is of tasks that run.
    """

    plan: list[PlannedRun]
    models: NamedModels
    locations: DataLocations
    missing: Missing
    groups: Sequence[IndexEntry] = ()

    def fetched_first(self) -> str:
        """Return a line on what the runs fetch from the hub before they begin; empty where nothing is."""
        on_hub = [run for run in self.plan if run.data is None and not run.task.is_local]
        kept = [repository_folder(str(run.task.dataset_path), "dataset").is_dir() for run in on_hub]
        names = [run.fetched_by() for run, is_kept in zip(on_hub, kept, strict=True) if not is_kept]
        names += [metric.fetched_by() for run in self.plan for metric in run.metrics]
        names += [spec.fetched_first() for spec in vars(self.models).values() if spec is not None]
        if not (named := list(dict.fromkeys(filter(None, names)))):
            return ""
        return f"not here, and fetched first ('bench fetch {' '.join(named)}' lists sizes): {', '.join(named)}"


def resolve_call(
    tasks: str | Sequence[str],
    *,
    model: str | Adapter | None = None,
    model_args: str | Mapping[str, Any] = "",
    encoder: str | Adapter | None = None,
    encoder_args: str | Mapping[str, Any] = "",
    judge: str | Adapter | None = None,
    judge_args: str | Mapping[str, Any] = "",
    metric_names: Sequence[str] = (),
    data: Mapping[str, str | Path] | None = None,
    include_path: Sequence[str | Path] = (),
    allow_outside: Sequence[str | Path] = (),
    loads: Sequence[str] = ROLES,
    on_fetch: Callable[[str], object] | None = None,
) -> ResolvedCall:
    """Return the plan of a call, after all checks that need no loaded model.

    Args:
        tasks: Names of tasks, groups or tags.
        model: As of :func:`capbench.evaluate`, like the next five.
        model_args: Arguments of its adapter.
        encoder: The model that encodes for the metrics.
        encoder_args: Arguments of its adapter.
        judge: The model that judges for the metrics.
        judge_args: Arguments of its adapter.
        metric_names: Metrics in place of those of the tasks.
        data: Task name to the path of its local data.
        include_path: Folders with the user's task files.
        allow_outside: Folders that tasks may read, in addition to those of tasks and data.
        loads: Roles of the models that this process loads, and needs on this machine.
        on_fetch: Called with a line on what comes from the hub, before any of it does.

    Raises:
        UsageError: A name is unknown, a model is missing, or a metric lacks what it needs.
        TaskError: A task file is faulty.
        BenchError: Data, weights, or what every metric of a task reads is not on this machine, with all that is
            missing. A metric that lacks something alone is planned with its error, and the others run; but not where a
            model would write captions, which costs far more.
    """
    index = build_index(include_path)
    paths = index.expand_names({name: Path(path) for name, path in data.items()}) if data else {}
    locations = DataLocations.from_environment(paths, allow_outside)
    models = NamedModels.of(
        named_or_given(model, model_args), named_or_given(encoder, encoder_args), named_or_given(judge, judge_args)
    )
    names = [name.strip() for name in tasks.split(",")] if isinstance(tasks, str) else list(tasks)
    plan = plan_tasks(index, names, models, metric_names, locations)
    fatal, tolerable = Missing(), Missing()
    run, entries = {*map(attrgetter("task.task"), plan)}, index.entries.values()
    groups = [group for group in entries if group.score and (group.name in names or run >= {*group.score.mean_of})]
    call = ResolvedCall(plan, models, locations, tolerable, groups)
    if on_fetch is not None and (line := call.fetched_first()):
        on_fetch(line)
    for planned in plan:
        fatal.add(partial(require_data, planned.task, planned.path, locations), planned.fetched_by)
        if planned.looks_at_images:
            fatal.add(planned.pixels.require)
        if unable := [metric for metric in planned.metrics if metric.error]:
            writes = planned.captioner is not None and not planned.captioner.is_recorded
            missing = fatal if writes or len(unable) == len(planned.metrics) else tolerable
            for metric in unable:
                missing.add(metric.require, metric.fetched_by)
    for spec in (getattr(models, role) for role in loads):
        if spec is not None and not spec.is_recorded:
            fatal.add(spec.check, spec.fetched_by)
    if fatal.errors:
        raise Missing(fatal.errors + tolerable.errors, fatal.names + tolerable.names).as_error()
    return call


def plan_tasks(
    index: TaskIndex, tasks: Sequence[str], models: NamedModels, metric_names: Sequence[str], locations: DataLocations
) -> list[PlannedRun]:
    """Plan the runs of some tasks as :func:`resolve_call` does, even if dependencies are missing."""
    entries = index.resolve(tasks)
    if not entries:
        raise UsageError("no task was named", "Name one; 'bench ls tasks' lists the tasks.")
    plan = [plan_task(entry, models, metric_names, locations) for entry in entries]
    for role, spec in vars(models).items():
        if spec is not None and not any(getattr(planned, role) for planned in plan):
            names = ", ".join(planned.task.task for planned in plan)
            raise UsageError(
                f"model {spec.name} {_DOES[role]}, and nothing in {names} uses it",
                "Leave it out, or name metrics that use it with --metrics ('bench ls metrics').",
            )
    return plan


def plan_task(entry: IndexEntry, models: NamedModels, names: Sequence[str], locations: DataLocations) -> PlannedRun:
    """Plan one task; see :func:`resolve_call`."""
    task, parsed, protocol = load_bound(entry.path)
    for role, is_needed in (("encoder", protocol.needs_encoder), ("captioner", protocol.needs_captioner)):
        if is_needed and getattr(models, role) is None:
            raise UsageError(
                f"task '{task.task}' needs a model that {_DOES[role]}, but none was named.",
                "Name one with --model; 'bench ls models' lists the models; --model captions:FILE reads your captions.",
            )
    if names and not protocol.takes_metrics:
        raise UsageError(
            f"--metrics {','.join(names)}: protocol '{task.output_type}' tests the model itself; "
            f"task '{task.task}' takes no metrics.",
            "Leave --metrics out. docs/rated_sets.md has a task in which metrics, or recorded scores, "
            "distinguish true captions from false ones.",
        )
    source = load_source(task, entry.path)
    data = locations.find(task, entry.path, source)
    boundary = locations.boundary(task, entry.path, source)
    require_inside(task, parsed, boundary, locations.allowed)
    metrics, left_out = plan_metrics(task, parsed, models, names, data)
    chosen = _statistics(task, parsed)
    try:
        _find_published(task, protocol, metrics, chosen)
    except TaskError as error:
        raise TaskError(f"{parsed.where('published')}: {error.message}", error.hint) from error
    needs = {need for planned in metrics for need in planned.metric.needs}
    return PlannedRun(
        task,
        entry.path,
        protocol,
        metrics,
        chosen,
        captioner=models.captioner if protocol.needs_captioner else None,
        encoder=models.encoder if protocol.needs_encoder or "encoder" in needs else None,
        judge=models.judge if "judge" in needs else None,
        data=data,
        boundary=boundary,
        left_out=left_out,
    )


def _statistics(task: TaskConfig, parsed: ParsedFile) -> dict[str, Statistic]:
    """Return the statistics of a task by name, in its order, for each aspect where it has several."""
    built: list[tuple[str, Statistic]] = []
    for entry in task.statistics:
        try:
            built += [(name, make_statistic(entry)) for name in entry.names(task.aspects)]
        except UsageError as error:
            raise placed(error, parsed.where("statistics")) from error
        if missing := [key for key in built[-1][1].needs if key not in task.templates]:
            raise TaskError(f"{parsed.where('statistics')}: statistic '{entry.called}' needs {', '.join(missing)}")
    require_distinct(task, "statistic", [name for name, _ in built])
    return dict(built)


def _find_published(
    task: TaskConfig, protocol: Protocol[Any], planned: Sequence[PlannedMetric], chosen: Mapping[str, Statistic]
) -> None:
    """Look up every published number, so that a wrong paper, table or task fails before the run."""
    if (table := task.published) is None:
        return
    if not protocol.takes_metrics:
        # No model has this name: this only checks the table.
        for metric in table.metrics:
            find_in(table, metric, protocol.statistic, model="")
    for entry in planned:
        if entry.metric.needs & OF_MODELS:
            # Its number belongs to a model: the lookup uses the paper's name of metric and model together.
            continue
        for name in chosen or (entry.aggregation,):
            find_in(table, entry.metric.label, name)


def make_statistic(entry: StatisticEntry) -> Statistic:
    """Build a statistic.

    Raises:
        UsageError: Unknown statistic or argument.
    """
    if isinstance(entry.statistic, FunctionReference):
        registered: Any = entry.statistic.resolve()
    elif entry.statistic.startswith("!function "):
        raise UsageError(
            f"statistic '{entry.called}' is a function of the task; a finished run does not contain its code.",
            "Name a registered statistic with --statistic (docs/extending.md).",
        )
    else:
        registered = statistics[entry.statistic]
    arguments = dict(entry.arguments)
    if not isinstance(registered, type):
        # A task file, or a package's entry point, may name a plain function.
        registered = as_class(registered, entry.called, bool(arguments.pop(DIRECTION, True)))
    elif not issubclass(registered, Statistic):
        raise UsageError(f"statistic '{entry.statistic}' is a class, but not a subclass of capbench's Statistic.")
    try:
        return registered(**arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(f"statistic '{entry.statistic}': {error}") from error


def described(planned: PlannedRun) -> list[tuple[str, str]]:
    """Return the lines of a plan: name and text."""
    task, model = planned.task, planned.model
    lines = [
        ("task", f"{task.task} (version {task.version}, {task.output_type})"),
        ("data", str(planned.data or _declared_data(task))),
        ("model", f"{model.name} ({model.adapter})" if model else "none needed"),
        ("metrics", ", ".join([*(metric.name for metric in planned.metrics), *planned.protocol.measures])),
    ]
    lines += [("cannot run", f"{metric.name}: {metric.error}") for metric in planned.metrics if metric.error]
    if planned.encoder is not None and planned.captioner is not None:
        lines.append(("encoder", f"{planned.encoder.name} ({planned.encoder.adapter})"))
    if planned.judge is not None and planned.judge is not planned.model:
        lines.append(("judge", f"{planned.judge.name} ({planned.judge.adapter})"))
    lines += [("not run", f"{metric}: it {reason}") for metric, reason in planned.left_out.items()]
    if planned.statistics:
        lines.append(("statistics", ", ".join(planned.statistics)))
    return lines


def _declared_data(task: TaskConfig) -> str:
    if task.custom_dataset is not None:
        return f"generated by {task.custom_dataset}"
    files = task.dataset_kwargs.get("data_files")
    return f"{files} ({task.dataset_path})" if files else f"hub data set {task.dataset_path}"


def published_results(plan: PlannedRun, results: Sequence[Result]) -> dict[str, Published]:
    """Return the published value of each result in the task's table, by the key of the result."""
    table = plan.task.published
    if table is None:
        return {}
    values: dict[str, Published] = {}
    metrics = {metric.name for metric in plan.metrics}
    categories = {result.category for result in results if result.category and result.metric in metrics}
    for result in results:
        if table.categories is not None and result.category not in ("", *table.categories):
            # A system or category that the paper does not have.
            continue
        if table.categories is not None and not result.category and categories != set(table.categories):
            continue
        look_up = _published_of_metric if plan.protocol.takes_metrics else _published_of_model
        number = look_up(plan, table, result)
        if number is not None:
            values[result.key] = number
    return values


def _published_of_metric(plan: PlannedRun, table: PublishedTable, result: Result) -> Published | None:
    planned = next((metric for metric in plan.metrics if metric.name == result.metric), None)
    if planned is None:
        # Results of people, or of a judge whose verdicts are in the data.
        return find_in(table, result.label[0], result.statistic, result.category)
    # A variant of a metric that the table does not know has no published value.
    if not planned.default_settings:
        return None
    label: str | None = result.label[0]
    for need, model in (("encoder", plan.encoder), ("judge", plan.judge)):
        if need in planned.metric.needs:
            label = model.printed_as.get(table.paper, {}).get(result.label[0]) if model else None
    return None if label is None else find_in(table, label, result.statistic, result.category)


def _published_of_model(plan: PlannedRun, table: PublishedTable, result: Result) -> Published | None:
    names = plan.encoder.published_as.get(table.paper, ()) if plan.encoder else ()
    numbers = (find_in(table, result.label[0], result.statistic, result.category, name) for name in names)
    return next((number for number in numbers if number is not None), None)
