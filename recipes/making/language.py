"""Whether an answer is in the language that was asked in."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from ...adapters.encoders.clip_tokens import clip_tokenizer


def clip_tokens(text: str) -> int:
    """Return how many tokens of OpenAI's CLIP a text has, start and end included."""
    return len(clip_tokenizer().encode(text)) + 2


def cut_to_tokens(text: str, most: int) -> str:
    """Return a text cut to so many tokens, by characters in proportion, as DCI cuts; as it is where it is shorter.

    Args:
        text: The text.
        most: Tokens that it may have.
    """
    while (count := clip_tokens(text)) > most:
        # In proportion it may still be too long by some, as tokens are not all of one length.
        text = text[: min(len(text) * most // count, len(text) - 1)]
    return text


Language = Literal["english", "any"]

_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_ENOUGH = 8
"""Words of which an English text has at least one that other languages do not have."""
_LATIN = 0.9
"""Share of letters that must be Latin: names may be others."""
_ENGLISH_WORDS = """
    the of and with is are was were has have which that there this these its it to from by at for an as
    their his her be not but can you while near behind above below left right
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())


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
