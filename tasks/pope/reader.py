"""Reads POPE's questions: JSON lines, as for COCO, or a JSON array, as for the sets annotated by SEEM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...rows import BadRow, Row, decode_line, parse_json
from ..json_array import elements

_KEYS = ("question_id", "image", "text", "label")


def questions(folder: Path, file: str = "coco_pope_random.json") -> Iterator[Row | BadRow]:
    """Yield the questions of a file, in its order.

    Args:
        folder: Holds the file.
        file: Its name.

    Raises:
        DataError: It is missing.
    """
    path = folder / file
    if not path.is_file():
        raise DataError(f"{path}: there is no such file", "'bench data pope' lists the files.")
    with path.open("rb") as stream:
        is_array = stream.read(64).lstrip().startswith(b"[")
    rows = enumerate(elements(path), 1) if is_array else _lines(path)
    for number, row in rows:
        place = f"{file}: question {number}"
        if not isinstance(row, dict):
            yield BadRow(place, "is not a JSON object")
        elif missing := [key for key in _KEYS if key not in row]:
            yield BadRow(place, f"has no {', '.join(missing)}")
        else:
            yield row


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                try:
                    yield number, parse_json(decode_line(line) or "")
                except ValueError:
                    yield number, None
