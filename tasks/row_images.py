"""Images of memory-mapped data sets that stay in their rows until they are read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..boundary import Boundary, OutsideFile


@dataclass(frozen=True)
class RowImage:
    """The encoded image of one row of a memory-mapped data set.

    Attributes:
        images: The data set, with the column of images alone.
        column: That column.
        row: Number of the row.
        boundary: Where a file must lie that the row names in place of the bytes.
    """

    images: Any = field(hash=False)
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

    def __getitem__(self, index: int | slice) -> Any:
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
