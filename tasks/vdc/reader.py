"""Reads the questions of VDC as distributed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...rows import BadRow, Row, read_rows


def questions(folder: Path, file: str) -> Iterator[Row | BadRow]:
    """Yield the videos with their questions, each with its answer on the next line.

    Of two lines about one video the last counts, as in released code. A pair without a question is passed over: three
    of the released ones are blank.

    Args:
        folder: Holds the file.
        file: Lines of ``{video: [{question, answer, category}, ...]}``.

    Yields:
        ``video`` (its name) and ``references``; a ``BadRow`` for an entry that cannot be used.

    Raises:
        DataError: The file is missing or cannot be read.
    """
    of_video: dict[str, Any] = {}
    for row in read_rows(folder / file):
        if isinstance(row, BadRow):
            yield row
        else:
            of_video |= row
    for video, pairs in of_video.items():
        try:
            asked = [(" ".join(pair["question"].split()), pair["answer"].strip()) for pair in pairs]
        except (AttributeError, KeyError, TypeError):
            yield BadRow(f"{file}: {video}", "is not a list of {question, answer}")
        else:
            yield {"video": video, "references": [f"{question}\n{answer}" for question, answer in asked if question]}
