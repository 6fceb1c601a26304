"""Masks as packed bits within their boxes: hundreds of large ones take little memory, and are compared in a moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

WholeBox: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom in whole pixels or cells; right and bottom are exclusive."""
_WORD = 64


@dataclass(frozen=True, eq=False)
class PackedMask:
    """A mask of an image, of which what lies within its box is kept.

    Attributes:
        words: Its bits, uint64 ``[bottom - top, words]``; the first bit of a row is a column that 64 divides.
        box: Left, top, right, bottom of its pixels, right and bottom exclusive; zeros where it has none.
        shape: Height and width of the image.
    """

    words: np.ndarray
    box: WholeBox
    shape: tuple[int, int]

    @classmethod
    def of(cls, mask: np.ndarray) -> PackedMask:
        """Return a mask, bool ``[height, width]``, packed."""
        # Rows first, then columns of these rows alone.
        rows = np.flatnonzero(mask.any(axis=1))
        if not len(rows):
            return cls(np.zeros((0, 0), np.uint64), (0, 0, 0, 0), mask.shape)
        top, bottom = int(rows[0]), int(rows[-1]) + 1
        columns = np.flatnonzero(mask[top:bottom].any(axis=0))
        left, right = int(columns[0]), int(columns[-1]) + 1
        start = left // _WORD * _WORD
        packed = np.packbits(mask[top:bottom, start:right], axis=1)
        packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % (_WORD // 8))))
        return cls(packed.view(np.uint64), (left, top, right, bottom), mask.shape)

    @cached_property
    def size(self) -> int:
        """How many pixels it has."""
        return int(np.bitwise_count(self.words).sum(dtype=np.int64))

    def shared(self, other: PackedMask) -> int:
        """Return how many pixels two masks have in common."""
        top, bottom = max(self.box[1], other.box[1]), min(self.box[3], other.box[3])
        if top >= bottom or max(self.box[0], other.box[0]) >= min(self.box[2], other.box[2]):
            return 0
        start = max(self._first_word, other._first_word)
        end = min(self._first_word + self.words.shape[1], other._first_word + other.words.shape[1])
        mine, theirs = (
            one.words[top - one.box[1] : bottom - one.box[1], start - one._first_word : end - one._first_word]
            for one in (self, other)
        )
        return int(np.bitwise_count(mine & theirs).sum(dtype=np.int64))

    def united(self, other: PackedMask) -> PackedMask:
        """Return the pixels of either of two masks that have some."""
        left, top = (min(self.box[edge], other.box[edge]) for edge in (0, 1))
        right, bottom = (max(self.box[edge], other.box[edge]) for edge in (2, 3))
        first = left // _WORD
        words = np.zeros((bottom - top, -(-right // _WORD) - first), np.uint64)
        for one in (self, other):
            begin = one._first_word - first
            rows = slice(one.box[1] - top, one.box[3] - top)
            words[rows, begin : begin + one.words.shape[1]] |= one.words
        return PackedMask(words, (left, top, right, bottom), self.shape)

    def unpacked(self) -> np.ndarray:
        """Return the mask as bool ``[height, width]``."""
        mask = np.zeros(self.shape, bool)
        _, top, right, bottom = self.box
        start = self._first_word * _WORD
        mask[top:bottom, start:right] = np.unpackbits(self.words.view(np.uint8), axis=1)[:, : right - start]
        return mask

    @property
    def _first_word(self) -> int:
        return self.box[0] // _WORD
