"""What a rule is given of a caption, and what it says where it cannot change it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from .captions import CaptionReader, ReadCaption, sentences
from .words import Words, words_of


class Unchanged(Exception):  # noqa: N818 - it is no error: most rules find nothing to change in some captions
    """A rule found nothing to change; the text says why."""


@dataclass(frozen=True)
class Donor:
    """A sentence that may be made up of another image.

    Attributes:
        image: The image that it is true of.
        sentence: The sentence.
        nouns: Its nouns, in their base form.
    """

    image: str
    sentence: str
    nouns: frozenset[str]


@dataclass(frozen=True)
class Corpus:
    """What rules know of all captions of the data.

    Attributes:
        words: The lists.
        reader: Who reads.
        seed: What choices follow from.
        seen: In how many captions each word occurs.
        least_seen: A noun that stands for another occurs in so many captions, at least.
        donors: A sentence of each caption.
        typical: The caption that would do best for all images.
    """

    words: Words
    reader: CaptionReader
    seed: int
    seen: Counter[str]
    least_seen: int
    donors: Sequence[Donor]
    typical: str = ""

    def is_known(self, noun: str) -> bool:
        """Tell whether a noun occurs in captions enough."""
        forms = {noun, self.words.plural(noun)}
        return sum(self.seen[form] for form in forms) >= self.least_seen


@dataclass(frozen=True)
class Given:
    """A caption that a rule may change.

    Attributes:
        image: Its image.
        text: The caption.
        read: What the reader found in it.
        references: The captions that it is held against.
        corpus: All captions.
    """

    image: str
    text: str
    read: ReadCaption
    references: tuple[str, ...]
    corpus: Corpus

    @cached_property
    def said(self) -> frozenset[str]:
        """The words of the caption and its references."""
        return words_of(self.text).union(*map(words_of, self.references))

    @cached_property
    def sentences(self) -> list[str]:
        """The sentences of the caption."""
        return sentences(self.text)

    def pick(self, purpose: str, count: int) -> int:
        """Return a number below ``count`` that the seed, the purpose and the caption decide, and nothing else."""
        return drawn(f"{self.corpus.seed}|{purpose}|{self.text}") % count

    def is_new(self, noun: str) -> bool:
        """Tell whether neither caption nor references say a noun, in the singular or the plural."""
        return self.said.isdisjoint((noun, self.corpus.words.plural(noun)))


Change = Callable[[Given], str]
"""Makes another caption of one.

Raises:
    Unchanged: There is nothing to change.
"""


def drawn(text: str) -> int:
    """Return the number that a text decides: the first 32 bits of its SHA-256."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
