"""Rows of data sets that stay where they are: read anew when they are needed, or with images left in the data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, overload

from ..boundary import Boundary, OutsideFile
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
    return [(one.st_size, one.st_mtime_ns, one.st_ino) for one in map(Path.stat, filter(Path.exists, files))]


def collect(read: Read, origin: str, files: Sequence[Path] = ()) -> tuple[Sequence[Mapping[str, Any]], list[BadRow]]:
    """Return the rows of a data set, in memory where they are few, and those that cannot be read.

    Args:
        read: Reads it.
        origin: Where it comes from.
        files: The files that it is read from; none where only its reader knows.
    """
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
    return (kept if len(kept) == count else RowsByNeed(read, origin, count, columns, files, stamps)), bad


@dataclass(frozen=True)
class RowImage:
    """The encoded image of one row of a memory-mapped data set.

    Attributes:
        images: The data set, with the column of images alone.
        column: That column.
        row: Number of the row.
        boundary: Where a file must lie that the row names in place of the bytes.
    """

    images: Any
    column: str
    row: int
    boundary: Boundary

    def read_bytes(self) -> bytes:
        """Return the encoded bytes.

        Raises:
            OSError: The row has none, or names a file that cannot be read, or must not be.
        """
        image = self.images[self.row][self.column]
        if isinstance(image, Mapping):
            # As datasets has undecoded images.
            image = image.get("bytes") or image.get("path")
        if isinstance(image, str) and image:
            path = Path(image)
            return path.read_bytes() if self.boundary.holds(path) else OutsideFile(path).read_bytes()
        if not isinstance(image, bytes):
            raise OSError(f"holds no image but {type(image).__name__}")
        return image

    def __str__(self) -> str:
        return f"{self.column} of row {self.row}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowImage) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, str, int]:
        # Data sets are compared by what they are, not by what they hold.
        return id(self.images), self.column, self.row


class RowsWithImages(Sequence[Mapping[str, Any]]):
    """The rows of a memory-mapped data set, in which a ``RowImage`` stands for each encoded image.

    Args:
        rows: A ``datasets.Dataset``.
        column: Its column of encoded images.
        boundary: Where files must lie that a row names in place of an encoded image.
    """

    def __init__(self, rows: Any, column: str, boundary: Boundary) -> None:
        self.column_names: list[str] = list(rows.column_names)
        self._texts = rows.remove_columns([column])
        self._images = rows.select_columns([column])
        self._column = column
        self._boundary = boundary

    def __len__(self) -> int:
        return len(self._images)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        # A data set without columns has no rows.
        rows = self._texts if self._texts.column_names else ({} for _ in range(len(self)))
        for number, row in enumerate(rows):
            yield {**row, self._column: self._image(number)}

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        """Return one row, or several."""
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        texts = self._texts[number] if self._texts.column_names else {}
        return {**texts, self._column: self._image(number)}

    def _image(self, number: int) -> RowImage:
        return RowImage(self._images, self._column, number, self._boundary)


def with_row_images(rows: Sequence[Mapping[str, Any]], column: str, boundary: Boundary) -> Sequence[Mapping[str, Any]]:
    """Return rows with their images left where they are, if they are of a memory-mapped data set.

    Args:
        rows: A list, or a ``datasets.Dataset``.
        column: The column of encoded images.
        boundary: Where files must lie that a row names in place of an encoded image.
    """
    columns = getattr(rows, "column_names", None)
    return rows if columns is None or column not in columns else RowsWithImages(rows, column, boundary)
