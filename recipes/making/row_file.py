"""Rows in a file: as many as there are, without all of them in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from .rows import MakingRow


class RowFile:
    """Rows that were written to a file, and are read from its start as often as they are wanted.

    Attributes:
        path: The file.
        keys: The values that every row has.
        have_images: Whether every row has an image.

    Args:
        path: Where the file is written; the draft of one process, which goes with it.
        rows: The rows, in order; their values are JSON.
    """

    def __init__(self, path: Path, rows: Iterable[MakingRow]) -> None:
        self.path = path
        self.keys: frozenset[str] = frozenset()
        self.have_images = True
        self._count = 0
        with path.open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(f"{json.dumps(row.to_values())}\n")
                self.keys = self.keys.intersection(row.values) if self._count else frozenset(row.values)
                self.have_images &= row.image is not None
                self._count += 1

    def __len__(self) -> int:
        """Return how many rows there are."""
        return self._count

    def __iter__(self) -> Iterator[MakingRow]:
        """Yield the rows, one at a time."""
        with self.path.open("rb") as lines:
            yield from map(MakingRow.of_line, lines)

    def remove(self) -> None:
        """Remove the file; nobody reads the rows again."""
        self.path.unlink()
