"""Questions for raters: scales, choices, best and worst, rankings, battles of systems, or marked errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError, field_validator, model_validator

from ...errors import UsageError
from ...tasks.schema import Strict, faults_of
from ...tasks.yaml_files import parse

Form = Literal["aspects", "better", "best_worst", "ranking", "battle", "spans"]
DEFAULTS: Mapping[str, str] = {
    "better": "Which caption describes the image better?",
    "best_worst": "Which caption describes the image best, and which worst?",
    "ranking": "How well do the captions describe the image, 1 being the best?",
    "battle": "Which caption describes the image better?",
}
"""Forms that compare captions, and their default questions."""
MOST_TOGETHER = 9
"""Maximum number of captions on a page, as each has a key on the keyboard."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_ASPECT = re.compile(r"\s*(?P<name>[^=]+?)\s*=\s*(?P<low>\d+)\s*-\s*(?P<high>\d+)\s*(:(?P<words>.*))?", re.DOTALL)
_MOST_SAID = 2_000


class Aspect(Strict):
    """A rating scale for one aspect of a caption."""

    ends: tuple[int, int]
    """Lowest and highest score, 0 to 9, as each score is a key on the keyboard."""
    question: str = Field(default="", max_length=_MOST_SAID)
    words: dict[int, str] = Field(default_factory=dict)
    """Labels of scores; not every score needs one."""

    @field_validator("ends")
    @classmethod
    def _are_digits(cls, ends: tuple[int, int]) -> tuple[int, int]:
        if not 0 <= ends[0] < ends[1] <= 9:
            raise ValueError("ends must be two integers from 0 to 9, the lower one first (each score is a key)")
        return ends

    @model_validator(mode="after")
    def _words_are_of_numbers(self) -> Aspect:
        if beyond := sorted(self.words.keys() - set(self.numbers)):
            raise ValueError(f"words must be for scores from {self.ends[0]} to {self.ends[1]}, not {beyond[0]}")
        return self

    @property
    def numbers(self) -> range:
        """All scores of the scale."""
        return range(self.ends[0], self.ends[1] + 1)


class MarkedErrors(Strict):
    """Errors that raters mark in a caption, as in MQM and THumB."""

    categories: tuple[str, ...] = Field(min_length=1)
    """Kinds of errors."""
    severities: dict[str, float] = Field(default_factory=lambda: {"minor": 1.0, "major": 5.0}, min_length=1)
    """Points that an error of each severity costs; a caption's score is 0 minus their sum."""
    question: str = Field(default="Mark every error in the caption.", max_length=_MOST_SAID)

    @field_validator("severities")
    @classmethod
    def _cost_points(cls, severities: dict[str, float]) -> dict[str, float]:
        if not all(0 < points < 1000 for points in severities.values()):
            raise ValueError("severities cost more than 0 and less than 1000 points")
        return severities


class Questionnaire(Strict):
    """The questions for each item."""

    aspects: dict[str, Aspect] = Field(default_factory=dict)
    """Scales by name; raters see one caption at a time."""
    better: str = Field(default="", max_length=_MOST_SAID)
    """Question for a choice of the better caption; raters see all captions of an image together."""
    best_worst: str = Field(default="", max_length=_MOST_SAID)
    """Question for the best and the worst of three or more captions."""
    ranking: str = Field(default="", max_length=_MOST_SAID)
    """Question for ranks of all captions of an image; ranks may be equal."""
    battle: str = Field(default="", max_length=_MOST_SAID)
    """Question for the better of two captions, whose systems are drawn among many."""
    spans: MarkedErrors | None = None
    """Errors to mark; raters see one caption at a time."""
    instructions: str = Field(default="", max_length=10 * _MOST_SAID)
    """Text on the first page."""

    @field_validator("aspects")
    @classmethod
    def _have_names(cls, aspects: dict[str, Aspect]) -> dict[str, Aspect]:
        for name in aspects:
            if not _NAME.fullmatch(name):
                raise ValueError(f"invalid aspect name '{name}': use ASCII letters, digits and _")
        return aspects

    @model_validator(mode="after")
    def _one_kind(self) -> Questionnaire:
        if len(self._forms) != 1:
            raise ValueError(f"give exactly one of {', '.join(get_args(Form))}")
        return self

    @property
    def _forms(self) -> list[Form]:
        return [form for form in get_args(Form) if getattr(self, form)]

    @property
    def form(self) -> Form:
        """What is asked."""
        return self._forms[0]

    @property
    def together(self) -> bool:
        """Whether several captions of an image are on one page."""
        return self.form in DEFAULTS

    @property
    def question(self) -> str:
        """The question on a page; empty for scales, which have one each."""
        return self.spans.question if self.spans else str(getattr(self, self.form)) if self.together else ""

    @property
    def captions_needed(self) -> range:
        """How many systems the form takes."""
        least = {"better": 2, "ranking": 2, "battle": 2, "best_worst": 3}.get(self.form, 1)
        return range(least, MOST_TOGETHER + 1 if self.together and not self.battle else 10_000)


def read_questions(path: Path) -> Questionnaire:
    """Read questions from a YAML file.

    Raises:
        TaskError: The file is not YAML.
        UsageError: The questions are invalid; each error has file and line.
    """
    parsed = parse(path)
    try:
        return Questionnaire.model_validate(parsed.values)
    except ValidationError as error:
        raise UsageError("\n".join(faults_of(error, parsed, Questionnaire)), "docs/rate.md has an example.") from error


def questions_of(aspects: Sequence[str] = (), better: str = "", **asked: Any) -> Questionnaire:
    """Return the questions from the command line.

    Args:
        aspects: Each ``NAME=LOW-HIGH``, or with labels after a colon, ``NAME=1-5: WORDS | WORDS``: for both ends, or
            for each score.
        better: The question for choices; empty for scales.
        **asked: Other fields of the questionnaire.

    Raises:
        UsageError: The questions are invalid.
    """
    by_name: dict[str, Any] = {}
    for text in aspects:
        name, aspect = _aspect(text)
        if name in by_name:
            raise UsageError(f"--aspect {name}: the name is used twice")
        by_name[name] = aspect
    try:
        return Questionnaire.model_validate({"aspects": by_name, "better": better, **asked})
    except ValidationError as error:
        faults = {fault["msg"].removeprefix("Value error, ") for fault in error.errors()}
        raise UsageError("; ".join(sorted(faults)), "'bench rate --help' has examples.") from error


def _aspect(text: str) -> tuple[str, dict[str, Any]]:
    match = _ASPECT.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--aspect '{text}': expected NAME=LOW-HIGH, or NAME=LOW-HIGH: WORDS | WORDS",
            "Example: --aspect 'precision=1-5: nothing is right | all is right'.",
        )
    low, high = int(match["low"]), int(match["high"])
    words = [word.strip() for word in (match["words"] or "").split("|") if match["words"]]
    numbers = range(low, high + 1)
    if len(words) not in (0, 2, len(numbers)):
        raise UsageError(
            f"--aspect {match['name']}: has {len(words)} labels (separated by |) for {len(numbers)} scores",
            "Give two labels for the ends, or one for each score.",
        )
    named = dict(zip(numbers if len(words) == len(numbers) else (low, high), words, strict=False))
    return match["name"], {"ends": (low, high), "words": {number: word for number, word in named.items() if word}}
