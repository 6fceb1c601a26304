"""Reads POPE's questions: JSON lines, as for COCO, or a JSON array, as for the sets annotated by SEEM."""

from collections.abc import Iterator
from pathlib import Path

from ...rows import BadRow, Row, read_rows

_KEYS = ("question_id", "image", "text", "label")


def questions(folder: Path, file: str = "coco_pope_random.json") -> Iterator[Row | BadRow]:
    """Yield the questions of a file, in its order.

    Args:
        folder: Holds the file.
        file: Its name.

    Raises:
        DataError: It is missing.
    """
    for number, row in enumerate(read_rows(folder / file), 1):
        if not isinstance(row, BadRow) and (missing := [key for key in _KEYS if key not in row]):
            row = BadRow(f"{file}: question {number}", f"has no {', '.join(missing)}")
        yield row
