"""Requests captions of documents from the captioner of a run, a shard at a time, and counts its answers."""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from ...adapters import Caption, Captioned, Captioner, CaptionRequest, FrameSampling, ImageHandle
from ...adapters.images.handles import digests
from ...errors import DataError, UsageError
from ...tasks.row_images import RowImage
from ..inputs.asking import answers, merged
from ..inputs.failures import Failure, FailureLog
from ..inputs.items import text_fault
from ..inputs.recorded import RecordedCheck, RecordedSubset
from .document_reader import Document
from .job import CAPTIONS, Job, Summary

_NAMED_IDS = 3


@dataclass(frozen=True)
class Question(ABC):
    """The request of a captioner for a document."""

    request: CaptionRequest

    @abstractmethod
    def content(self) -> bytes:
        """Return the content of the document."""


QuestionT = TypeVar("QuestionT", bound=Question)


def require_captioner(job: Job) -> None:
    """Raise if the run has no captioner.

    Raises:
        UsageError: There is none.
    """
    if job.asking is None and job.models.captioner is None:
        raise UsageError(f"task '{job.task.task}' needs a captioning model", "Choose one with --model.")


def request_of(document: Document) -> CaptionRequest:
    """Return the request for a document."""
    job = document.job
    frames = job.task.video_frames
    return CaptionRequest(
        document.id,
        document["doc_to_image"],
        str(document["doc_to_text"]),
        {**job.task.generation_kwargs, **job.settings.generation_kwargs},
        numbered="doc_to_id" not in job.task.templates,
        pixels=document.pixels,
        sampling=FrameSampling() if frames is None else FrameSampling(frames.count, frames.fps),
    )


def answered(job: Job, questions: Iterator[QuestionT]) -> Iterator[tuple[list[QuestionT], Captioned]]:
    """Yield the questions of a shard with the answers of the captioner."""
    waiting: deque[list[QuestionT]] = deque()

    def requests() -> Iterator[list[CaptionRequest]]:
        while some := list(islice(questions, job.shard)):
            waiting.append(some)
            yield [document.request for document in some]

    for captioned in job.asking(requests()) if job.asking else _asked(job, requests()):
        yield waiting.popleft(), captioned


def _asked(job: Job, requests: Iterable[Sequence[CaptionRequest]]) -> Iterator[Captioned]:
    """Request captions from the captioner of this process; captions in the store are not requested again."""
    captioner = job.models.captioner
    assert captioner is not None  # noqa: S101 - checked before
    report, before = job.progress(CAPTIONS), 0
    for some in requests:

        def tell(done: int, total: int, before: int = before) -> None:
            report(before + done, total)

        pieces = answers(captioner, some, job.cache, job.settings.batch_size, tell, len(job.documents.rows))
        yield merged(pieces)
        before += len(some)


def _picture(request: CaptionRequest) -> bytes:
    """Return the hash of a picture that the row of its document holds; nothing where the row names a file."""
    pixels = request.pixels
    if not (isinstance(pixels, ImageHandle) and isinstance(pixels.source, RowImage)):
        return b""
    return str(*digests([pixels])).encode()


