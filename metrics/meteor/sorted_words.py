"""Words by number, in an array that processes can share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Words:
    """Words whose numbers are their places in the order of their bytes.

    Attributes:
        sorted: ``[words]`` UTF-8, ascending, as fixed-width bytes.
    """

    sorted: np.ndarray

    @classmethod
    def of(cls, words: Sequence[str]) -> tuple[Words, np.ndarray]:
        """Return words in their order, and ``[len(words)]`` the number of each one given; they are distinct."""
        encoded = np.array([word.encode() for word in words])
        order = np.argsort(encoded)
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        return cls(encoded[order]), numbers

    def find(self, words: Sequence[str]) -> np.ndarray:
        """Return ``[len(words)]`` their numbers, -1 for those that are not there."""
        encoded = [word.encode() for word in words]
        width = self.sorted.itemsize
        # What is longer than all that is there would be cut.
        wanted = np.array([word if len(word) <= width else b"" for word in encoded], self.sorted.dtype)
        found = np.minimum(np.searchsorted(self.sorted, wanted), len(self.sorted) - 1)
        return np.where(self.sorted[found] == wanted, found, -1)
