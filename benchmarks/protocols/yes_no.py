"""``yes_no``: a model answers questions on images with yes or no."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...adapters import CaptionRequest
from ...errors import DataError
from ...metrics import Items
from ..inputs.failures import FailureLog
from ..inputs.items import image_key, text_fault
from ..inputs.pixels import view_fault
from ..statistics.contract import Statistic, UndefinedStatistic
from ..statistics.influence import along, gradient
from ..statistics.rated_rows import first_seen
from .asking.answered import answered, request_of, require_captioner
from .asking.asked import Asked
from .asking.yes_or_no import RATES, TERMS, Said, majority_elsewhere, released, strict, term_of
from .checks import DataCheck, run_checks
from .contract import Protocol, ProtocolSettings
from .document_reader import DocumentReader
from .job import Collected, Job, Shard, Summary, numbers_of
from .results import CHANCE, Result, ScoredMetric

_PARSES: Mapping[str, Callable[[str], Said]] = {"released": released, "strict": strict}
_LABELS = {"released": "Answers", "strict": "Answers, strictly read"}
_TRUTH = {"yes": True, "no": False}


@dataclass(frozen=True)
class _Question:
    """What the model is asked, and whether yes is right."""

    request: CaptionRequest
    image: str
    truth: bool

    @property
    def values(self) -> list[Any]:
        """All that is known of it, as JSON values."""
        return [self.image, self.request.prompt, self.truth]

    def content(self) -> bytes:
        """Return the same as JSON."""
        return json.dumps(self.values).encode()


class YesNo(Protocol[ProtocolSettings]):
    """Accuracy, precision, recall and F1 of a model's answers, and how often it says yes.

    ``doc_to_text`` gives the question, ``doc_to_target`` the right answer: yes or no.
    """

    reads = (
        "doc_to_id", "doc_to_text", "doc_to_image", "doc_to_pixels", "doc_to_target", "image_folder", "video_folder",
        "generation_kwargs",
    )  # fmt: skip
    needs = frozenset({"doc_to_text", "doc_to_target"})
    lists = frozenset[str]()
    about = (
        "Answers are read in two ways. released: no if No, no or not is a word before the first full stop, else yes, "
        "as POPE's released code has it; so an empty answer is a yes. strict: by their first word, and as neither "
        "where that is not yes or no, which is right for no question. Yes is what precision and recall are of; what "
        "is divided by 0 is undefined. Intervals draw images with all of their questions. Beside accuracy stands what "
        "is reached by giving the answer that the same question mostly has on other images."
    )
    subject = "model"
    needs_captioner = True
    statistic = "accuracy"
    counted = "questions"
    sample = "answer"

    @property
    def measures(self) -> tuple[str, ...]:
        """The ways in which answers are read."""
        return tuple(_PARSES)

    def read(self, job: Job, failures: FailureLog) -> tuple[int, list[DataCheck]]:
        """Return how many questions can be asked, and the data checks."""
        found = _Found(job)
        for question in _questions(job, self.document_keys, failures):
            found.count(question)
        return found.questions, found.checks()

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Ask every question.

        Raises:
            DataError: As of ``Protocol.collect``, or a recorded source lacks answers and was not said to.
        """
        require_captioner(job)
        found = _Found(job)
        questions = _questions(job, self.document_keys, failures)
        for some, given in answered(job, questions, lambda question: question.request):
            said: list[tuple[_Question, str]] = []
            for question, answer in found.take(some, given, failures):
                found.count(question)
                if answer is not None:
                    # A model that says nothing has answered: released code reads it, too.
                    said.append((question, "" if text_fault(answer.text) else str(answer.text)))
            if said and found.may_be_part:
                found.answers += len(said)
                yield _shard(said)
        checks = found.checks()
        found.require_all(failures)
        if not found.answers:
            raise DataError(
                f"task '{job.task.task}': no question was answered",
                "; ".join(f"{one.sample}: {one.subject} {one.reason}" for one in failures.entries[:3]),
            )
        return found.told(found.answers, checks)

    def results(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
    ) -> list[Result]:
        """Return the rates of each way to read answers, with intervals over images."""
        return [
            self._result(job, collected, parse, rate)
            for parse in self.measures
            for rate in RATES
            # Whatever is not no is yes for released code.
            if (parse, rate) != ("released", "neither_share")
        ]

    def _result(self, job: Job, collected: Collected, parse: str, rate: str) -> Result:
        numbers = collected.numbers
        terms = np.eye(len(TERMS))[numbers[parse]]
        totals, pool = terms.sum(axis=0), RATES[rate]
        value, interval, reason = None, None, ""
        try:
            value = float(pool(totals))
            interval = job.settings.interval(
                lambda weights: pool(weights @ terms),
                first_seen(numbers["image"]),
                lambda: along(gradient(pool, totals), [terms]),
            )
        except UndefinedStatistic as error:
            reason = str(error)
        alone: dict[str, float] = {}
        if rate == "accuracy":
            majority = majority_elsewhere(numbers["question"], numbers["image"], numbers["truth"])
            alone = {CHANCE: 0.5, "question": float(majority.mean())}
        return Result(
            parse,
            rate,
            (_LABELS[parse], rate.replace("_share", " share")),
            value,
            collected.rows,
            higher_is_better=rate != "neither_share",
            scale=job.task.scale,
            interval=interval,
            reason=reason,
            alone=alone,
        )


