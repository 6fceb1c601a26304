"""Marks words of captions that other texts lack."""

from collections.abc import Sequence
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


def mark_words(captions: Sequence[str], references: Sequence[str]) -> list[MarkedWords]:
    """Split captions of one image at words that no reference, or no other caption, has in this order.

    Args:
        captions: The captions, each of them once.
        references: The references; without any, no word is marked as missing in them.
    """
    folded = [list(map(_folded, text.split())) for text in captions]
    referenced = [list(map(_folded, text.split())) for text in references]
    marked: list[MarkedWords] = []
    for place, (caption, words) in enumerate(zip(captions, folded, strict=True)):
        others = folded[:place] + folded[place + 1 :]
        flags = zip(caption.split(), _missing(words, referenced), _missing(words, others), strict=True)
        runs = groupby(flags, key=itemgetter(1, 2))
        marked.append([(" ".join(word for word, *_ in run), *key) for key, run in runs])
    return marked


def _missing(words: Sequence[str], texts: Sequence[Sequence[str]]) -> list[bool]:
    """Return which words are aligned with a word of no text; none if there is no text."""
    missing = [bool(texts and word) for word in words]
    for text in texts:
        for start, _, size in SequenceMatcher(None, words, text, autojunk=False).get_matching_blocks():
            missing[start : start + size] = [False] * size
    return missing


def _folded(word: str) -> str:
    return word.lower().strip(".,;:!?\"'")
