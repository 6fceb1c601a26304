"""Conversations with a judge: each a generator that asks, looks at the answer and asks again; all go on at once."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from ...adapters import Judge, JudgeRequest
from ...adapters.decoding.processors import generator_of

T = TypeVar("T")
Conversation: TypeAlias = Generator[JudgeRequest, str, T]
"""Yields a request, is sent the answer (empty where the judge gave none), returns what came of it, or raises."""


_YES_OR_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


class NoUse(Exception):  # noqa: N818 - an outcome of a conversation
    """A conversation that came to nothing, within the attempts that it had; the text says why."""


@dataclass(frozen=True)
class ConversationResult(Generic[T]):
    """What came of a conversation.

    Attributes:
        result: What it returned; None where it came to nothing.
        fault: Why it came to nothing.
        asked: Requests that it made.
        silent: Why the judge itself gave no answer, the last time that it gave none; empty where it always did.
    """

    result: T | None
    fault: str
    asked: int
    silent: str = ""


def converse(judge: Judge, conversations: Sequence[Conversation[T]]) -> list[ConversationResult[T]]:
    """Carry on conversations, the requests of all of them together, until each has ended.

    Raises:
        AdapterError: The judge failed as a whole.
    """
    said: dict[int, ConversationResult[T]] = {}
    asked = [0] * len(conversations)
    silent = [""] * len(conversations)
    answers = dict.fromkeys(range(len(conversations)), "")
    while answers:
        requests: dict[int, JudgeRequest] = {}
        for number, answer in answers.items():
            conversation = conversations[number]
            try:
                # A conversation begins with None.
                requests[number] = conversation.send(answer) if asked[number] else next(conversation)
                asked[number] += 1
            except StopIteration as end:
                said[number] = ConversationResult(end.value, "", asked[number], silent[number])
            except NoUse as fault:
                said[number] = ConversationResult(None, str(fault), asked[number], silent[number])
        answers = dict.fromkeys(requests, "")
        numbers = list(requests)
        for batch in judge.stream(list(requests.values())) if requests else ():
            answers |= {numbers[at]: one.text for at, one in batch.judgements.items()}
            for at, reason in batch.failures.items():
                silent[numbers[at]] = reason
    return [said[number] for number in range(len(conversations))]


def says_yes(answer: str) -> bool | None:
    """Return whether an answer begins with yes; None where it begins with neither yes nor no."""
    found = _YES_OR_NO.match(answer)
    return None if found is None else found[1].lower() == "yes"


def seed_of(seed: int, *names: object) -> int:
    """Return a seed that depends on the maker's and on what is asked, of which no two attempts have the same."""
    return int(generator_of(seed, *map(str, names)).integers(2**31))
