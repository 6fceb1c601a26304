"""``yes_no``: a model answers yes-no questions about images."""

import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ..inputs.failures import FailureLog
from ..inputs.items import numbers_of, text_fault
from ..statistics.contract import Statistics, UndefinedStatistic
from ..statistics.influence import WeightedValue, along, gradient
from ..statistics.rated_rows import first_seen
from .asking import Question, RequestLog, answered, request_of, require_captioner
from .checks import no_rows, run_checks
from .contract import IMAGE_KEYS, TEXTS, Protocol, ProtocolSettings, unscored_shard
from .document_reader import Document, UnusableDocument, read_each
from .job import CHANCE, Collected, Job, Result, ScoredMetrics, Shard, Summary, estimated_result

Said = Literal["yes", "no", "neither"]
_NO = frozenset({"No", "no", "not"})
_FIRST_WORD = re.compile(r"[^\W\d_]+")


def released(answer: str) -> Said:
    """Return the parsed answer by the rule of POPE's released code.

    It is no if one of the words before the first full stop is ``No``, ``no`` or ``not``, split at single spaces,
    without commas; and yes otherwise, also if empty, or ``NO``, ``Not``, ``cannot``, ``isn't``, ``None``.
    Source: RUCAIBox/POPE, ``evaluate.py``.
    """
    words = answer.partition(".")[0].replace(",", "").split(" ")
    return "no" if _NO.intersection(words) else "yes"


def strict(answer: str) -> Said:
    """Return the lower-cased first word of an answer if it is yes or no."""
    first = _FIRST_WORD.search(answer)
    word = first[0].lower() if first else ""
    return word if word in ("yes", "no") else "neither"


def exact(answer: str) -> Said:
    """Return what an answer says that is ``Yes`` or ``No`` to the letter, as AMBER's released code reads it."""
    return "yes" if answer == "Yes" else "no" if answer == "No" else "neither"


TERMS = ("yes_right", "yes_wrong", "no_right", "no_wrong", "neither_yes", "neither_no")
"""The counts of answers: yes and no by whether they are right; neither, by the right answer."""


def term_of(said: Said, truth: bool) -> int:
    """Return the index of an answer in ``TERMS``."""
    right = said == "yes" if truth else said == "no"
    return {"yes": 0, "no": 2}[said] + (not right) if said != "neither" else 4 + (not truth)


Answer = Literal["yes", "no"]
_SHARES: Mapping[str, tuple[list[int], list[int], str]] = {
    "accuracy": ([0, 2], [0, 1, 2, 3, 4, 5], "there is no answer"),
    "precision": ([0], [0, 1], "no answer is {}"),
    "recall": ([0], [0, 3, 4], "no question is to be answered with {}"),
    "yes_share": ([0, 1], [0, 1, 2, 3, 4, 5], "there is no answer"),
    "neither_share": ([4, 5], [0, 1, 2, 3, 4, 5], "there is no answer"),
}
"""Of a rate: the terms of numerator and denominator, and the reason where the denominator is 0."""
_EXCHANGED = [2, 3, 0, 1, 5, 4]
"""The terms with yes and no exchanged."""


def _share(name: str, sums: np.ndarray, positive: Answer = "yes") -> float:
    part, whole, reason = _SHARES[name]
    if name in ("precision", "recall") and positive == "no":
        sums = sums[_EXCHANGED]
    if not sums[whole].sum():
        raise UndefinedStatistic(reason.format(positive))
    return sums[part].sum() / sums[whole].sum()


def _f1(sums: np.ndarray, positive: Answer = "yes", decimals: int | None = None, added: float = 0.0) -> float:
    shares = [_share(name, sums, positive) for name in ("precision", "recall")]
    if decimals is not None:
        shares = [round(100 * share, decimals) / 100 for share in shares]
    if not sum(shares):
        raise UndefinedStatistic(f"no {positive} is right")
    return 2 * shares[0] * shares[1] / (sum(shares) + added)


RATES: Mapping[str, Callable[..., float]] = {
    name: _f1 if name == "f1" else partial(_share, name)
    for name in ("accuracy", "precision", "recall", "f1", "yes_share", "neither_share")
}
"""Rates of the sums ``[6]`` of ``TERMS``, and of the positive class. Answers that are neither do not count in
precision, and are never right."""


