"""Captions as rules see them: tokens, and what a reader found among them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from .words import WordLists

Kind = Literal["noun", "adjective", "preposition", "number", "article", "auxiliary", "mark", "other"]

_ENDS = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9])|\n+")


@dataclass(frozen=True)
class Token:
    """A word or a mark.

    Attributes:
        text: As it is written.
        space: What follows it before the next one.
        kind: What it is.
        lemma: Its base form, in small letters.
        plural: Whether it is a noun in the plural.
    """

    text: str
    space: str
    kind: Kind = "other"
    lemma: str = ""
    plural: bool = False


@dataclass(frozen=True)
class ReadCaption:
    """What a reader found.

    Attributes:
        tokens: The caption, from its first sign to its last.
        relations: Which tokens are prepositions with an object, or sides ("left", "top").
        phrases: Prepositional phrases that can be left out: first token, and the one after the last.
        modifiers: Adjectives before a noun: which token, and which noun they belong to.
        negations: Which token denies the sentence when it is replaced, and by what.
    """

    tokens: tuple[Token, ...]
    relations: tuple[int, ...] = ()
    phrases: tuple[tuple[int, int], ...] = ()
    modifiers: tuple[tuple[int, int], ...] = ()
    negations: tuple[tuple[int, str], ...] = ()

    @cached_property
    def nouns(self) -> frozenset[str]:
        """The lemmas of its nouns."""
        return frozenset(one.lemma for one in self.tokens if one.kind == "noun")

    @cached_property
    def sentence_of(self) -> tuple[int, ...]:
        """The number of each token's sentence."""
        numbers: list[int] = []
        for token in self.tokens:
            before = numbers[-1] if numbers else 0
            ended = bool(numbers) and self.tokens[len(numbers) - 1].text in (".", "!", "?")
            numbers.append(before + (ended and token.kind != "mark"))
        return tuple(numbers)


class CaptionReader(ABC):
    """Finds in captions what rules change."""

    @abstractmethod
    def said(self) -> str:
        """Return who reads, with versions, as a record has it.

        Raises:
            DataError: Something that it needs is missing; the hint says what to install.
        """

    @abstractmethod
    def read(self, texts: Sequence[str]) -> Iterator[ReadCaption]:
        """Yield each text as it is read."""

    @abstractmethod
    def sisters(self, noun: str) -> Sequence[Sequence[str]]:
        """Return nouns that are of one kind with a noun, nearest kind first; none where nothing can replace it."""


def sentences(text: str) -> list[str]:
    """Return the sentences of a caption; where two are separate, the second begins with a capital."""
    return [part for part in map(str.strip, _ENDS.split(text)) if part]


def ended(sentence: str) -> str:
    """Return a sentence with a full stop, if nothing ends it."""
    if sentence.rstrip("\"'”’)").endswith((".", "!", "?")):
        return sentence
    return f"{sentence.rstrip(' ,;:-')}."


def replaced(tokens: Sequence[Token], by: Mapping[int, str], words: WordLists) -> str:
    """Return a caption with other words in some places, and articles that agree with what follows.

    Args:
        tokens: The caption.
        by: Number of a token to what stands in its place.
        words: Knows what "a" and "an" stand before.
    """
    texts = [by.get(number, token.text) for number, token in enumerate(tokens)]
    for number in by:
        if number and texts[number - 1].lower() in ("a", "an"):
            article = words.article(texts[number])
            before = texts[number - 1]
            texts[number - 1] = article.capitalize() if before[:1].isupper() else article
    return written(zip(texts, (token.space for token in tokens), strict=True))


def written(pieces: Iterable[tuple[str, str]]) -> str:
    """Return texts with the space behind each."""
    return "".join(text + space for text, space in pieces).strip()
