"""What DCScore asks a judge, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from ...adapters import ImageHandle, JudgeRequest
from ...errors import DataError, MetricError
from ...rows import BadRow, read_rows
from ..contract import Context
from ..judging import ask, fill, quoted
from ..score_file import bare_name
from .answers import (
    PARTS,
    CaptionFact,
    Join,
    listed,
    listed_oracle,
    mean_of_trials,
    read_facts,
    read_matches,
    read_verdicts,
)

_HINT = (
    'A row is {"image_name": NAME, "oracle_caption": TEXT, "oracle_facts": [TEXT, ...]}, as in DeCapBench\'s '
    "eval/human_annotated_oracle_facts.jsonl."
)


@dataclass(frozen=True)
class OracleCaption:
    """What is known of an image.

    Attributes:
        caption: What a person wrote of it.
        facts: The facts of that, one or more.
    """

    caption: str
    facts: tuple[CaptionFact, ...]


def read_oracle(path: Path) -> dict[str, OracleCaption]:
    """Return what is known of each image, by its name without folders and suffix.

    Facts that people wrote are all relevant, as released.

    Raises:
        MetricError: The file cannot be read, or a row is not as it must be, or of an image that another is of.
    """
    found: dict[str, OracleCaption] = {}
    try:
        for number, row in enumerate(read_rows(path), 1):
            if isinstance(row, BadRow):
                raise MetricError(f"{row.place}: {row.reason}", _HINT)
            try:
                name, known = _read(row)
            except ValueError as error:
                raise MetricError(f"{path}: row {number}: {error}", _HINT) from None
            if name in found:
                raise MetricError(f"{path}: row {number}: a second row of image '{name}'", "Remove one of them.")
            found[name] = known
    except DataError as error:
        raise MetricError(error.message, error.hint or _HINT) from error
    if not found:
        raise MetricError(f"{path}: holds no row", _HINT)
    return found


def _read(row: dict[str, Any]) -> tuple[str, OracleCaption]:
    name, caption, facts = (row.get(key) for key in ("image_name", "oracle_caption", "oracle_facts"))
    for key, value in (("image_name", name), ("oracle_caption", caption)):
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"has no {key}")
    if not isinstance(facts, list) or not facts:
        raise ValueError("has no list of oracle_facts")
    # The released file has a blank one, which counts.
    if not all(isinstance(one, str) for one in facts):
        raise ValueError("has an entry of oracle_facts that is no text")
    return bare_name(str(name)), OracleCaption(str(caption), tuple(CaptionFact(one, relevant=True) for one in facts))


_T = TypeVar("_T")


@dataclass(frozen=True)
class Case:
    """A caption, its image, and what is known of that."""

    caption: str
    image: ImageHandle
    known: OracleCaption


@dataclass(frozen=True)
class FactCheck:
    """What a judge said of a caption, and what follows.

    Attributes:
        facts: ``n`` facts of the caption.
        oracle: The facts that it is held against.
        matchings: Of each answer ``n`` places among the oracle's facts; None for a fact that is about none.
        verifications: Of each answer ``n``, whether each fact is true.
        parts: ``[6]`` means of ``PARTS`` over the trials, 0 to 1.
        remark: What was done to read the image that is not as usual; empty for nothing.
    """

    facts: tuple[CaptionFact, ...]
    oracle: tuple[CaptionFact, ...]
    matchings: tuple[tuple[int | None, ...], ...]
    verifications: tuple[tuple[bool, ...], ...]
    parts: np.ndarray
    remark: str

    @property
    def value(self) -> float:
        """The mean of F1 over all facts and over relevant ones, 0 to 1."""
        return float(self.parts[PARTS.index("f1")] + self.parts[PARTS.index("f1_relevant")]) / 2


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
class FactQuestions:
    """How a judge is asked; for the fields see ``DcScore``."""

    prompts: Mapping[str, str]
    join: Join
    answers: int
    tries: int
    temperature: float
    verify_temperature: float
    seed: int
    max_tokens: int

    def facts(self, texts: Sequence[str], context: Context) -> dict[str, tuple[CaptionFact, ...] | str]:
        """Return the facts of each text, or why there are none."""
        unique = list(dict.fromkeys(texts))
        asked = [_Question(fill(self.prompts["facts"], caption=text), read_facts, self.temperature) for text in unique]
        return {
            text: f"facts: {one}" if isinstance(one, str) else one.value
            for text, one in zip(unique, self._read(asked, context), strict=True)
        }

    def accounts(self, cases: Sequence[Case], context: Context) -> list[FactCheck | str]:
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

    def _matching(self, case: Case, facts: Sequence[CaptionFact]) -> _Question[tuple[int | None, ...]]:
        oracle = case.known.facts
        texts = {"predicted_atomic_facts": listed(facts, self.join), "oracle_atomic_facts": listed_oracle(oracle)}
        return _Question(
            fill(self.prompts["match"], **texts),
            lambda answer: read_matches(answer, facts, len(oracle), self.join),
            self.temperature,
        )

    def _verifying(self, case: Case, facts: Sequence[CaptionFact]) -> _Question[tuple[bool, ...]]:
        texts = {"reference_caption": case.known.caption, "atomic_facts": listed(facts, self.join)}
        return _Question(
            fill(self.prompts["verify"], **texts),
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
    usable: tuple[Case, tuple[CaptionFact, ...]],
    matching: list[_Read[tuple[int | None, ...]]] | str,
    verifying: list[_Read[tuple[bool, ...]]] | str,
) -> FactCheck | str:
    case, facts = usable
    if isinstance(matching, str):
        return f"matching: {matching}"
    if isinstance(verifying, str):
        return f"verifying: {verifying}"
    matchings = tuple(one.value for one in matching)
    verifications = tuple(one.value for one in verifying)
    parts = mean_of_trials(facts, case.known.facts, matchings, verifications)
    return FactCheck(facts, case.known.facts, matchings, verifications, parts, verifying[0].remark)
