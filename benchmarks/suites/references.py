"""What the references of a task are, without a caption: how many, how long, how varied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from ...metrics import NoCache
from ...progress import silent
from ...tasks.documents import load_documents
from ...tasks.index import TaskIndex, build_index
from ...tasks.locate import DataLocations
from ..inputs.failures import FailureLog
from ..inputs.items import references_of
from ..inputs.models import Models
from ..inputs.settings import RunSettings
from ..protocols.document_reader import DocumentReader
from ..protocols.job import Job, Result
from ..running.inspection import ANY_MODELS
from ..running.plan import PlannedRun, plan_task
from .read import REFERENCES


def plan_references(index: TaskIndex, locations: DataLocations, name: str) -> PlannedRun:
    """Return the plan of a task of which nothing but the references is read."""
    (entry,) = index.resolve([name])
    return plan_task(entry, ANY_MODELS, ["length"], locations)


def describe_references(
    name: str,
    *,
    data: Mapping[str, Path] | None = None,
    include_path: Sequence[str | Path] = (),
    allow_outside: Sequence[str | Path] = (),
) -> dict[tuple[str, str], Result]:
    """Return the numbers of a task's references, by statistic and category (none).

    ``images``; ``references``; ``avg_reference_length_words``; ``unique_2grams``, pairs of words that stand side by
    side in a reference. Words are what white space divides, as written.

    Args:
        name: The task.
        data: Task name to the path of its local data.
        include_path: Folders with task files of the user's own.
        allow_outside: Folders besides those of tasks and data whose files the task may read.

    Raises:
        DataError: The data is not what the task expects.
    """
    index = build_index(include_path)
    locations = DataLocations.from_environment(index.expand_names(data or {}), allow_outside)
    planned = plan_references(index, locations, name)
    documents = load_documents(planned.task, planned.path, locations)
    job = Job(planned.task, documents, Models(), RunSettings(), NoCache(), silent, planned.pixels)
    images = references = words = 0
    pairs: set[tuple[str, str]] = set()
    for _, values in DocumentReader(job, ("doc_to_id", "doc_to_target")).read(FailureLog(strict=True)):
        images += 1
        for reference in references_of(values["doc_to_target"]):
            split = reference.split()
            references += 1
            words += len(split)
            pairs.update(pairwise(split))
    numbers = {
        "images": images,
        "references": references,
        "avg_reference_length_words": words / references if references else None,
        "unique_2grams": len(pairs),
    }
    return {
        (statistic, ""): Result(REFERENCES, statistic, (REFERENCES, statistic), value, images, True)
        for statistic, value in numbers.items()
    }
