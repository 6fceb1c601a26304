"""Whether an answer is in the language that was asked in."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

Language = Literal["english", "any"]

_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_ENOUGH = 8
"""Words of which an English text has at least one that other languages do not have."""
_LATIN = 0.9
"""Share of letters that must be Latin: names may be others."""
_ENGLISH = frozenset(
    [
        *(
            "the",
            "of",
            "and",
            "with",
            "is",
            "are",
            "was",
            "were",
            "has",
            "have",
            "which",
            "that",
            "there",
            "this",
        ),
        *(
            "these",
            "its",
            "it",
            "to",
            "from",
            "by",
            "at",
            "for",
            "an",
            "as",
            "their",
            "his",
            "her",
            "be",
            "not",
        ),
        *("but", "can", "you", "while", "near", "behind", "above", "below", "left", "right"),
    ]
)


def language_fault(text: str, language: Language) -> str | None:
    """Return why a text is not in a language, or None if it may be.

    English is told by its letters and, of eight words and more, by the little words that hold its sentences together.
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
