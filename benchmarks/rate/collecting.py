"""Collects the items to rate: documents of a task with recorded captions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...adapters import CaptionRequest
from ...adapters.captioners.recorded import RecordedCaptions
from ...boundary import Boundary
from ...errors import DataError, UsageError
from ...metrics import NoCache
from ...progress import silent
from ...tasks.documents import load_documents
from ...tasks.locate import DataLocations
from ...tasks.schema import TaskConfig
from ..inputs.failures import FailureLog
from ..inputs.images import ImageFinder
from ..inputs.items import candidate_fault, references_fault, references_of
from ..inputs.models import Models
from ..inputs.settings import RunSettings
from ..protocols.document_reader import read_values
from ..protocols.job import Job
from .items import KnownAnswer, RatedItem

_NAMED_IDS = 3
_KEYS = ("doc_to_id", "doc_to_image", "doc_to_target")


def recorded(files: Sequence[str]) -> list[RecordedCaptions]:
    """Read recorded captions.

    Args:
        files: Each a path or ``NAME=PATH``; the default name is that of the file.

    Raises:
        UsageError: Two files have the same name.
        BenchError: A file has no captions.
    """
    sources: list[RecordedCaptions] = []
    for text in files:
        name, equals, path = text.partition("=")
        # A path may contain an equals sign.
        named = bool(equals) and not Path(text).expanduser().is_file()
        captions = RecordedCaptions(path if named else text, name if named else None)
        if any(other.name == captions.name for other in sources):
            raise UsageError(
                f"--captions {text}: two files have the name '{captions.name}'",
                "Name the files: --captions A=first/captions.jsonl B=second/captions.jsonl",
            )
        sources.append(captions)
    return sources


def read_known(path: Path) -> list[dict[str, Any]]:
    """Read known answers: a row each, with ``id``, ``answer`` as files of answers have it, and ``system`` on scales.

    Raises:
        UsageError: A row is none.
    """
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            rows.append(KnownAnswer.model_validate_json(line).model_dump(mode="json", exclude_defaults=True))
        except ValidationError as error:
            raise UsageError(
                f"--known {path}:{number}: expected id, answer and, on scales, system",
                'Example: {"id": "0", "system": "good", "answer": {"precision": 5}}',
            ) from error
    return rows


def collect(
    task: TaskConfig, path: Path, locations: DataLocations, captions: Sequence[RecordedCaptions], *, subset: bool
) -> tuple[list[RatedItem], FailureLog]:
    """Return the documents of a task with a caption in every file, and what was excluded.

    Args:
        task: The task.
        path: Its file.
        locations: Locations of data sets.
        captions: Recorded captions of each system.
        subset: Whether captions may cover only a part of the documents.

    Raises:
        DataError: Captions are missing without ``subset``, or there is nothing to rate.
        UsageError: The task has no images or videos.
    """
    if "doc_to_image" not in task.templates:
        raise UsageError(
            f"task '{task.task}' has no images or videos; rating needs some",
            "Choose a task with doc_to_image; 'bench ls tasks' lists all.",
        )
    documents = load_documents(task, path, locations)
    nowhere = ImageFinder(task, None, Boundary())
    job = Job(task, documents, Models(), RunSettings(), NoCache(), silent, nowhere)
    items: list[RatedItem] = []
    failures = FailureLog(strict=False)
    requests: list[CaptionRequest] = []
    references: list[tuple[str, ...]] = []
    for _, identity, values in read_values(job, _KEYS, failures):
        target = references_of(values["doc_to_target"])
        if "doc_to_target" in task.templates and (fault := references_fault(target)):
            failures.add(identity, "reference", fault)
            continue
        numbered = "doc_to_id" not in task.templates
        requests.append(CaptionRequest(identity, values["doc_to_image"], "", numbered=numbered))
        references.append(tuple(target))
    texts = [_texts(source, requests, task.task, failures, subset=subset) for source in captions]
    for number, (request, of_image) in enumerate(zip(requests, references, strict=True)):
        if all(number in of_system for of_system in texts):
            image = str(request.image) if isinstance(request.image, str | int) else request.id
            usable = {source.name: of_system[number] for source, of_system in zip(captions, texts, strict=True)}
            items.append(RatedItem(id=request.id, image=image, captions=usable, references=of_image))
    if not items:
        raise DataError(
            f"task '{task.task}': no document has a caption in every file",
            "; ".join(f"{failure.sample}: {failure.subject} {failure.reason}" for failure in failures.entries[:3]),
        )
    return items, failures


def _texts(
    captions: RecordedCaptions, requests: Sequence[CaptionRequest], task: str, failures: FailureLog, *, subset: bool
) -> dict[int, str]:
    """Return captions by index of the document; log what is excluded."""
    (captioned,) = captions.stream(requests)
    unclaimed = captions.unclaimed()
    absent = sorted(captioned.absent)
    if absent and (not subset or len(absent) == len(requests)):
        raise _incomplete(captions, [requests[number].id for number in absent], len(requests), unclaimed, task)
    for bad in captions.bad_rows:
        failures.add(bad.place, "caption", bad.reason)
    for name in unclaimed:
        failures.add(name, "caption", f"is recorded in {captions.path.name} for no usable document of the task")
    for number in absent:
        failures.add(requests[number].id, "caption", f"is not recorded in {captions.path.name}")
    faults = {number: candidate_fault(caption.text) for number, caption in captioned.captions.items()}
    for number, fault in faults.items():
        if fault:
            failures.add(requests[number].id, "caption", f"of {captions.path.name} {fault}")
    return {number: caption.text for number, caption in captioned.captions.items() if not faults[number]}


def _incomplete(
    captions: RecordedCaptions, absent: Sequence[str], asked: int, unclaimed: Sequence[str], task: str
) -> DataError:
    bad = captions.bad_rows
    remedies = [f"{len(bad):,} rows cannot be used ({bad[0].place}: {bad[0].reason})."] if bad else []
    remedies += [f"Check the ids: {_first(unclaimed)} match no document of the task."] if unclaimed else []
    remedies += ["--subset rates only the documents with captions."] if len(absent) < asked else []
    return DataError(
        f"{captions.path}: lacks captions of {len(absent):,} of {asked:,} documents of '{task}': {_first(absent)}",
        " ".join(remedies) or "Is this the right file for the task?",
    )


def _first(ids: Sequence[str]) -> str:
    named = ", ".join(f"'{identity}'" for identity in ids[:_NAMED_IDS])
    return named + (", ..." if len(ids) > _NAMED_IDS else "")
