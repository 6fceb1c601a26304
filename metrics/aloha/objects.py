"""Objects in a judge's answer: a list of things, each of which may be one of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Alternatives = tuple[str, ...]
"""What a thing may be: mostly one name."""

_SHORTEST = 3
_UNCERTAIN = "possibly"
# What may follow the root noun of a name: "man in a suit", "box of fruit".
_BEHIND = frozenset(
    {"of", "in", "on", "at", "with", "without", "from", "for", "to", "by", "near", "under", "over"}
)


def read_objects(answer: str, *, certain: bool) -> list[Alternatives]:
    """Return the things that an answer lists, as released code reads it (aloha.py, ``_parse_objects_...``).

    A thing is a line of three characters or more that begins with "-"; what stands in parentheses is left out, and
    commas and "or" stand between what it may be. Lines in which nothing is left are passed over; released code
    also drops every thing behind such a line.

    Args:
        answer: The answer.
        certain: Whether things that are "possibly" there are left out, as of a candidate.

    Raises:
        ValueError: It says something, but none of its lines begins with "-": it is no list, not even of nothing.
    """
    found: list[Alternatives] = []
    lines = answer.strip().split("\n")
    if answer.strip() and not any(line.startswith("-") for line in lines):
        raise ValueError("an answer is no list")
    for line in lines:
        if len(line) < _SHORTEST or line[0] != "-" or (certain and _UNCERTAIN in line):
            continue
        thing = line.replace(f"({_UNCERTAIN})", "").replace(_UNCERTAIN, "")[1:].split("(")[0].strip()
        names = (name for part in thing.split(",") for name in part.split(" or "))
        if its := tuple(name.lower().strip() for name in names if name.strip()):
            found.append(its)
    return found


def with_roots(things: Sequence[Alternatives], root: Callable[[str], str | None]) -> list[Alternatives]:
    """Return things with, behind each, the root nouns of what it may be, as released of references.

    Args:
        things: Things.
        root: Returns the root noun of a name, or None if it has none.
    """
    found: list[Alternatives] = []
    for its in things:
        found.append(its)
        if roots := tuple(noun for name in its if (noun := root(name))):
            found.append(roots)
    return found


def last_word(name: str) -> str | None:
    """Return the last word of a name before any preposition: "top" of "black tank top", "box" of "box of fruit"."""
    words = name.split()
    end = next((number for number, word in enumerate(words) if number and word in _BEHIND), len(words))
    return words[end - 1] if words else None


def root_noun(pipeline: Any, name: str) -> str | None:
    """Return the word of a name that hangs on no other, as a pipeline of spaCy parses it."""
    return next((token.text.lower().strip() for token in pipeline(name) if token.head == token), None)
