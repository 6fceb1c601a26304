"""How DCI's summaries and negatives are asked for, and when an answer will do.

Source: Urbanek et al. 2024, appendix 7 (the prompts), and facebookresearch/DCI, ``prepare/`` (the rules).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ...adapters import JudgeRequest
from .asking import Conversation, NoUse, seed_of
from .contract import StageSettings
from .language import Language, clip_tokens, language_fault

FULL_IMAGE = (
    "You are given a full-text description of an image. You should summarize it into about 65 words, being sure to "
    "include as much salient visual information as possible given the 65 word constraint, especially information from "
    "the start of the original description. The new description should apply for the original image. Respond with only "
    "the summary, in one line."
)
SUBMASK = (
    "You are given a description of part of an image. You should summarize it into a single line no longer than 65 "
    "words, being sure to include as much salient visual information as possible given the 65. Don't include any "
    "details not present in the provided description. Respond with only the summary, in one line."
)
FEW_WORDS_SHORTER = (
    "You are given the description for a scene. Summarize and rephrase the description such that the new description "
    "is a few words shorter, but retains key information."
)
SHORTER = (
    "You are given the description for a scene. Summarize and rephrase the description such that the new description "
    "is shorter, but retains key information."
)
SEVERAL = (
    "You are providing descriptions of an image. The goal is to create a list of summarized descriptions that all "
    "accurately describe the same image, but may pay attention to slightly different details. A complete description "
    "will be provided. Complete 5 entries in this list, each a few sentences long. Provide in the format:\n"
    "1. <description>\n2. ..."
)
NEGATIVES = {
    "basic": (
        "You are given the description for an image. You should provide a mostly similar description, changing the "
        "original one slightly, but introducing enough significant differences such that the two descriptions could "
        "not possibly be for the same image. Keep the description length the same. Provide just the updated "
        "description."
    ),
    "layout": (
        "You are given the description for an image. You should provide a mostly similar description, with one part of "
        "it changed in a way that visibly alters the structure, layout, or content of the image. The change should "
        "introduce enough difference such that the two descriptions could not be for the same image. Keep the "
        "description length the same. Provide just the updated description."
    ),
    "swaps": (
        "You are given a description. Selecting ONLY from the same words, construct a random response with the same "
        "words in a completely new order. The new description should not remain accurate to the first. Try to use all "
        "of the words from the original description, and keep the length the same, but use the words nearly randomly "
        "such that the scene makes less sense. Try to pair nouns and adjectives differently than in the original."
    ),
}

_PREFACE = 100
"""Characters within which a line break may end a preface ("Sure! Here is …")."""
_FEW_TOKENS = 9
_REDUCTIONS = 3
"""Answers that are no shorter, or of several lines, before a text is given up."""
_NUMBERED = re.compile(r"^\s*(\d+)[.)]\s*(.*\S)\s*$")


class AskingSettings(StageSettings):
    """Keys of stages that ask a judge."""

    temperature: Annotated[float, Field(ge=0)] = 0.72
    """0: each text is asked about once, as the same answer would come again."""
    tries: Annotated[int, Field(gt=0)] = 5
    """Requests for a text until one is of use."""
    language: Language = "english"
    """``english``: an answer in another language is asked for again."""


@dataclass(frozen=True)
class Asker:
    """Asks for one text, each time with other random numbers.

    Attributes:
        settings: How.
        seed: The maker's.
        names: What tells the text from others: row, entry, what it is to be.
    """

    settings: AskingSettings
    seed: int
    names: tuple[str, ...]

    @property
    def tries(self) -> int:
        """How often the same is worth asking."""
        return self.settings.tries if self.settings.temperature else 1

    def request(self, prompt: str, system: str, tokens: int, attempt: object) -> JudgeRequest:
        """Return a request; another attempt may get another answer."""
        drawn = self.settings.temperature > 0
        seed = seed_of(self.seed, *self.names, attempt)
        decoding = {"temperature": self.settings.temperature, "seed": seed} if drawn else {}
        return JudgeRequest(prompt, max_tokens=tokens, system=system, decoding=decoding)

    def line(self, answer: str) -> str:
        """Return the one line of an answer, without a preface.

        Raises:
            NoUse: It has none, several, or one in another language.
        """
        answer = answer.strip()
        if not answer:
            raise NoUse("the judge said nothing")
        if answer.rfind("\n") > _PREFACE:
            raise NoUse("the answer has several lines")
        line = answer.rpartition("\n")[2].strip().strip('"“”').strip()
        if fault := language_fault(line, self.settings.language) or (None if line else "the answer is empty"):
            raise NoUse(f"the answer {fault}" if line else fault)
        return line


def reduced(text: str, most: int, asker: Asker, tokens: int, attempt: object) -> Conversation[str]:
    """Ask for a text in so many tokens at most; one that is short enough is returned at once.

    Raises:
        NoUse: Answers were not shorter.
    """
    failures = step = 0
    while (count := clip_tokens(text)) > most:
        system = FEW_WORDS_SHORTER if count - most <= _FEW_TOKENS else SHORTER
        step += 1
        try:
            shorter = asker.line((yield asker.request(text, system, tokens, f"reduce {attempt} {step}")))
            if clip_tokens(shorter) >= count:
                raise NoUse("the answer is no shorter than the text")
            text = shorter
        except NoUse as fault:
            failures += 1
            if failures > _REDUCTIONS or asker.tries == 1:
                raise NoUse(f"cannot be reduced to {most} tokens: {fault}") from fault
    return text


def numbered_lines(answer: str, count: int, asker: Asker) -> list[str]:
    """Return the texts of a numbered list.

    Raises:
        NoUse: It does not number so many, from 1 on, or one of them is in another language.
    """
    found = [match for line in answer.splitlines() if (match := _NUMBERED.match(line))]
    if [int(one[1]) for one in found] != list(range(1, count + 1)):
        raise NoUse(f"the answer has no {count} numbered lines")
    return [asker.line(one[2]) for one in found]
