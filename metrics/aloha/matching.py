"""The objects of a candidate, each matched with another one of the references, so that they are as alike as can be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

Alternatives = tuple[str, ...]
"""What a thing may be: mostly one name."""

_SHORTEST = 3
_UNCERTAIN = "possibly"
# What may follow the root noun of a name: "man in a suit", "box of fruit".
_BEHIND = frozenset({"of", "in", "on", "at", "with", "without", "from", "for", "to", "by", "near", "under", "over"})


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


Aggregate = Literal["min", "mean"]
Unmatched = Literal["ignored", "zero"]

MOST_CHOICES = 10_000
"""Ways of choosing one name for each thing that are gone through for an item."""


@dataclass(frozen=True)
class ObjectMatch:
    """An object of the candidate.

    Attributes:
        name: What it is called.
        reference: The reference's object that it is matched with; None where all are taken.
        similarity: Cosine of the two, -1 to 1; 0 without a match.
    """

    name: str
    reference: str | None
    similarity: float


@dataclass(frozen=True)
class ObjectMatching:
    """The objects of a candidate, matched, and what follows.

    Attributes:
        value: The least similarity, or their mean.
        objects: The candidate's objects, the least similar first.
        unmatched: What those without a match count.
        unknown: Words of the captions that the parser does not know and passed over.
    """

    value: float
    objects: tuple[ObjectMatch, ...]
    unmatched: Unmatched
    unknown: tuple[str, ...] = ()


def choices(things: Sequence[Alternatives]) -> int:
    """Return in how many ways a name can be chosen for each thing."""
    return math.prod(len(its) for its in things)


def best_match(
    candidate: Sequence[Alternatives],
    references: Sequence[Alternatives],
    vectors: Mapping[str, np.ndarray],
    aggregate: Aggregate,
    unmatched: Unmatched,
) -> ObjectMatching:
    """Return the match of the choice of names that scores most, the first of equals; equal names count once.

    Args:
        candidate: The candidate's things, one or more.
        references: The references' things, one or more.
        vectors: Name to its unit vector ``[d]``.
        aggregate: The least similarity, or the mean.
        unmatched: What an object of the candidate counts for which the references have none left: nothing, as
            released, or 0.
    """
    mine, theirs = _sets(candidate), _sets(references)
    found = [_match(names, others, vectors, aggregate, unmatched) for names in mine for others in theirs]
    return max(found, key=lambda one: one.value)


def _sets(things: Sequence[Alternatives]) -> list[tuple[str, ...]]:
    """Return the different sets of names, each in the order of its letters."""
    return list(dict.fromkeys(tuple(sorted(set(names))) for names in product(*things)))


def _match(
    names: Sequence[str],
    others: Sequence[str],
    vectors: Mapping[str, np.ndarray],
    aggregate: Aggregate,
    unmatched: Unmatched,
) -> ObjectMatching:
    from scipy.optimize import linear_sum_assignment

    similarity = np.stack([vectors[name] for name in names]) @ np.stack([vectors[name] for name in others]).T
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    partner: dict[int, int] = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    objects = [
        ObjectMatch(name, others[partner[row]], float(similarity[row, partner[row]]))
        if row in partner
        else ObjectMatch(name, None, 0.0)
        for row, name in enumerate(names)
    ]
    counted = [one.similarity for one in objects if one.reference is not None or unmatched == "zero"]
    value = min(counted) if aggregate == "min" else sum(counted) / len(counted)
    return ObjectMatching(value, tuple(sorted(objects, key=lambda one: one.similarity)), unmatched)
