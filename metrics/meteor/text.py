"""The words that METEOR compares: the jar's ``-norm`` for English, then lower case.

Patterns follow Moses' tokeniser with METEOR's additions (quotes and dashes made equal, dashes and
dots inside words dropped), in the jar's order.
"""

import re
from collections.abc import Mapping
from typing import Literal

Prefixes = Mapping[str, Literal["always", "before a number"]]

# Nothing in such a text is changed by any pattern.
_PLAIN = re.compile("[a-z0-9 ]*")
_ASCII_SPACE = re.compile("[ \t\n\r\f]+")
# Java's trim(), at the ends of a text.
_TRIMMED = "".join(map(chr, range(33)))

_LETTER = "A-Za-zŠŽšžŸÀ-ÖØ-öø-žЀ-ӿԀ-ԧꙀ-ꙮ꙾-ꚗᴀ-ᵿ"
_ALNUM = "0-9" + _LETTER
_UNICODE_SPACE = re.compile("[ \u2000-\u200a\u202f\u205f\u3000\u00a0]+")

_BEFORE_DOTS = [(re.compile(rf"([^{_ALNUM} \t\n\x0b\f\r.'`,\-‘’])"), r" \1 "), (re.compile(r"\.(\.+)"), r" DOTMULTI\1")]
_ONE_OF_DOTS = re.compile(r"DOTMULTI\.([^.])")
_AFTER_DOTS = [
    (re.compile("([^0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile("([0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile("([^0-9]),([0-9])"), r"\1 , \2"),
    (re.compile("[`‘’]"), "'"),
    (re.compile("[“”]|''"), ' " '),
    (re.compile("–"), "-"),
    (re.compile("--"), "-"),
    (re.compile(rf"([{_ALNUM}.])-([{_ALNUM}])"), r"\1 \2"),
    (re.compile(f"([^{_LETTER}])'([^{_LETTER}])"), r"\1 ' \2"),
    (re.compile(f"([^{_LETTER}0-9])'([{_LETTER}])"), r"\1 ' \2"),
    (re.compile(f"([{_LETTER}])'([^{_LETTER}])"), r"\1 ' \2"),
    (re.compile(f"([{_LETTER}])'([{_LETTER}])"), r"\1 '\2"),
    (re.compile("([0-9])'(s)"), r"\1 '\2"),
]
_HAS_LETTER = re.compile(f"[{_LETTER}]")
_LOWER_CASE = re.compile("[a-z]")
_DIGIT = re.compile("[0-9]")


def words(text: str, prefixes: Prefixes) -> list[str]:
    """Return the normalised words of a text.

    Args:
        text: A caption.
        prefixes: Abbreviations after which a dot stays (``prefixes_of``).
    """
    if _PLAIN.fullmatch(text):
        return text.split()
    # What UTF-8 cannot encode is a question mark to the jar.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return _split(_normalize(text.strip(_TRIMMED), prefixes).lower())


def prefixes_of(lines: list[str]) -> Prefixes:
    """Return abbreviations from the lines of Moses' file of nonbreaking prefixes."""
    prefixes: dict[str, Literal["always", "before a number"]] = {}
    for line in lines:
        prefix, *note = _split(line) or ["#"]
        if not prefix.startswith("#"):
            prefixes[prefix] = "before a number" if note[:1] == ["#NUMERIC_ONLY#"] else "always"
    return prefixes


def _split(text: str) -> list[str]:
    """Return what stands between white space, as Java sees it: Python's ``split`` knows more of it."""
    return [word for word in _ASCII_SPACE.split(text) if word]


def _normalize(text: str, prefixes: Prefixes) -> str:
    text = f" {text} "
    for pattern, replacement in _BEFORE_DOTS:
        text = pattern.sub(replacement, text)
    while "DOTMULTI." in text:
        text = _ONE_OF_DOTS.sub(r"DOTDOTMULTI \1", text)
        text = text.replace("DOTMULTI.", "DOTDOTMULTI")
    for pattern, replacement in _AFTER_DOTS:
        text = pattern.sub(replacement, text)
    text = _break_dots(_split(text), prefixes)
    while "DOTDOTMULTI" in text:
        text = text.replace("DOTDOTMULTI", "DOTMULTI.")
    text = text.replace("DOTMULTI", ".")
    return _UNICODE_SPACE.sub(" ", text).strip(_TRIMMED)


def _break_dots(parts: list[str], prefixes: Prefixes) -> str:
    """Return words joined, the dot at the end of a word made a word unless it ends an abbreviation."""
    broken = []
    for word, following in zip(parts, [*parts[1:], ""], strict=False):
        if not (word.endswith(".") and len(word) > 1):
            broken.append(word)
            continue
        before = word[:-1]
        if "." in before and _HAS_LETTER.search(before):
            broken.append(word.replace(".", ""))
        elif (
            prefixes.get(before) == "always"
            or _LOWER_CASE.match(following)
            or (prefixes.get(before) == "before a number" and _DIGIT.match(following))
        ):
            broken.append(word)
        else:
            broken += [before, "."]
    return " ".join([*broken, ""])
