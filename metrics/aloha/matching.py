"""The objects of a candidate, each matched with another one of the references, so that they are as alike as can be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from .objects import Alternatives

Aggregate = Literal["min", "mean"]
Unmatched = Literal["ignored", "zero"]

MOST_CHOICES = 10_000
"""Ways of choosing one name for each thing that are gone through for an item."""


@dataclass(frozen=True)
class Match:
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
class Matched:
    """The objects of a candidate, matched, and what follows.

    Attributes:
        value: The least similarity, or their mean.
        objects: The candidate's objects, the least similar first.
        unmatched: What those without a match count.
        unknown: Words of the captions that the parser does not know and passed over.
    """

    value: float
    objects: tuple[Match, ...]
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
) -> Matched:
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
) -> Matched:
    from scipy.optimize import linear_sum_assignment

    similarity = np.stack([vectors[name] for name in names]) @ np.stack([vectors[name] for name in others]).T
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    partner: dict[int, int] = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    objects = [
        Match(name, others[partner[row]], float(similarity[row, partner[row]]))
        if row in partner
        else Match(name, None, 0.0)
        for row, name in enumerate(names)
    ]
    counted = [one.similarity for one in objects if one.reference is not None or unmatched == "zero"]
    value = min(counted) if aggregate == "min" else sum(counted) / len(counted)
    return Matched(value, tuple(sorted(objects, key=lambda one: one.similarity)), unmatched)
