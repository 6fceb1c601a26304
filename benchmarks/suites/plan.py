"""Plans a suite: which of its cells can be run here, and what is missing for the others."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

from ...adapters.aliases import resolve_model
from ...adapters.encoders.clip_tokens import clip_tokens
from ...errors import BenchError
from ...tasks.documents import require_data
from ...tasks.index import TaskIndex
from ...tasks.locate import DataLocations
from ...tasks.schema import load_task
from ..inputs.failures import FailureLog
from ..inputs.models import NamedModels
from ..inputs.settings import RunSettings
from ..protocols.document_reader import Document, read_each
from ..protocols.job import Result
from ..running.inspection import ANY_MODELS, missing, missing_data
from ..running.plan import PlannedRun, plan_task, plan_tasks
from ..running.runner import prepare
from .inputs import NOTHING, RowInputs
from .places import RowModels, places
from .read import REFERENCES, Suite


@dataclass
class SuitePlan:
    """The plan of a suite.

    Attributes:
        ready: By models, the tasks of metrics (none for the task's own measures) that can be run.
        reasons: By models, task and metric, why the others cannot.
        missing: Missing data and weights for those, each once, in the order of the rows.
    """

    ready: dict[RowModels, dict[tuple[str, ...], list[str]]] = field(default_factory=dict)
    reasons: dict[tuple[RowModels, str, str], str] = field(default_factory=dict)
    missing: list[BenchError] = field(default_factory=list)


def plan_suite(suite: Suite, index: TaskIndex, locations: DataLocations, inputs: RowInputs = NOTHING) -> SuitePlan:
    """Plan every cell of a suite; nothing is loaded, and nothing raises for a cell.

    Args:
        suite: The suite.
        index: The known tasks.
        locations: The locations of their data.
        inputs: User-provided inputs for its rows.
    """
    plan = SuitePlan()
    lacking: dict[str, BenchError] = {}
    for models, wanted in wanted_runs(suite, inputs).items():
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
                    plan.reasons[key] = " ".join(absent.message.partition("\n")[0] for absent in gone)
                    for absent in gone:
                        lacking.setdefault(absent.message, absent)
                else:
                    runnable.append(metric)
            if runnable:
                plan.ready.setdefault(models, {}).setdefault(tuple(runnable), []).append(task)
    plan.missing = list(lacking.values())
    return plan


def count_cells(
    suite: Suite, index: TaskIndex, locations: DataLocations, inputs: RowInputs = NOTHING
) -> tuple[int, int]:
    """Return how many cells of a suite can be measured here, and how many it has; nothing is loaded.

    Args:
        suite: The suite.
        index: The known tasks.
        locations: The locations of their data.
        inputs: User-provided inputs for its rows.
    """

    @cache
    def has_data(task: str) -> bool:
        with suppress(BenchError):
            (entry,) = index.resolve([task])
            require_data(load_task(entry.path)[0], entry.path, locations)
            return True
        return False

    @cache
    def can_run(models: RowModels, task: str, metric: str) -> bool:
        with suppress(BenchError):
            return next(_missing(index, locations, models, task, metric), None) is None
        return False

    here = total = 0
    for place in places(suite, inputs):
        cells = len(place.column.statistics) * len(place.column.categories)
        total += cells
        # The requirements of models and metrics take far longer to check than files.
        here += cells if not place.needs and has_data(place.column.task) and can_run(*place.key) else 0
    return here, total


def _missing(
    index: TaskIndex, locations: DataLocations, models: RowModels, task: str, metric: str
) -> Iterator[BenchError]:
    if metric == REFERENCES:
        yield from missing_data(plan_references(index, locations, task), locations)
        return
    named = models.named()
    specs = NamedModels.of(
        *(
            resolve_model(named[role], named.get(f"{role}_args", "")) if named[role] else None
            for role in ("model", "encoder", "judge")
        )
    )
    for planned in plan_tasks(index, [task], specs, [metric] if metric else [], locations):
        yield from missing(planned, locations)


def wanted_runs(suite: Suite, inputs: RowInputs = NOTHING) -> dict[RowModels, dict[str, list[str]]]:
    """Return, by the models of the rows, the metrics of each task; ``""`` stands for the task's own measures."""
    wanted: dict[RowModels, dict[str, list[str]]] = {}
    for place in places(suite, inputs):
        if not place.needs:
            metrics = wanted.setdefault(place.models, {}).setdefault(place.column.task, [])
            if place.metric not in metrics:
                metrics.append(place.metric)
    return wanted


def plan_references(index: TaskIndex, locations: DataLocations, name: str) -> PlannedRun:
    """Return the plan of a task for reading its references alone."""
    from ..protocols.binding import load_bound

    (entry,) = index.resolve([name])
    metrics = ["length"] if load_bound(entry.path)[2].takes_metrics else []
    return plan_task(entry, ANY_MODELS, metrics, locations)


def describe_references(index: TaskIndex, locations: DataLocations, name: str) -> dict[tuple[str, str], Result]:
    """Return the numbers of a task's references, by statistic and category (none).

    ``images``; ``references``; ``avg_reference_length_words``; ``unique_2grams``, distinct pairs of
    consecutive words in a reference; ``clip_tokens_per_reference`` and ``clip_tokens_per_image``, start and end
    included. Words are split at white space, and case differs. Entries of an image count as images, their captions as
    references.

    Args:
        index: The known tasks.
        locations: The locations of their data.
        name: The task.

    Raises:
        DataError: The data does not fit the task. A task with entries excludes such images, as when it is run.
    """
    from ..protocols.matching.documents import MatchingSettings, entries_of

    planned = plan_references(index, locations, name)
    job = prepare(planned, RunSettings(), locations=locations)
    images = references = words = tokens = 0
    pairs: set[tuple[str, str]] = set()
    has_entries = "doc_to_entries" in planned.task.templates

    def texts(document: Document) -> list[tuple[str, ...]]:
        if has_entries:
            return [entry.captions for entry in entries_of(document, MatchingSettings())[1]]
        return [document.references]

    keys = ("doc_to_id", "doc_to_image", "doc_to_entries") if has_entries else ("doc_to_id", "doc_to_target")
    for of_image in read_each(job, keys, texts, FailureLog(strict=not has_entries)):
        images += 1
        references += len(of_image)
        for reference in of_image:
            split = reference.split()
            words += len(split)
            tokens += clip_tokens(reference)
            pairs.update(pairwise(split))
    numbers = {
        "images": images,
        "references": references,
        "avg_reference_length_words": words / references if references else None,
        "unique_2grams": len(pairs),
        "clip_tokens_per_reference": tokens / references if references else None,
        "clip_tokens_per_image": tokens / images if images else None,
    }
    return {
        (statistic, ""): Result(REFERENCES, statistic, (REFERENCES, statistic), value, images, True)
        for statistic, value in numbers.items()
    }
