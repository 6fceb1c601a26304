"""The rules of the Penn Treebank tokeniser, in order: ``ptb_rules.yaml``, with what makes tokens."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...rows import load_yaml


@dataclass(frozen=True)
class TokenRule:
    """A kind of token.

    Attributes:
        pattern: Its pattern; behind a ``/``, a lookahead, which is not part of the token.
        make: The token for the text that was matched; empty if there is none.
    """

    pattern: str
    make: Callable[[str], str] = str


# The list of pycocoevalcap. Tokens are lower-cased before, so "-lrb-" and its like are not removed; every
# published number was made that way.
PUNCTUATION = frozenset(
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)

_GRAMMAR: Any = load_yaml(Path(__file__).with_suffix(".yaml"))


def _characters(ranges: str) -> frozenset[str]:
    """Return the characters of ranges such as ``"41-5a 61"``."""
    bounds = [part.partition("-") for part in ranges.split()]
    return frozenset(chr(c) for a, _, b in bounds for c in range(int(a, 16), int(b or a, 16) + 1))


_NEWER_LETTERS, _NEWER_DIGITS, _WORD_SIGNS = (
    _characters(_GRAMMAR["characters"][name]) for name in ("letters", "digits", "word_signs")
)


def _is_letter(character: str) -> bool:
    return unicodedata.ucd_3_2_0.category(character)[0] == "L" or character in _NEWER_LETTERS


def _is_digit(character: str) -> bool:
    return character in _NEWER_DIGITS or (
        unicodedata.ucd_3_2_0.category(character) == "Nd"
        # The digits of Ethiopia were numbers of another kind by then.
        and not "\u1369" <= character <= "\u1371"
    )


CHARACTERS: dict[str, Callable[[str], bool]] = {
    "letter": _is_letter,
    "digit": _is_digit,
    "wordletter": lambda character: _is_letter(character) or character in _WORD_SIGNS,
}
"""The named sets of characters, each as a test of one."""


PIECES: dict[str, str] = {
    **{name: "".join(pattern) for name, pattern in _GRAMMAR["pieces"].items()},
    **{name: "|".join(words.split()) for name, words in _GRAMMAR["words"].items()},
}
"""Patterns that others refer to."""


_TO_QUOTES = str.maketrans(
    dict.fromkeys("\u0091\u2018\u201b\u2039", "`")
    | dict.fromkeys("\u0092\u2019\u203a", "'")
    | dict.fromkeys("\u0093\u201c\xab", "``")
    | dict.fromkeys("\u0094\u201d\xbb", "''")
)
_TO_FRACTIONS = str.maketrans({"¼": "1/4", "½": "1/2", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"})
# The currency signs that the Treebank's time had no code for.
_TO_CURRENCY = str.maketrans({"¢": "cents", "£": "#"} | dict.fromkeys("\x80¤\u20a0€", "$"))
_TO_BRACKETS = str.maketrans({"(": "-LRB-", ")": "-RRB-"})
_AMPERSAND = re.compile("&amp;", re.IGNORECASE)


def _quotes(text: str) -> str:
    # In capitals the entities are quotation marks too, but stay as they are.
    return text.replace("&apos;", "'").replace('"', "''").replace("&quot;", "''").translate(_TO_QUOTES)


_MAKERS: dict[str, Callable[[str], str]] = {
    "ampersands": lambda text: _AMPERSAND.sub("&", text),
    "brackets": lambda text: text.translate(_TO_BRACKETS),
    "currency": lambda text: text.translate(_TO_CURRENCY),
    "dashes": lambda text: "--" if len(text) in (3, 4) else text,
    "fractions": lambda text: text.translate(_TO_FRACTIONS),
    "no_break": lambda text: text.replace(" ", "\xa0"),
    "quotes": _quotes,
    "telephone": lambda text: text.replace(" ", "\xa0").translate(_TO_BRACKETS),
    "without_soft_hyphens": lambda text: text.replace("\xad", "") or "-",
}


def _rule(said: str | Mapping[str, Any]) -> TokenRule:
    if isinstance(said, str):
        return TokenRule(said)
    make = _MAKERS[said["make"]] if "make" in said else str
    return TokenRule("".join(said["pattern"]), (lambda _: said["token"]) if "token" in said else make)


RULES: tuple[TokenRule, ...] = tuple(map(_rule, _GRAMMAR["rules"]))
"""The kinds of tokens; of two equally long matches the first counts. Text that none matches is no token."""
