"""Reads documents through the ``doc_to_*`` keys of a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeGuard

from ...boundary import OutsideFile
from ...named_rows import SeenNames
from ...tasks.templates import DocumentError, Getter, compile_template
from ..inputs.failures import FailureLog
from ..inputs.items import printable, references_of
from ..inputs.pixels import pixels_value

if TYPE_CHECKING:
    from .job import Job

_IMAGE_KEYS = ("doc_to_image", "doc_to_images", "doc_to_pixels")


def is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    """Tell whether what a document gives is a list."""
    return isinstance(value, list | tuple)


class DocumentReader:
    """Reads documents through the ``doc_to_*`` keys of a task.

    Args:
        job: The job.
        keys: The keys that the protocol reads; those that the task leaves out give None.
    """

    def __init__(self, job: Job, keys: Sequence[str]) -> None:
        self._job = job
        columns = job.documents.columns
        self._getters: dict[str, Getter] = {
            key: compile_template(job.task, key, columns)
            for key in keys
            # A copy without the images does for metrics that look at none.
            if (template := job.task.templates.get(key)) is not None
            and not (key == "doc_to_pixels" and isinstance(template, str) and template not in columns)
        }
        self._absent: dict[str, Any] = dict.fromkeys(keys)

    def __len__(self) -> int:
        total = len(self._job.documents.rows)
        return total if self._job.settings.limit is None else min(total, self._job.settings.limit)

    def read(self, failures: FailureLog) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield id and values of each usable document; rows without an id are named by their number.

        Failures of reading, documents that lack a column and ids that occur twice are recorded.
        """
        for bad in self._job.documents.bad_rows:
            failures.add(bad.place, "data", bad.reason)
        seen = SeenNames()
        for number, document in enumerate(islice(self._job.documents.rows, len(self))):
            try:
                values = {key: get(document) for key, get in self._getters.items()}
            except DocumentError as error:
                failures.add(f"document {number}", "data", printable(str(error)))
                continue
            named = values.get("doc_to_id")
            identity = str(number) if named is None else printable(str(named))
            # Where the task names no ids, a document's number is like no other.
            if "doc_to_id" in self._getters:
                if identity in seen:
                    failures.add(identity, "data", "has an id that occurred before; the first one was kept")
                    continue
                seen.add(identity)
            yield identity, self._absent | values


def may_read_one_image(job: Job) -> bool:
    """Return whether one of the images that documents name may be read, or one names none."""
    for _, values in DocumentReader(job, _IMAGE_KEYS).read(FailureLog(strict=False)):
        given = values["doc_to_images"] or pixels_value(values)
        for image in given if is_list(given) else [given]:
            handle = job.pixels(image)
            if handle is None or not isinstance(handle.source, OutsideFile):
                return True
    return False


def count_references(job: Job) -> int:
    """Return how many references all documents have together."""
    values = DocumentReader(job, ("doc_to_target",)).read(FailureLog(strict=False))
    return sum(len(references_of(one["doc_to_target"])) for _, one in values)
