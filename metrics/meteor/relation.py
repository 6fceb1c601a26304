"""Which of the words of two texts are related: looked up for many pairs of texts at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..words.ngrams import spans

# A table of this many bits in as many bytes tells most pairs apart, so that few keys are searched for.
_SLOTS = 1 << 24
# What is compared at a time, so that memory does not grow with the length of texts.
_CELLS_AT_A_TIME = 1 << 21


@dataclass(frozen=True)
class Spans:
    """For each of ``p`` pairs of texts a part of one array.

    Attributes:
        array: Numbers of words, or of phrases, of texts one after the other.
        starts: ``[p]`` where the part of a pair begins.
        lengths: ``[p]`` how long it is.
    """

    array: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


class Found(NamedTuple):
    """Places that are related, in the order of pairs, then of the left place, then of the right one.

    Attributes:
        pair: ``[m]`` in which pair.
        left: ``[m]`` the place in the left array.
        right: ``[m]`` the place in the right array.
        at: ``[m]`` which key of the relation it is.
    """

    pair: np.ndarray
    left: np.ndarray
    right: np.ndarray
    at: np.ndarray


class Relation:
    """A relation between numbers.

    Args:
        keys: Ascending and distinct: ``left * size + right`` of what is related.
        size: All numbers are below it.
    """

    def __init__(self, keys: np.ndarray, size: int) -> None:
        self.keys = keys
        self._size = size
        self._rows = (np.arange(size) * size % _SLOTS).astype(np.int32)
        # Where two pairs share a byte, the keys decide.
        self._table = np.zeros(min(_SLOTS, size * size) + size, bool)
        left, right = np.divmod(keys, max(size, 1))
        self._table[self._rows[left] + right] = True

    def find(self, left: Spans, right: Spans) -> Found:
        """Return what is related of the left part and the right part of each pair."""
        found = [Found(*(np.empty(0, np.int64) for _ in Found._fields)), *self._blocks(left, right)]
        return Found(*map(np.concatenate, zip(*found, strict=True)))

    def _blocks(self, left: Spans, right: Spans) -> Iterator[Found]:
        places = spans(left.starts, left.lengths)
        pairs = np.repeat(np.arange(len(left.lengths)), left.lengths)
        rows = self._rows[left.array[places]]
        lengths = right.lengths[pairs]
        ends = np.cumsum(lengths)
        others = right.array.astype(np.int32)
        cuts = np.flatnonzero(np.diff(ends // _CELLS_AT_A_TIME)) + 1
        for start, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), len(places)], strict=True):
            block = slice(start, stop)
            of_row = lengths[block]
            first = np.cumsum(of_row) - of_row
            # The place on the right of each cell is its number plus what its row adds to it.
            shift = (right.starts[pairs[block]] - first).astype(np.int32)
            there = np.repeat(shift, of_row)
            there += np.arange(len(there), dtype=np.int32)
            slot = np.repeat(rows[block], of_row)
            slot += others[there]
            hits = np.flatnonzero(self._table[slot])
            row = np.searchsorted(first, hits, side="right") - 1 + start
            there = there[hits].astype(np.int64)
            keys = left.array[places[row]].astype(np.int64) * self._size + others[there]
            at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            sure = self.keys[at] == keys
            yield Found(pairs[row[sure]], places[row[sure]], there[sure], at[sure])


def sharing(members: np.ndarray, properties: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of members that share a property, both ways round and each with itself.

    Args:
        members: ``[m]`` numbers.
        properties: ``[m]`` a property of each; one member may be there more than once.
    """
    order = np.argsort(properties, kind="stable")
    members, properties = members[order], properties[order]
    first = np.flatnonzero(np.concatenate([[True], properties[1:] != properties[:-1]])[: len(properties)])
    sizes = np.diff(np.append(first, len(members)))
    others = np.repeat(sizes, sizes)
    return np.repeat(members, others), members[spans(np.repeat(first, sizes), others)]