class _Found(Asked):
    """Counts questions.

    Attributes:
        questions: How many can be asked.
        answers: How many were answered.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.questions = self.answers = 0
        self._images: set[str] = set()

    def count(self, question: _Question) -> None:
        """Count a question."""
        self.questions += 1
        self._images.add(question.image)

    def checks(self) -> list[DataCheck]:
        """Hold the counts against what the task expects."""
        return run_checks(
            self._job,
            documents=len(self._job.documents.rows),
            rows=self.questions,
            images=len(self._images),
        )


def _questions(job: Job, keys: Sequence[str], failures: FailureLog) -> Iterator[_Question]:
    """Yield the questions that can be asked."""
    for identity, values in DocumentReader(job, keys).read(failures):
        truth = _truth(values["doc_to_target"])
        if truth is None:
            failures.add(
                identity, "data", f"has a right answer that is not yes or no: {values['doc_to_target']!r:.80}"
            )
        elif fault := text_fault(values["doc_to_text"]):
            failures.add(identity, "data", f"has a question that {fault}")
        elif fault := view_fault(job.task, values):
            failures.add(identity, "image", fault)
        else:
            image = identity if values["doc_to_image"] is None else image_key(values["doc_to_image"])
            yield _Question(request_of(job, identity, values), image, truth)


def _truth(target: Any) -> bool | None:
    """Return whether yes is the right answer; None if what a document gives says neither."""
    if isinstance(target, bool):
        return target
    return _TRUTH.get(target.strip().lower()) if isinstance(target, str) else None


def _shard(said: Sequence[tuple[_Question, str]]) -> Shard:
    """Return answers, and what they say."""
    questions = [question for question, _ in said]
    read = {name: _read(parse, said) for name, parse in _PARSES.items()}
    truths = [question.truth for question in questions]
    return Shard(
        Items(ids=[], candidates=[], references=[], weights=np.zeros(0)),
        np.zeros(0, dtype=np.int64),
        {
            "id": [question.request.id for question in questions],
            "image": [question.image for question in questions],
            "question": [question.request.prompt for question in questions],
            "candidate": [answer for _, answer in said],
            "target": ["yes" if truth else "no" for truth in truths],
            **{f"{name}_says": words for name, words in read.items()},
            # As where metrics score rows: a column of the result's name holds what each adds to it.
            **{
                name: [float(_TRUTH.get(one) is truth) for one, truth in zip(words, truths, strict=True)]
                for name, words in read.items()
            },
        },
        {
            "image": numbers_of(question.image for question in questions),
            "question": numbers_of(question.request.prompt for question in questions),
            "truth": np.array(truths),
            **{
                name: np.array([term_of(one, truth) for one, truth in zip(words, truths, strict=True)])
                for name, words in read.items()
            },
        },
        [[*question.values, answer] for question, answer in said],
    )


def _read(parse: Callable[[str], Said], said: Sequence[tuple[_Question, str]]) -> list[Said]:
    return [parse(answer) for _, answer in said]
