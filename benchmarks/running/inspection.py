"""Inspects a task without scoring: its files, its data, its checks, and its missing dependencies."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...adapters.aliases import ModelSpec
from ...errors import BenchError, CodeError, DataError
from ...hub import asking_nobody, unreachable
from ...tasks.documents import require_data
from ...tasks.index import IndexEntry
from ...tasks.locate import DataLocations
from ...tasks.sources import load_source
from ..inputs.failures import FailureLog, FailureSummary, summarise
from ..inputs.models import NamedModels
from ..inputs.recorded import RecordedCheck
from ..inputs.settings import RunSettings
from ..protocols.document_reader import may_read_one_image
from .plan import PlannedRun, plan_task
from .runner import prepare

Verdict = Literal["ok", "no data", "not run", "faulty"]
ANY_MODELS = NamedModels(ModelSpec("any", "captions"), ModelSpec("any", "open_clip"), ModelSpec("any", "responses"))
"""Placeholders for the models of a task; they are never loaded."""


@dataclass(frozen=True)
class Inspection:
    """The result of an inspection.

    Attributes:
        task: Name of the task.
        verdict: ``ok``; ``no data`` if only the data could not be checked; ``not run`` if the task has functions that
            are not allowed to run; ``faulty``.
        detail: The fault, or the number of usable documents.
        origin: The source of the data.
        checks: Each data check with expected and found value.
        failures: Rows that cannot be used, by reason.
        empty: Captions that are scored as empty ones, by reason.
    """

    task: str
    verdict: Verdict
    detail: str = ""
    origin: str = ""
    checks: Sequence[RecordedCheck] = ()
    failures: list[FailureSummary] = field(default_factory=list)
    empty: list[FailureSummary] = field(default_factory=list)


@asking_nobody()
def inspect_task(entry: IndexEntry, locations: DataLocations) -> Inspection:
    """Validate a task's file, resolve its names and functions, and read local data; make no network requests."""
    try:
        planned = plan_task(entry, ANY_MODELS, (), locations)
        for function in (planned.task.custom_dataset, planned.task.process_docs):
            if function is not None:
                function.resolve()
        return inspect_data(planned, locations)
    except CodeError as error:
        return Inspection(entry.name, "not run", f"has its own functions: {error}")
    except BenchError as error:
        return Inspection(entry.name, "faulty", str(error))


def inspect_data(planned: PlannedRun, locations: DataLocations) -> Inspection:
    """Read a planned run's data and compare it with the task's checks."""
    task = planned.task
    if planned.data is None and task.custom_dataset is None and not task.is_local:
        reason = unreachable()
        fetched = "fetched by the first run" + (f", but {reason}" if reason else "")
        return Inspection(task.task, "no data", f"not on this machine; hub data set {task.dataset_path}: {fetched}")
    try:
        job = prepare(planned, RunSettings(skip_checks=True), locations=locations)
    except DataError as error:
        # A file next to the task is part of it; the user must get one of a data card.
        source = load_source(task, planned.path)
        generated = source is not None and source.generated
        beside = task.is_local and source is None
        here = planned.data is not None or generated or beside
        verdict: Verdict = "faulty" if here else "no data"
        return Inspection(task.task, verdict, str(error))
    failures, documents = FailureLog(strict=False), job.documents
    try:
        summary = planned.protocol.read(job, failures)
    except CodeError:
        raise
    except BenchError as error:
        return Inspection(task.task, "faulty", str(error), documents.origin, [], summarise(failures.entries))
    # Any captioner of the task may look at its images.
    looks = planned.looks_at_images or planned.captioner is not None
    outside = job.pixels.outside if looks else None
    usable = 0 if outside and not may_read_one_image(job) else summary.effective
    passed = all(check.passed for check in summary.data_checks)
    counts = f"{usable:,} of {len(documents.rows):,} documents usable"
    counts = counts if passed else f"data checks failed; {counts}"
    return Inspection(
        task.task,
        "ok" if passed and usable else "faulty",
        f"{outside}\n{counts}" if outside else counts,
        documents.origin,
        summary.data_checks,
        summarise(failures.entries),
        summarise(failures.empty),
    )


def missing(planned: PlannedRun, locations: DataLocations) -> Iterator[BenchError]:
    """Yield an error for each missing dependency that a run cannot fetch: data, images, weights, and needs of metrics.

    Loads and downloads nothing.
    """
    yield from missing_data(planned, locations)
    checks: list[Callable[[], object]] = [planned.pixels.require] if planned.looks_at_images else []
    checks += [spec.check for spec in (planned.captioner, planned.encoder, planned.judge) if spec is not None]
    checks += [plan.metric.check for plan in planned.metrics]
    for check in checks:
        yield from _errors_of(check)


def missing_data(planned: PlannedRun, locations: DataLocations) -> Iterator[BenchError]:
    """Yield an error for each missing file of a run's data, without images."""
    # Tasks may share a data set, which is listed once; images are listed with their task.
    named = f"task '{planned.task.task}': "
    for error in _errors_of(lambda: require_data(planned.task, planned.path, locations)):
        yield DataError(error.message.removeprefix(named), error.hint)


def _errors_of(check: Callable[[], object]) -> Iterator[BenchError]:
    try:
        check()
    except BenchError as error:
        yield from error.parts
