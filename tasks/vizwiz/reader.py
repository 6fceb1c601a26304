"""Reads VizWiz-Captions as distributed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...rows import BadRow, Row
from ..coco.reader import read_captions


def described(folder: Path, file: str = "annotations/val.json") -> Iterator[Row | BadRow]:
    """Yield images with the captions that the released evaluation uses.

    It passes over captions that were rejected as spam, and the ready-made one which says that the image is too
    poor to be described. An image that has no other caption is yielded with an empty list of references: it is
    counted, and cannot be scored.

    Args:
        folder: Holds the file.
        file: The annotations.

    Yields:
        ``id``, ``image`` (its file's name) and ``references``; a ``BadRow`` for an entry that cannot be used.

    Raises:
        DataError: The file is missing or not of its format.
    """

    def is_description(annotation: Mapping[str, Any]) -> bool:
        return not (annotation.get("is_rejected") or annotation.get("is_precanned"))

    captioned = read_captions(folder / file, "'bench data vizwiz' lists the files.", is_description)
    yield from captioned.bad_rows
    for identity, entry in captioned.images.items():
        yield {"id": str(identity), "image": entry["file_name"], "references": captioned.captions[identity]}
