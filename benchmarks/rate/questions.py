"""What raters are asked: a number on a scale for each aspect of a caption, or which caption is better."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ...errors import UsageError
from ...tasks.schema import faults_of
from ...tasks.yaml_files import parse

BETTER = "Which caption describes the image better?"
"""What is asked of captions to choose from, unless the question is given."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_ASPECT = re.compile(r"\s*(?P<name>[^=]+?)\s*=\s*(?P<low>\d+)\s*-\s*(?P<high>\d+)\s*(:(?P<words>.*))?", re.DOTALL)
_MOST_SAID = 2_000


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Aspect(_Strict):
    """A scale for one aspect of a caption."""

    ends: tuple[int, int]
    """The lowest and the highest number, each of which is a key."""
    question: str = Field(default="", max_length=_MOST_SAID)
    words: dict[int, str] = Field(default_factory=dict)
    """What numbers mean, for those that say it."""

    @field_validator("ends")
    @classmethod
    def _are_digits(cls, ends: tuple[int, int]) -> tuple[int, int]:
        if not 0 <= ends[0] < ends[1] <= 9:
            raise ValueError("ends are two whole numbers from 0 to 9, the lower one first: each number is a key")
        return ends

    @model_validator(mode="after")
    def _words_are_of_numbers(self) -> Aspect:
        if beyond := sorted(self.words.keys() - set(self.numbers)):
            raise ValueError(f"words are of numbers from {self.ends[0]} to {self.ends[1]}, not of {beyond[0]}")
        return self

    @property
    def numbers(self) -> range:
        """All numbers of the scale."""
        return range(self.ends[0], self.ends[1] + 1)


class Questionnaire(_Strict):
    """What raters are asked of each item."""

    aspects: dict[str, Aspect] = Field(default_factory=dict)
    """Scales by name: each caption is rated by itself."""
    better: str = Field(default="", max_length=_MOST_SAID)
    """The question of which caption is better: all captions of an image stand beside each other."""
    instructions: str = Field(default="", max_length=10 * _MOST_SAID)
    """What stands on the first page."""

    @field_validator("aspects")
    @classmethod
    def _have_names(cls, aspects: dict[str, Aspect]) -> dict[str, Aspect]:
        for name in aspects:
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"an aspect is called by letters of ASCII, digits and _, as results are after it, not '{name}'"
                )
        return aspects

    @model_validator(mode="after")
    def _one_kind(self) -> Questionnaire:
        if bool(self.aspects) == bool(self.better):
            raise ValueError("raters are asked for 'aspects' on scales, or which caption is 'better': one of the two")
        return self


def read_questions(path: Path) -> Questionnaire:
    """Return the questions of a YAML file.

    Raises:
        TaskError: It is no YAML file.
        UsageError: It holds no questions; each fault with file and line.
    """
    parsed = parse(path)
    try:
        return Questionnaire.model_validate(parsed.values)
    except ValidationError as error:
        raise UsageError(
            "\n".join(faults_of(error, parsed, Questionnaire)), "docs/rate.md shows such a file."
        ) from error


def questions_of(aspects: Sequence[str], better: str) -> Questionnaire:
    """Return the questions that a command line gives.

    Args:
        aspects: Each ``NAME=LOW-HIGH``, or with words behind a colon, ``NAME=1-5: WORDS | WORDS``: of both ends, or of
            each number.
        better: The question of which caption is better; empty where scales are asked for.

    Raises:
        UsageError: They are none.
    """
    found: dict[str, Any] = {}
    for text in aspects:
        name, aspect = _aspect(text)
        if name in found:
            raise UsageError(f"--aspect {name}: is given twice")
        found[name] = aspect
    try:
        return Questionnaire.model_validate({"aspects": found, "better": better})
    except ValidationError as error:
        faults = {fault["msg"].removeprefix("Value error, ") for fault in error.errors()}
        raise UsageError("; ".join(sorted(faults)), "'bench rate --help' shows examples.") from error


def _aspect(text: str) -> tuple[str, dict[str, Any]]:
    found = _ASPECT.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--aspect '{text}': expected NAME=LOW-HIGH, or NAME=LOW-HIGH: WORDS | WORDS",
            "Such as --aspect 'precision=1-5: nothing is right | all is right'.",
        )
    low, high = int(found["low"]), int(found["high"])
    words = [word.strip() for word in (found["words"] or "").split("|") if found["words"]]
    numbers = range(low, high + 1)
    if len(words) == len(numbers):
        named = dict(zip(numbers, words, strict=True))
    elif len(words) in (0, 2):
        named = dict(zip((low, high), words, strict=False))
    else:
        raise UsageError(
            f"--aspect {found['name']}: has {len(words)} words, between |, for {len(numbers)} numbers",
            "Give those of both ends, or one for each number.",
        )
    return found["name"], {"ends": (low, high), "words": {number: word for number, word in named.items() if word}}
