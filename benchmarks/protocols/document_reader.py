"""Reads documents through the ``doc_to_*`` keys of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from ...adapters import Box, ImageHandle, VideoHandle
from ...boundary import OutsideFile
from ...tasks.templates import DocumentError, Getter, compile_template
from ..inputs.failures import FailureLog, Stage
from ..inputs.images import boxes_of, pixels_value, span_of, view_fault
from ..inputs.items import candidate_fault, image_key, objects_fault, printable, references_fault, references_of

if TYPE_CHECKING:
    from .job import Job


def is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    """Return whether a value of a document is a list."""
    return isinstance(value, list | tuple)


def is_blank(value: Any) -> bool:
    """Return whether a value of a document is missing or empty."""
    return value is None or not str(value).strip()


class UnusableDocument(Exception):  # noqa: N818 - a listed failure, not an error of the run
    """A document cannot be used; it is listed among the failures.

    Args:
        stage: The step, as of ``Failure``.
        reason: Why, as the end of a sentence.
    """

    def __init__(self, stage: Stage, reason: str) -> None:
        super().__init__(reason)
        self.stage: Stage = stage


class Document:
    """The values of a document, checked on access: an unusable value raises :class:`UnusableDocument`.

    Args:
        job: The run.
        identity: Id of the document.
        values: Its value for each ``doc_to_*`` key.
    """

    def __init__(self, job: Job, identity: str, values: Mapping[str, Any]) -> None:
        self.job, self.id, self._values = job, identity, values

    def __getitem__(self, key: str) -> Any:
        """Return the value for a key; None for a key that the task or the protocol does not have."""
        return self._values.get(key)

    @property
    def image(self) -> str:
        """The key of its image: ``doc_to_image``, or its id."""
        image = self["doc_to_image"]
        return self.id if image is None else image_key(image)

    @cached_property
    def references(self) -> tuple[str, ...]:
        """Those of ``doc_to_target``; empty where the task has none."""
        references = references_of(self["doc_to_target"])
        if "doc_to_target" in self.job.task.templates and (fault := references_fault(references)):
            raise UnusableDocument("reference", fault)
        return tuple(references)

    @cached_property
    def objects(self) -> frozenset[str] | None:
        """The objects of the image; None where the task does not name them."""
        objects = self["doc_to_objects"]
        if "doc_to_objects" in self.job.task.templates and (fault := objects_fault(objects)):
            raise UnusableDocument("objects", fault)
        return None if objects is None else frozenset(objects)

    @cached_property
    def category(self) -> str:
        """Its category; empty where there are none."""
        return self.name("category")

    def name(self, key: str) -> str:
        """Return what ``doc_to_WHAT`` gives as a name; empty where the task does not have the key."""
        value = self[f"doc_to_{key}"]
        if f"doc_to_{key}" in self.job.task.templates and is_blank(value):
            raise UnusableDocument("data", f"has no {key}")
        return "" if value is None else printable(str(value))

    def check_view(self) -> None:
        """Raise if the span or the boxes cannot be used."""
        if fault := view_fault(self.job.task, self._values):
            raise UnusableDocument("image", fault)

    @cached_property
    def pixels(self) -> ImageHandle | VideoHandle | None:
        """Its image or video; None where the data does not locate it."""
        self.check_view()
        pixels = self["doc_to_pixels"]
        return self.job.pixels(self["doc_to_image"] if pixels is None else pixels, span_of(self["doc_to_span"]))

    @cached_property
    def boxes(self) -> tuple[Box, ...] | None:
        """The parts of the image; None where the task does not name them."""
        self.check_view()
        return boxes_of(self["doc_to_boxes"])

    @cached_property
    def candidates(self) -> tuple[str, ...]:
        """The captions of ``doc_to_candidates``, two or more."""
        candidates = self["doc_to_candidates"]
        if not is_list(candidates) or len(candidates) < 2:
            raise UnusableDocument("candidate", "is not a list of two captions or more")
        for caption in candidates:
            if fault := candidate_fault(caption):
                raise UnusableDocument("candidate", fault)
        return tuple(candidates)


_Read = TypeVar("_Read")


def read_documents(
    job: Job, keys: Sequence[str], read: Callable[[Document], Iterable[_Read]], failures: FailureLog
) -> Iterator[tuple[Document, list[_Read]]]:
    """Yield each document with the results of ``read``, which are empty for an unusable one.

    Args:
        job: The run.
        keys: The ``doc_to_*`` keys that the protocol reads.
        read: Reads one; raises :class:`UnusableDocument`.
        failures: Receives the documents that cannot be used.
    """
    for _, identity, values in read_values(job, keys, failures):
        document = Document(job, identity, values)
        try:
            samples = list(read(document))
        except UnusableDocument as fault:
            failures.add(identity, fault.stage, str(fault))
            samples = []
        yield document, samples


def read_each(
    job: Job, keys: Sequence[str], read: Callable[[Document], Iterable[_Read]], failures: FailureLog
) -> Iterator[_Read]:
    """Yield the results of ``read`` of all documents; as :func:`read_documents`."""
    for _, samples in read_documents(job, keys, read, failures):
        yield from samples


def read_values(job: Job, keys: Sequence[str], failures: FailureLog) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield number, id and values of each usable document; rows without an id are named by their number.

    Args:
        job: The run.
        keys: The ``doc_to_*`` keys to read; None for those that the task lacks.
        failures: Receives failures of reading, documents that lack a column and ids that occur twice.
    """
    documents, templates = job.documents, job.task.templates
    columns = documents.columns
    getters: dict[str, Getter] = {
        key: compile_template(job.task, key, columns)
        for key in keys
        # Metrics of texts need no copy of the images.
        if (template := templates.get(key)) is not None
        and not (key == "doc_to_pixels" and isinstance(template, str) and template not in columns)
    }
    absent: dict[str, Any] = dict.fromkeys(keys)
    for bad in documents.bad_rows:
        failures.add(bad.place, "data", bad.reason)
    seen = set[str]()
    for number, document in enumerate(islice(documents.rows, job.settings.limit)):
        try:
            values = {key: get(document) for key, get in getters.items()}
        except DocumentError as error:
            failures.add(f"document {number}", "data", printable(str(error)))
            continue
        named = values.get("doc_to_id")
        identity = str(number) if named is None else printable(str(named))
        # Without ids of the task, the numbers of documents are unique.
        if "doc_to_id" in getters:
            if identity in seen:
                failures.add(identity, "data", "has an id that occurred before; the first one was kept")
                continue
            seen.add(identity)
        yield number, identity, absent | values


def may_read_one_image(job: Job) -> bool:
    """Return whether a document names an image that may be read, or names none."""
    for _, _, values in read_values(job, ("doc_to_image", "doc_to_images", "doc_to_pixels"), FailureLog(strict=False)):
        images = values["doc_to_images"] or pixels_value(values)
        for image in images if is_list(images) else [images]:
            handle = job.pixels(image)
            if handle is None or not isinstance(handle.source, OutsideFile):
                return True
    return False


def count_references(job: Job) -> int:
    """Return the total number of references of the documents."""
    values = read_values(job, ("doc_to_target",), FailureLog(strict=False))
    return sum(len(references_of(document["doc_to_target"])) for _, _, document in values)
