"""Which entries compete with each other, and whether what is held against each other is one to the encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TypeVar

import numpy as np

from .entries import Entry
from .image_text_hits import Likeness
from .settings import MatchingSettings

_One = TypeVar("_One")


@dataclass(frozen=True)
class Held:
    """An entry that was held against texts.

    Attributes:
        entry: The entry.
        likeness: How alike it and the texts are.
        seen: A number of what the encoder sees of each of the entry's own texts, 0 for one that leaves room; see
            :func:`~....metrics.vectors.features.seen_tokens`.
    """

    entry: Entry
    likeness: Likeness
    seen: np.ndarray


def groups_of(
    entries: Iterable[_One], settings: MatchingSettings, entry: Callable[[_One], Entry]
) -> Iterator[list[_One]]:
    """Yield entries that compete with each other: a block, those of an image, the two of a square, or one alone.

    Args:
        entries: In order.
        settings: The choices of the task.
        entry: Gives the entry of each.
    """
    if settings.measure == "neg":
        yield from ([one] for one in entries)
    elif settings.measure == "square" or settings.grouping == "per_image":
        for _, group in groupby(entries, key=lambda one: entry(one).image):
            yield list(group)
    else:
        some = iter(entries)
        while block := list(islice(some, settings.block_size)):
            yield block


def cut_to_one(group: Sequence[Held]) -> list[bool]:
    """Return of which entries of a group a caption differs from a text that competes with it, until both are cut.

    Args:
        group: The entries that compete; of one alone its negatives do.
    """
    if not any(one.seen.any() for one in group):
        return [False] * len(group)
    found: list[bool] = []
    for number, one in enumerate(group):
        count = len(one.entry.captions)
        texts = list(zip(one.entry.texts, one.seen.tolist(), strict=True))
        rivals = texts[count:]
        for place, other in enumerate(group):
            if place != number:
                rivals += list(zip(other.entry.captions, other.seen.tolist(), strict=False))
        found.append(
            any(a and a == b and mine != theirs for mine, a in texts[:count] for theirs, b in rivals)
        )
    return found