def majority_elsewhere(question: np.ndarray, image: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return ``[n]`` the credit of the majority answer to the same question on other images.

    It is a half where both answers are equally frequent, or no other image has the question.

    Args:
        question: ``[n]`` equal numbers for equal questions.
        image: ``[n]`` equal numbers for equal images.
        truth: ``[n]`` whether yes is right.
    """
    votes = np.where(truth, 1, -1)
    _, of_question = np.unique(question, return_inverse=True)
    _, of_both = np.unique(np.stack([question, image]), axis=1, return_inverse=True)
    balance = np.bincount(of_question, votes)[of_question] - np.bincount(of_both, votes)[of_both]
    return np.where(balance == 0, 0.5, (balance > 0) == truth)


_PARSES: Mapping[str, Callable[[str], Said]] = {"released": released, "strict": strict, "exact": exact}
_LABELS = {"released": "Answers", "strict": "Answers, strictly read", "exact": "Answers, to the letter"}
_TRUTH = {"yes": True, "no": False}


@dataclass(frozen=True)
class _Question(Question):
    """A question, and whether yes is right."""

    image: str
    truth: bool
    category: str

    @property
    def values(self) -> list[Any]:
        """Its content as JSON values."""
        return [self.image, self.request.prompt, self.truth, *filter(None, [self.category])]

    def content(self) -> bytes:
        """Return the same as JSON."""
        return json.dumps(self.values).encode()


class YesNoSettings(ProtocolSettings):
    """The settings of a yes-no task that affect its numbers."""

    readings: tuple[Literal["released", "strict", "exact"], ...] = ("released", "strict")
    """The ways to parse answers."""
    positive: Answer = "yes"
    """The answer of which precision, recall and F1 are."""
    f1_decimals: int | None = Field(default=None, ge=0)
    """Decimals, in per cent, to which precision and recall are rounded before F1."""
    f1_added: float = Field(default=0.0, ge=0)
    """What is added to the denominator of F1."""

    meanings: ClassVar = TEXTS["yes_no"]["meanings"]


class YesNo(Protocol[YesNoSettings]):
    """Accuracy, precision, recall and F1 of a model's answers, and their share of yes.

    ``doc_to_text`` gives the question, ``doc_to_target`` the right answer: yes or no. With ``doc_to_category`` rates
    are also given by category; the overall ones are those of all questions together.
    """

    Settings = YesNoSettings
    reads = ("doc_to_text", *IMAGE_KEYS, "doc_to_category", "generation_kwargs", "video_frames")
    needs = frozenset({"doc_to_text", "doc_to_target"})
    lists = frozenset[str]()
    about = TEXTS["yes_no"]["about"]
    category_key = "doc_to_category"
    subject = "model"
    needs_captioner = True
    statistic = "accuracy"
    counted = "questions"
    sample = "answer"

    @property
    def measures(self) -> tuple[str, ...]:
        """The ways to parse answers."""
        return self.settings.readings

    def read(self, job: Job, failures: FailureLog) -> Summary:
        """Return the number of usable questions, and the data checks."""
        questions = list(read_each(job, self.document_keys, _question, failures))
        categories = Counter(question.category for question in questions)
        images = len({question.image for question in questions})
        checks = run_checks(job, categories=categories, rows=len(questions), images=images)
        return Summary(len(questions), data_checks=checks, categories=list(categories))

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Request the answers to all questions.

        Raises:
            DataError: As of ``Protocol.collect``, or a recorded source lacks answers and ``subset`` is not set.
        """
        require_captioner(job)
        log, images, asked, categories, answers = RequestLog(job), set[str](), Counter[str](), dict[str, int](), 0
        for some, captioned in answered(job, read_each(job, self.document_keys, _question, failures)):
            images.update(question.image for question in some)
            asked.update(question.category for question in some)
            # An empty answer counts: released code parses it, too.
            said = [
                (question, "" if text_fault(answer.text) else str(answer.text))
                for question, answer in log.take(some, captioned, failures)
                if answer is not None
            ]
            if said and log.may_be_part:
                answers += len(said)
                yield _shard(said, categories, self.measures)
        checks = run_checks(job, categories=asked, rows=asked.total(), images=len(images))
        log.require_all(failures)
        if not answers:
            raise no_rows(job, "no question was answered", failures)
        return log.summary(answers, checks, list(categories))

    def results(self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics) -> list[Result]:
        """Return the rates of each way to parse answers, by category, then overall, with intervals over images."""
        names, of_row = collected.summary.categories, collected.numbers["category"]
        parts = [(name, of_row == number) for number, name in enumerate(names)] if len(names) > 1 else []
        parts.append(("", np.ones(collected.rows, bool)))
        return [
            self._result(job, collected, parse, rate, category, rows)
            for parse in self.measures
            for category, rows in parts
            for rate in RATES
            # In released code every answer other than no is yes.
            if (parse, rate) != ("released", "neither_share")
        ]

    def _result(self, job: Job, collected: Collected, parse: str, rate: str, category: str, rows: np.ndarray) -> Result:
        numbers = {name: values[rows] for name, values in collected.numbers.items()}
        terms, settings = np.eye(len(TERMS))[numbers[parse]], self.settings
        totals, smooth = terms.sum(axis=0), partial(RATES[rate], positive=settings.positive)
        pool = partial(smooth, decimals=settings.f1_decimals, added=settings.f1_added) if rate == "f1" else smooth
        label, alone = (_LABELS[parse], f"{rate.replace('_share', ' share')} {category}".rstrip()), dict[str, float]()
        if rate == "accuracy":
            majority = majority_elsewhere(numbers["question"], numbers["image"], numbers["truth"])
            alone = {CHANCE: 0.5, "question": float(majority.mean())}
        better, scale = rate != "neither_share", job.task.scale
        result = Result(parse, rate, label, None, len(terms), better, scale, category=category, alone=alone)
        estimate: WeightedValue = (
            lambda weights: pool(weights @ terms),
            lambda: along(gradient(smooth, totals), [terms]),
        )
        # A term on which the rate depends anywhere: precision is of what was answered so, recall of what is so.
        counted = (terms @ (gradient(smooth, np.ones(len(TERMS))) != 0)).astype(bool)
        return estimated_result(job, result, estimate, first_seen(numbers["image"]), counted=counted)


def _question(document: Document) -> Iterator[_Question]:
    target = document["doc_to_target"]
    truth = _TRUTH.get(target.strip().lower()) if isinstance(target, str) else target
    if not isinstance(truth, bool):
        raise UnusableDocument("data", f"has a right answer that is not yes or no: {target!r:.80}")
    if fault := text_fault(document["doc_to_text"]):
        raise UnusableDocument("data", f"has a question that {fault}")
    yield _Question(request_of(document), document.image, truth, document.category)


def _shard(said: Sequence[tuple[_Question, str]], categories: dict[str, int], readings: Sequence[str]) -> Shard:
    """Return answers with their parsed values, and number new categories."""
    questions = [question for question, _ in said]
    read: Mapping[str, list[Said]] = {name: [_PARSES[name](answer) for _, answer in said] for name in readings}
    truths, names = [question.truth for question in questions], [question.category for question in questions]
    for name in names:
        categories.setdefault(name, len(categories))
    return unscored_shard(
        {
            "id": [question.request.id for question in questions],
            "image": [question.image for question in questions],
            "question": [question.request.prompt for question in questions],
            "candidate": [answer for _, answer in said],
            "target": ["yes" if truth else "no" for truth in truths],
            **({"category": names} if any(names) else {}),
            **{f"{name}_says": words for name, words in read.items()},
            # As where metrics score rows: a column with the result's name holds each row's terms.
            **{
                name: [float(_TRUTH.get(word) is truth) for word, truth in zip(words, truths, strict=True)]
                for name, words in read.items()
            },
        },
        {
            "image": numbers_of(question.image for question in questions),
            "question": numbers_of(question.request.prompt for question in questions),
            "truth": np.array(truths),
            "category": np.array([categories[name] for name in names]),
            **{
                name: np.array([term_of(word, truth) for word, truth in zip(words, truths, strict=True)])
                for name, words in read.items()
            },
        },
        [[*question.values, answer] for question, answer in said],
    )
