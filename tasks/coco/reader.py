"""Reads COCO 2014 as distributed, and the part of it that Karpathy's split takes for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...rows import BadRow, Row
from ..json_array import members
from .annotations import identity_of, read_captions, read_objects, require_file

KARPATHY = "dataset_coco.json"
_HINT = "'bench data coco_chair' and 'bench data coco_chair_val2014' list the files."


def karpathy(folder: Path, split: str = "test", instances: str | None = None) -> Iterator[Row | BadRow]:
    """Yield the images of a part of Karpathy's split, with all of their captions.

    Args:
        folder: Holds ``dataset_coco.json``.
        split: ``test``, ``val``, ``train`` or ``restval``.
        instances: File with the marked objects, for tasks that need them: ``objects`` of an image.

    Yields:
        ``id`` (COCO's), ``image`` (its file's name), ``references`` and, if asked for, ``objects``; a
        ``BadRow`` for an entry that cannot be used.

    Raises:
        DataError: A file is missing or not of its format.
    """
    rows: dict[int, Row] = {}
    require_file(folder / KARPATHY, _HINT)
    number = -1
    for kind, entry in members(folder / KARPATHY):
        if kind != "images":
            continue
        number += 1
        if not isinstance(entry, dict) or not isinstance(entry.get("split"), str):
            yield BadRow(f"{KARPATHY}[{number}]", "has no split")
        elif entry["split"] == split:
            identity, references = identity_of(entry, "cocoid"), _sentences(entry)
            if identity is None or references is None or not isinstance(entry.get("filename"), str):
                yield BadRow(f"{KARPATHY}[{number}]", "has no cocoid, filename and sentences with raw text")
            else:
                rows[identity] = _row(identity, entry["filename"], references)
    yield from _with_objects(rows, folder, instances)


def val2014(
    folder: Path,
    captions: str = "annotations/captions_val2014.json",
    instances: str = "annotations/instances_val2014.json",
) -> Iterator[Row | BadRow]:
    """Yield all images of a file of captions, such as that of val2014; columns as in ``karpathy``.

    Args:
        folder: Holds the files.
        captions: File with the captions.
        instances: File with the marked objects.

    Raises:
        DataError: A file is missing or not of its format.
    """
    found = read_captions(folder / captions, _HINT)
    yield from found.bad_rows
    rows = {
        identity: _row(identity, entry["file_name"], found.captions[identity])
        for identity, entry in found.images.items()
    }
    yield from _with_objects(rows, folder, instances)


def _row(identity: int, image: str, references: list[str]) -> Row:
    return {"id": str(identity), "image": image, "references": references}


def _with_objects(rows: dict[int, Row], folder: Path, instances: str | None) -> Iterator[Row | BadRow]:
    """Yield rows, with the objects of their images if a file of these is named."""
    if instances is None:
        yield from rows.values()
        return
    objects, bad_rows = read_objects(folder / instances, rows, _HINT)
    yield from bad_rows
    for identity, row in rows.items():
        # An image that the file does not know has unknown objects, not none.
        if identity in objects:
            yield {**row, "objects": objects[identity]}
        else:
            yield BadRow(f"image {identity}", f"is not among the images of {Path(instances).name}")


def _sentences(entry: dict[str, Any]) -> list[str] | None:
    sentences = entry.get("sentences")
    if not isinstance(sentences, list):
        return None
    texts: list[Any] = [one.get("raw") if isinstance(one, dict) else None for one in sentences]
    return texts if all(isinstance(text, str) for text in texts) else None
