"""Asks the captioner of a run for documents, a shard at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from ....adapters import Captioned, CaptionRequest
from ....errors import UsageError
from ...inputs.asking import answers, merged
from ...inputs.pixels import pixels_value
from ..job import CAPTIONS, Job

Document = TypeVar("Document")


def require_captioner(job: Job) -> None:
    """Raise if nothing answers.

    Raises:
        UsageError: So it is.
    """
    if job.asking is None and job.models.captioner is None:
        raise UsageError(
            f"task '{job.task.task}' needs a model that writes captions", "Name it with --model."
        )


def request_of(job: Job, identity: str, values: Mapping[str, Any]) -> CaptionRequest:
    """Return what is asked of a document.

    Args:
        job: The run.
        identity: Id of the document.
        values: What its templates give.
    """
    return CaptionRequest(
        identity,
        values["doc_to_image"],
        str(values["doc_to_text"]),
        {**job.task.generation_kwargs, **job.settings.generation_kwargs},
        numbered="doc_to_id" not in job.task.templates,
        pixels=job.pixels(pixels_value(values)),
    )


def answered(
    job: Job, documents: Iterator[Document], request_of: Callable[[Document], CaptionRequest]
) -> Iterator[tuple[list[Document], Captioned]]:
    """Yield documents, a shard at a time, and what the captioner answers.

    Args:
        job: The run.
        documents: What is asked about.
        request_of: Gives what the captioner is asked of a document.
    """
    waiting: deque[list[Document]] = deque()

    def requests() -> Iterator[list[CaptionRequest]]:
        while some := list(islice(documents, job.shard)):
            waiting.append(some)
            yield [request_of(document) for document in some]

    for given in job.asking(requests()) if job.asking else _asked(job, requests()):
        yield waiting.popleft(), given


def _asked(job: Job, requests: Iterable[Sequence[CaptionRequest]]) -> Iterator[Captioned]:
    """Ask the captioner of this process; what the store knows is not asked for again."""
    captioner = job.models.captioner
    assert captioner is not None  # noqa: S101 - looked at before
    report, before = job.progress(CAPTIONS), 0
    for some in requests:

        def tell(done: int, total: int, before: int = before) -> None:
            report(before + done, total)

        pieces = answers(captioner, some, job.cache, job.settings.batch_size, tell, len(job.documents.rows))
        yield merged(pieces)
        before += len(some)
