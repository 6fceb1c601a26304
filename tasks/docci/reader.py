"""Reads DOCCI as distributed."""

from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ...rows import BadRow, Row, read_lines

FILE = "docci_descriptions.jsonlines"


def described(folder: Path, split: str = "test") -> Iterator[Row | BadRow]:
    """Yield the rows of a split: ``example_id``, ``image_file`` and ``description``.

    Args:
        folder: Holds ``docci_descriptions.jsonlines``.
        split: ``train``, ``test``, ``qual_dev`` or ``qual_test``.

    Raises:
        DataError: The file is missing.
    """
    if not (folder / FILE).is_file():
        raise DataError(f"{folder}: holds no {FILE}", "'bench data docci_retrieval' lists the files.")
    rows = (row for _, row in read_lines(folder / FILE))
    return (row for row in rows if isinstance(row, BadRow) or row.get("split") == split)