class RequestLog:
    """Counts the requested documents and their answers.

    Args:
        job: The run.

    Attributes:
        asked: Number of requested captions.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.asked = 0
        self._documents, self._present = hashlib.sha256(), hashlib.sha256()
        self._absent: list[str] = []
        self._absent_count = 0
        self._lengths: Counter[str] = Counter()
        self._remarks: list[Failure] = []

    @property
    def may_be_part(self) -> bool:
        """Whether the captions so far cover all documents, or a part where that is allowed."""
        captioner = self._job.models.captioner
        return not self._absent_count or self._job.settings.subset or bool(captioner and captioner.subset)

    def take(
        self, documents: Sequence[QuestionT], captioned: Captioned, failures: FailureLog
    ) -> Iterator[tuple[QuestionT, Caption | None]]:
        """Count documents, record those without an answer, and yield documents with their captions."""
        self.asked += len(documents)
        for number, document in enumerate(documents):
            identity, answer = document.request.id, captioned.captions.get(number)
            content = document.content() + _picture(document.request)
            self._documents.update(content)
            if number in captioned.absent:
                self._absent_count += 1
                self._absent += [identity] if self._absent_count <= _NAMED_IDS else []
            else:
                self._present.update(content)
                if answer is None:
                    stage = "image" if number in captioned.unseen else "model"
                    failures.add(
                        identity, stage, (captioned.unseen if stage == "image" else captioned.failures)[number]
                    )
            if answer is not None and text_fault(answer.text) is None:
                self._lengths.update(captions=1, words=len(answer.text.split()))
                if answer.tokens is not None:
                    self._lengths.update(told_tokens=1, tokens=answer.tokens)
                if answer.cut is not None:
                    self._lengths.update(told_cut=1, cut=answer.cut)
            if answer is not None and answer.remark:
                self._remarks.append(Failure(identity, "image", answer.remark))
            yield document, answer

    def require_all(self, failures: FailureLog) -> None:
        """Record the captions of a recorded source that belong to no document.

        Raises:
            DataError: It covers a part of the documents, and ``subset`` is not set.
        """
        captioner = self._job.models.captioner
        unclaimed = captioner.unclaimed() if captioner and self._job.settings.limit is None else ()
        if self._absent_count and (self._absent_count == self.asked or not self.may_be_part):
            raise self._incomplete(captioner, unclaimed)
        for bad in captioner.bad_rows if captioner else ():
            failures.add(bad.place, "caption", bad.reason)
        for key in unclaimed:
            failures.add(key, "caption", "matches no usable document of the task")

    def summary(self, effective: int, checks: Sequence[RecordedCheck], categories: Sequence[str] = ("",)) -> Summary:
        """Return the summary of all documents.

        Args:
            effective: Number of documents that are scored.
            checks: The data checks.
            categories: The parts of the data by which results are given.
        """
        subset = None
        if self._absent_count:
            captioned, known = self.asked - self._absent_count, self._present.hexdigest()
            subset = RecordedSubset(documents=captioned, of=self.asked, hash=known)
        return Summary(
            effective,
            generation=self._generation(),
            data_checks=checks,
            remarks=self._remarks,
            documents_hash=self._documents.hexdigest(),
            subset=subset,
            categories=categories,
        )

    def _generation(self) -> dict[str, Any]:
        """Return the lengths of captions, and how many reached the token limit."""
        count = self._lengths
        return {
            "captions": count["captions"],
            "mean_words": count["words"] / count["captions"] if count["captions"] else 0.0,
            "mean_tokens": count["tokens"] / count["told_tokens"] if count["told_tokens"] else None,
            "cut": count["cut"] if count["told_cut"] else None,
        }

    def _incomplete(self, captioner: Captioner | None, unclaimed: Sequence[str]) -> DataError:
        ids = ", ".join(f"'{identity}'" for identity in self._absent)
        remedies: list[str] = []
        if captioner and captioner.bad_rows:
            bad = captioner.bad_rows[0]
            remedies.append(f"{len(captioner.bad_rows):,} of its rows cannot be used ({bad.place}: {bad.reason}).")
        if unclaimed:
            others = ", ".join(f"'{key}'" for key in unclaimed[:_NAMED_IDS])
            remedies.append(f"Check that ids match: the recorded captions {others} belong to no document.")
        if self._absent_count < self.asked:
            remedies.append("--subset, or --model_args subset=true, scores only the documents with captions.")
        return DataError(
            f"task '{self._job.task.task}': no caption is recorded for {self._absent_count:,} of "
            f"{self.asked:,} documents: {ids}" + (", ..." if self._absent_count > _NAMED_IDS else ""),
            " ".join(remedies) or "Check that this is the file for this task.",
        )
