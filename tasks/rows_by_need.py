"""Rows of a large data set that are read when they are needed, and not kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, overload

from ..errors import DataError
from ..rows import BadRow

AT_HAND = 20_000
"""Rows of a data set that are kept in memory; those of a larger one are read again."""

Read = Callable[[], Iterable[Any]]
"""Reads a data set from its beginning: its rows, and a ``BadRow`` for each that cannot be read."""


@dataclass(frozen=True)
class RowsByNeed(Sequence[Mapping[str, Any]]):
    """The rows of a data set, read anew whenever they are gone through; each row alone takes as long as those before.

    Attributes:
        read: Reads them.
        origin: Where they come from.
        total: How many there are.
        columns: The names of their columns.
        files: The files that they are read from; none where only their reader knows.
        stamps: What the system said of these when the rows were counted.
    """

    read: Read
    origin: str
    total: int
    columns: set[str]
    files: Sequence[Path]
    stamps: Sequence[Stamp]

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield the rows.

        Raises:
            DataError: They are not those that were counted.
        """
        self._require_unchanged(self.total)
        found = 0
        for row in self.read():
            if not isinstance(row, BadRow):
                found += 1
                yield row
        self._require_unchanged(found)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        """Return one row, or several."""
        numbers = range(self.total)[index]
        if isinstance(numbers, int):
            return next(islice(self, numbers, None))
        wanted = set(numbers)
        found = {
            number: row for number, row in enumerate(islice(self, max(wanted, default=-1) + 1)) if number in wanted
        }
        return [found[number] for number in numbers]

    def _require_unchanged(self, found: int) -> None:
        if found != self.total or stamps_of(self.files) != self.stamps:
            raise DataError(
                f"{self.origin}: changed while it was read ({self.total:,} rows at first)",
                "Rows of a data set of this size are read more than once. Run again when it stays as it is.",
            )


Stamp = tuple[int, int, int]
"""Size, time of the last change, and number of a file."""


def stamps_of(files: Sequence[Path]) -> list[Stamp]:
    """Return what the system says of files."""
    found = [file.stat() for file in files if file.exists()]
    return [(one.st_size, one.st_mtime_ns, one.st_ino) for one in found]


def collect(read: Read, origin: str, files: Sequence[Path] = ()) -> tuple[Sequence[Mapping[str, Any]], list[BadRow]]:
    """Return the rows of a data set, in memory where they are few, and those that cannot be read.

    Args:
        read: Reads it.
        origin: Where it comes from.
        files: The files that it is read from; none where only its reader knows.
    """
    counted = _count(read, files)
    if counted.kept is not None:
        return counted.kept, counted.bad
    return RowsByNeed(read, origin, counted.rows, counted.columns, files, counted.stamps), counted.bad


@dataclass(frozen=True)
class _Counted:
    """What a data set is found to hold.

    Attributes:
        rows: How many rows.
        columns: The names of their columns.
        bad: What cannot be read.
        stamps: Those of its files, from before.
        kept: The rows, where they are few.
    """

    rows: int
    columns: set[str]
    bad: list[BadRow]
    stamps: list[Stamp]
    kept: list[Mapping[str, Any]] | None


def _count(read: Read, files: Sequence[Path]) -> _Counted:
    stamps = stamps_of(files)
    given = read()
    is_whole = isinstance(given, Sequence) or any(file.suffix == ".json" for file in files)
    kept: list[Mapping[str, Any]] = []
    bad: list[BadRow] = []
    columns: set[str] = set()
    count = 0
    for row in given:
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        count += 1
        if is_whole or count <= AT_HAND:
            kept.append(row)
            continue
        columns.update(row, *kept)
        kept.clear()
    return _Counted(count, columns, bad, stamps, kept if len(kept) == count else None)
