"""Conversations with a judge: generators that ask, check the answer and ask again; language checks of answers."""

import re
import unicodedata
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from ...adapters import Judge, JudgeRequest
from ...adapters.decoding.generating import generator_of
from ...adapters.encoders.clip_tokens import clip_tokens
from ...rows import load_yaml


def cut_to_tokens(text: str, most: int) -> str:
    """Return a text truncated to ``most`` tokens, by characters in proportion, as DCI does.

    Args:
        text: The text; unchanged if it is short enough.
        most: The maximum number of tokens.
    """
    while (count := clip_tokens(text)) > most:
        # Tokens differ in length, so a proportional cut may still be too long.
        text = text[: min(len(text) * most // count, len(text) - 1)]
    return text


Language = Literal["english", "any"]

_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_ENOUGH = 8
"""Number of words from which on an English text is expected to contain one of ``_ENGLISH``."""
_LATIN = 0.9
"""Share of letters that must be Latin; names may use other scripts."""
_ENGLISH_WORDS = """
    the of and with is are was were has have which that there this these its it to from by at for an as
    their his her be not but can you while near behind above below left right
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())


def language_fault(text: str, language: Language) -> str | None:
    """Return why a text is not in a language, or None if it may be.

    English is recognised by its letters and, from eight words on, by its function words.
    """
    if language == "any":
        return None
    letters = [letter for letter in text if letter.isalpha()]
    latin = sum("LATIN" in unicodedata.name(letter, "") for letter in letters)
    if latin < _LATIN * len(letters):
        return "is not in Latin letters"
    words = [word.lower() for word in _WORDS.findall(text)]
    if len(words) >= _ENOUGH and not _ENGLISH.intersection(words):
        return "is not in English: none of its words is one of 'the', 'of', 'and', …"
    return None


PROMPTS: Any = load_yaml(Path(__file__).parent / "stages/prompts.yaml")
"""Name to what a judge is asked; ``negatives`` by kind."""

T = TypeVar("T")
Conversation: TypeAlias = Generator[JudgeRequest, str, T]
"""Yields requests, receives answers (empty if the judge gave none), and returns a result or raises."""


_YES_OR_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


class NoUse(Exception):  # noqa: N818 - an outcome of a conversation
    """A conversation without a usable result after all attempts; the text gives the reason."""


@dataclass
class ConversationResult(Generic[T]):
    """The outcome of a conversation.

    Attributes:
        result: Its return value; None if it failed.
        fault: Why it failed; empty if it did not.
        asked: The number of requests.
        silent: The last reason for which the judge gave no answer; empty if it always answered.
    """

    result: T | None = None
    fault: str = ""
    asked: int = 0
    silent: str = ""


def converse(judge: Judge, conversations: Sequence[Conversation[T]]) -> list[ConversationResult[T]]:
    """Run conversations until all have ended; their requests are batched.

    Raises:
        AdapterError: The judge failed as a whole.
    """
    results = [ConversationResult[T]() for _ in conversations]
    answers = dict.fromkeys(range(len(conversations)), "")
    while answers:
        requests: dict[int, JudgeRequest] = {}
        for number, answer in answers.items():
            conversation, outcome = conversations[number], results[number]
            try:
                # A conversation begins with None.
                requests[number] = conversation.send(answer) if outcome.asked else next(conversation)
                outcome.asked += 1
            except StopIteration as end:
                outcome.result = end.value
            except NoUse as fault:
                outcome.fault = str(fault)
        answers = dict.fromkeys(requests, "")
        numbers = list(requests)
        for batch in judge.stream(list(requests.values())) if requests else ():
            answers |= {numbers[at]: judgement.text for at, judgement in batch.judgements.items()}
            for at, reason in batch.failures.items():
                results[numbers[at]].silent = reason
    return results


def first_of_use(tries: int, ask: Callable[[int], Conversation[T]]) -> Conversation[T]:
    """Return the result of the first attempt that succeeds.

    Args:
        tries: The number of attempts, at least one.
        ask: Starts the attempt with a number.

    Raises:
        NoUse: The last attempt failed.
    """
    for attempt in range(tries - 1):
        try:
            return (yield from ask(attempt))
        except NoUse:
            continue
    return (yield from ask(tries - 1))


def says_yes(answer: str) -> bool | None:
    """Return whether an answer begins with yes; None if it begins with neither yes nor no."""
    match = _YES_OR_NO.match(answer)
    return None if match is None else match[1].lower() == "yes"


def seed_of(seed: int, *names: object) -> int:
    """Return a seed derived from the pipeline's seed and the names of the request; each attempt has another."""
    return int(generator_of(seed, *map(str, names)).integers(2**31))
