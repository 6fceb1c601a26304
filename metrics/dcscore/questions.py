"""What DCScore asks a judge, and how often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from ...adapters import ImageHandle, JudgeRequest
from ..contract import Context
from ..judging import ask, fill, quoted
from .answers import Fact, Join, listed, listed_oracle, read_facts, read_matches, read_verdicts
from .oracle import Known
from .trials import PARTS, mean_of_trials

_T = TypeVar("_T")


@dataclass(frozen=True)
class Case:
    """A caption, its image, and what is known of that."""

    caption: str
    image: ImageHandle
    known: Known


@dataclass(frozen=True)
class Account:
    """What a judge said of a caption, and what follows.

    Attributes:
        facts: ``n`` facts of the caption.
        oracle: The facts that it is held against.
        matchings: Of each answer ``n`` places among the oracle's facts; None for a fact that is about none.
        verifications: Of each answer ``n``, whether each fact is true.
        parts: ``[6]`` means of ``PARTS`` over the trials, 0 to 1.
        remark: What was done to read the image that is not as usual; empty for nothing.
    """

    facts: tuple[Fact, ...]
    oracle: tuple[Fact, ...]
    matchings: tuple[tuple[int | None, ...], ...]
    verifications: tuple[tuple[bool, ...], ...]
    parts: np.ndarray
    remark: str

    @property
    def value(self) -> float:
        """The mean of F1 over all facts and over relevant ones, 0 to 1."""
        return float(self.parts[PARTS.index("f1")] + self.parts[PARTS.index("f1_relevant")]) / 2


@dataclass(frozen=True)
class Prompts:
    """The prompts, as the arguments of the metric of these names say."""

    facts: str
    match: str
    verify: str


@dataclass(frozen=True)
class _Question(Generic[_T]):
    """What is asked, and what reads an answer; ``number`` tells apart those that are equal otherwise."""

    prompt: str
    read: Callable[[str], _T]
    temperature: float
    image: ImageHandle | None = None
    number: int = 0


@dataclass(frozen=True)
class _Read(Generic[_T]):
    """What was read in an answer, and what was done to read the image that is not as usual."""

    value: _T
    remark: str


@dataclass(frozen=True)
class Questions:
    """How a judge is asked; for the fields see ``DcScore``."""

    prompts: Prompts
    join: Join
    answers: int
    tries: int
    temperature: float
    verify_temperature: float
    seed: int
    max_tokens: int

    def facts(self, texts: Sequence[str], context: Context) -> dict[str, tuple[Fact, ...] | str]:
        """Return the facts of each text, or why there are none."""
        unique = list(dict.fromkeys(texts))
        asked = [
            _Question(fill(self.prompts.facts, caption=text), read_facts, self.temperature) for text in unique
        ]
        return {
            text: f"facts: {one}" if isinstance(one, str) else one.value
            for text, one in zip(unique, self._read(asked, context), strict=True)
        }

    def accounts(self, cases: Sequence[Case], context: Context) -> list[Account | str]:
        """Return what the judge says of each caption, or why it cannot be told.

        Raises:
            MetricError: There is no judge.
            AdapterError: The judge failed as a whole.
        """
        of_text = self.facts([case.caption for case in cases], context)
        facts = [of_text[case.caption] for case in cases]
        usable = [(case, its) for case, its in zip(cases, facts, strict=True) if not isinstance(its, str)]
        matching = self._several([self._matching(*one) for one in usable], context)
        verifying = self._several([self._verifying(*one) for one in usable], context)
        accounts = map(_account, usable, matching, verifying)
        return [its if isinstance(its, str) else next(accounts) for its in facts]

    def _matching(self, case: Case, facts: Sequence[Fact]) -> _Question[tuple[int | None, ...]]:
        oracle = case.known.facts
        texts = {
            "predicted_atomic_facts": listed(facts, self.join),
            "oracle_atomic_facts": listed_oracle(oracle),
        }
        return _Question(
            fill(self.prompts.match, **texts),
            lambda answer: read_matches(answer, facts, len(oracle), self.join),
            self.temperature,
        )

    def _verifying(self, case: Case, facts: Sequence[Fact]) -> _Question[tuple[bool, ...]]:
        texts = {"reference_caption": case.known.caption, "atomic_facts": listed(facts, self.join)}
        return _Question(
            fill(self.prompts.verify, **texts),
            lambda answer: read_verdicts(answer, facts, self.join),
            self.verify_temperature,
            case.image,
        )

    def _several(self, questions: Sequence[_Question[_T]], context: Context) -> list[list[_Read[_T]] | str]:
        """Return of each question as many answers as are wanted; or why one of them is missing."""
        every = [replace(one, number=number) for one in questions for number in range(self.answers)]
        read = self._read(every, context)
        found: list[list[_Read[_T]] | str] = []
        for start in range(0, len(read), self.answers):
            its = read[start : start + self.answers]
            good = [one for one in its if not isinstance(one, str)]
            found.append(good if len(good) == len(its) else next(one for one in its if isinstance(one, str)))
        return found

    def _read(self, questions: Sequence[_Question[_T]], context: Context) -> list[_Read[_T] | str]:
        """Return the answer to each question; one that cannot be read is asked for again, by another seed."""
        found: dict[int, _Read[_T] | str] = {}
        waiting = list(range(len(questions)))
        for attempt in range(self.tries):
            answers = ask([self._request(questions[place], attempt) for place in waiting], context)
            again: list[int] = []
            for place, answer in zip(waiting, answers, strict=True):
                if isinstance(answer, str):
                    found[place] = answer
                    continue
                try:
                    found[place] = _Read(questions[place].read(answer.text), answer.remark)
                except ValueError as error:
                    found[place] = f"{error} ({self.tries} tries): {quoted(answer.text)}"
                    again.append(place)
            waiting = again
        return [found[place] for place in range(len(questions))]

    def _request(self, question: _Question[Any], attempt: int) -> JudgeRequest:
        seed = self.seed + attempt * self.answers + question.number
        decoding = {"temperature": question.temperature, "seed": seed}
        return JudgeRequest(question.prompt, question.image, self.max_tokens, decoding=decoding)


def _account(
    usable: tuple[Case, tuple[Fact, ...]],
    matching: list[_Read[tuple[int | None, ...]]] | str,
    verifying: list[_Read[tuple[bool, ...]]] | str,
) -> Account | str:
    case, facts = usable
    if isinstance(matching, str):
        return f"matching: {matching}"
    if isinstance(verifying, str):
        return f"verifying: {verifying}"
    matchings = tuple(one.value for one in matching)
    verifications = tuple(one.value for one in verifying)
    parts = mean_of_trials(facts, case.known.facts, matchings, verifications)
    return Account(facts, case.known.facts, matchings, verifications, parts, verifying[0].remark)
