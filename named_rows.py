"""Values by name, and names that occurred, for files of any length: what memory they take is some bytes a name.

Names are told apart by Python's hash of 64 bits: of 10**8 names the odds that any two share one are 3 in 10,000.
"""

from __future__ import annotations

import json
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .mapped_numbers import GrowingNumbers, let_go, mapped

_RECENT = 20_000
_TOGETHER = 16
"""Values that are written, and read, together."""
_FEWER = 16
"""How much longer a run of names is than the next one, at least."""


class SeenNames:
    """Names that occurred, 8 bytes each."""

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._runs: list[memoryview] = []

    def add(self, name: str) -> None:
        """Keep a name that is not among them."""
        self._recent.add(hash(name))
        if len(self._recent) >= _RECENT:
            self._keep()

    def __contains__(self, name: str) -> bool:
        key = hash(name)
        if key in self._recent:
            return True
        for run in self._runs:
            at = bisect_left(run, key)
            if at < len(run) and run[at] == key:
                return True
        return False

    def _keep(self) -> None:
        """Sort the recent ones away; runs become one until one is far longer than the next, so that there are few."""
        self._runs.append(memoryview(np.array(sorted(self._recent), np.int64).data))
        self._recent.clear()
        while len(self._runs) > 1 and len(self._runs[-2]) <= _FEWER * len(self._runs[-1]):
            both = np.concatenate([self._runs.pop(), self._runs.pop()])
            both.sort()
            self._runs.append(memoryview(both.data))


class NamedRows:
    """Values by name, in the order in which they came: in files that go with it.

    All are added before the first one is looked up.
    """

    def __init__(self) -> None:
        # It has no name, and goes when nobody has it open.
        self._file = tempfile.TemporaryFile(prefix="capbench-")  # noqa: SIM115
        self._seen = SeenNames()
        self._waiting: list[tuple[str, Any]] = []
        self._recent_hashes, self._recent_ends = array("q"), array("q", [0])
        # Of all names before these.
        self._hashes, self._ends = GrowingNumbers(), GrowingNumbers()
        self._no_json: dict[int, Any] = {}
        self._length = self._size = 0
        self._read_last: tuple[int, list[Any]] = -1, []

    def __len__(self) -> int:
        return self._length

    def add(self, name: str, value: Any) -> bool:
        """Keep the value of a name; return False where it has one.

        Raises:
            OSError: The disk is full.
        """
        if name in self._seen:
            return False
        self._seen.add(name)
        self._length += 1
        self._waiting.append((name, value))
        self._recent_hashes.append(hash(name))
        if len(self._waiting) == _TOGETHER:
            self._write()
        return True

    def _write(self) -> None:
        """Write the values that wait; where one is no JSON, it stays in memory."""
        try:
            written = json.dumps(self._waiting)
        except (TypeError, ValueError):
            # A cell of Parquet may be a date, or bytes.
            first = len(self) - len(self._waiting)
            self._no_json |= {first + at: value for at, (_, value) in enumerate(self._waiting)}
            written = json.dumps([(name, None) for name, _ in self._waiting])
        self._waiting.clear()
        self._size += self._file.write(written.encode())
        self._recent_ends.append(self._size)
        if len(self._recent_hashes) >= _RECENT:
            self._keep()

    def _keep(self) -> None:
        """Put the numbers of recent names with those of all before."""
        self._hashes.append(np.array(self._recent_hashes, np.int64))
        self._ends.append(np.array(self._recent_ends, np.int64))
        del self._recent_hashes[:], self._recent_ends[:]

    def _complete(self) -> None:
        """Write what waits: all have been added."""
        if self._waiting:
            self._write()
        if self._recent_ends:
            self._keep()

    def find(self, names: Iterable[str | None]) -> np.ndarray:
        """Return ``[m]`` int64 the number of each name, -1 for those that are not there, and for None."""
        asked = list(names)
        hashes = np.fromiter((0 if name is None else hash(name) for name in asked), np.int64, len(asked))
        known, rows = self._index
        if not len(known):
            return np.full(len(asked), -1)
        at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
        is_there = (known[at] == hashes) & np.array([name is not None for name in asked], dtype=bool)
        found = np.where(is_there, rows[at], -1)
        let_go()
        return found

    def value(self, row: int) -> Any:
        """Return the value of a number."""
        value = self._read(row)[1]
        return self._no_json.get(row, value)

    def name(self, row: int) -> str:
        """Return the name of a number."""
        return self._read(row)[0]

    def _read(self, row: int) -> Sequence[Any]:
        together, at = divmod(row, _TOGETHER)
        if self._read_last[0] != together:
            self._complete()
            start, end = self._ends.array()[together : together + 2].tolist()
            self._file.seek(start)
            self._read_last = together, json.loads(self._file.read(end - start))
        return self._read_last[1][at]

    @cached_property
    def _index(self) -> tuple[np.ndarray, np.ndarray]:
        """The hashes in their order, and the number of each."""
        self._complete()
        hashes = self._hashes.array()
        order = np.argsort(hashes).astype(np.int32 if len(self) < 2**31 else np.int64)
        found = mapped(hashes[order]), mapped(order)
        # What only adding needs.
        self._seen, self._hashes = SeenNames(), GrowingNumbers()
        return found
