"""The order in which a rater meets items and captions: it follows from the seed, the rater and the names alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from .items import RatedItem


@dataclass(frozen=True)
class Step:
    """One answer that is asked for.

    Attributes:
        item: Number of the item.
        shown: Numbers of the captions, as they stand on the page from the first.
    """

    item: int
    shown: tuple[int, ...]


def in_order(names: Sequence[str], *seed: object) -> list[int]:
    """Return the numbers of some names as the SHA-256 of the seed and each name puts them.

    Names that are added or taken away leave the order of the others as it is.

    Args:
        names: The names; no two are equal.
        seed: What else decides the order.
    """

    def drawn(number: int) -> bytes:
        return hashlib.sha256(json.dumps([*seed, names[number]]).encode()).digest()

    return sorted(range(len(names)), key=drawn)


def steps(items: Sequence[RatedItem], systems: Sequence[str], seed: int, rater: str, *, together: bool) -> list[Step]:
    """Return what a rater meets, in order; a single caption on a page is nothing to choose from, and not asked.

    Args:
        items: What is rated.
        systems: What wrote the captions of an item.
        seed: The seed of the session.
        rater: Who rates.
        together: Whether the captions of an item are on one page, where equal ones stand as the first of them; else one
            follows the other.
    """
    found: list[Step] = []
    for number in in_order([item.id for item in items], seed, rater, "items"):
        shown = in_order(systems, seed, rater, items[number].id)
        if together:
            found.append(Step(number, tuple(one for one in shown if one in items[number].first_equal)))
        else:
            found += [Step(number, (one,)) for one in shown]
    return found
