"""Marks words of captions that other texts lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter

Words = list[tuple[str, bool]]
"""Parts of a text, each with whether the other text contains it."""
MarkedWords = list[tuple[str, bool, bool]]
"""Parts of a caption, each with whether no reference contains it, and whether no other caption does."""


def word_differences(first: str, second: str) -> tuple[Words, Words]:
    """Split two texts into common and differing parts, by words in their order."""
    words = first.split(), second.split()
    parts: tuple[Words, Words] = [], []
    matcher = SequenceMatcher(None, *(list(map(_folded, side)) for side in words), autojunk=False)
    for kind, *at in matcher.get_opcodes():
        for side, start, end in ((0, *at[:2]), (1, *at[2:])):
            if end > start:
                parts[side].append((" ".join(words[side][start:end]), kind == "equal"))
    return parts


def mark_words(captions: Sequence[str], references: Iterable[str]) -> list[MarkedWords]:
    """Split captions of one image at words that no reference, or no other caption, contains; their order is ignored.

    Args:
        captions: The captions, each of them once.
        references: The references; without any, no word is marked as missing in them.
    """
    referenced = {_folded(word) for text in references for word in text.split()}
    uses = Counter(word for caption in captions for word in set(map(_folded, caption.split())))
    marked: list[MarkedWords] = []
    for caption in captions:
        words = [(word, _folded(word)) for word in caption.split()]
        flags = [
            (word, bool(folded and referenced) and folded not in referenced, bool(folded) and uses[folded] == 1)
            for word, folded in words
        ]
        runs = groupby(flags, key=itemgetter(1, 2))
        marked.append([(" ".join(word for word, *_ in run), *key) for key, run in runs])
    return marked


def _folded(word: str) -> str:
    return word.lower().strip(".,;:!?\"'")
