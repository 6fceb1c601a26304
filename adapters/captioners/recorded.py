"""Captions that were recorded elsewhere, served as if a model wrote them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import AdapterError
from ...named_rows import NamedRows, SeenNames
from ...rows import BadRow, Row, read_rows
from ..contracts import Caption, Captioned, Captioner, CaptionRequest

_IMAGE_COLUMNS = ("image_id", "image")
_ID_COLUMNS = ("id", "question_id", *_IMAGE_COLUMNS)
_CAPTION_COLUMNS = ("caption", "candidate", "response", "prediction", "answer")


class RecordedCaptions(Captioner):
    """Serves captions from a file: jsonl, json, csv, tsv, or COCO's result format.

    A row names its document by ``id``, ``question_id``, ``image_id`` or ``image`` and holds the text in ``caption``,
    ``candidate``, ``response``, ``prediction`` or ``answer``. COCO's result format (a list of ``image_id`` and
    ``caption``) is one of these. Where a task names no ids, a whole number in ``id`` is a document's number,
    counted from 0, and one in ``image_id`` or ``image`` is the name of its image. A JSON object of captions, such as
    ``{"1.jpg": "a dog"}``, is read by its keys.

    Of two captions for one id the first is served; the second is one of ``bad_rows``. A row that has an id and an image
    is found by its id; where the image is that of another document, one of the two is no name of the task's.

    Args:
        path: The file.
        name: How the captions are called in results; the file's name unless given.
        subset: Whether they are meant to be of a part of the documents alone; else a run needs all of them.

    Raises:
        AdapterError: No row has such columns, or none is readable.
        DataError: The file is missing or unreadable.
    """

    keep = False

    def __init__(self, path: str | Path, name: str | None = None, subset: bool = False) -> None:
        self.path = Path(path).expanduser()
        self.name = name or self.path.stem
        self.subset = subset
        # Of a row with an id: its caption, and the image beside it or None.
        self._by_id = NamedRows()
        self._by_image = NamedRows()
        self._images_beside = SeenNames()
        self.bad_rows = self._read()
        self._claimed = [np.zeros(len(rows), dtype=bool) for rows in (self._by_id, self._by_image)]

    def fingerprint(self) -> dict[str, Any]:
        """Return the hash of the file; two copies of one file are one model."""
        return {"adapter": "captions", "sha256": self._digest}

    @cached_property
    def _digest(self) -> str:
        # It is asked for with each shard.
        with self.path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        """Give the recorded caption of each request, as it stands in the file; a null is one that says nothing.

        Raises:
            AdapterError: A row's id is of one document, and the image beside it of another.
        """
        captions: dict[int, Caption] = {}
        by_id, by_image = self._claimed
        for at, (row, image_row) in enumerate(zip(*self._places(requests), strict=True)):
            if row >= 0:
                caption, beside = self._by_id.value(row)
                self._require_one_document(requests[at], row, beside)
                by_id[row] = True
                captions[at] = Caption(caption)
            elif image_row >= 0:
                by_image[image_row] = True
                captions[at] = Caption(self._by_image.value(image_row))
        absent = frozenset(range(len(requests))) - captions.keys()
        yield Captioned(captions, absent=absent)

    def unclaimed(self) -> list[str]:
        """Return the ids of rows that no request has asked for, in the file's order."""
        return [
            rows.name(row)
            for rows, claimed in zip((self._by_id, self._by_image), self._claimed, strict=True)
            for row in np.flatnonzero(~claimed).tolist()
        ]

    def _require_one_document(self, request: CaptionRequest, row: int, beside: str | None) -> None:
        """Raise if the image beside an id is not the request's, and that of another row is."""
        own = {_image_name(request), None if request.numbered else request.id} - {None}
        if beside is None or beside in own:
            return
        if other := next((name for name in own if name is not None and name in self._images_beside), None):
            raise AdapterError(
                f"{self.path}: of the row with id '{self._by_id.name(row)}' and image '{beside}', the id is that of "
                f"document '{request.id}', whose image is '{other}' in another row",
                "Remove the column that does not name the task's documents: ids of annotations, say.",
            )

    def _places(self, requests: Sequence[CaptionRequest]) -> tuple[list[int], list[int]]:
        """Return for each request the row of its id, and that of its image; -1 where another is its caption's.

        A document is found by its id, else by its image; where it has a name of its own, each may be called as the
        other. The number of a document is no image, and an image is an id only where the file says so.
        """
        images = [_image_name(request) for request in requests]
        names = [None if request.numbered else request.id for request in requests]
        as_ids = [
            None if request.numbered and (not image or image.isdigit()) else image
            for request, image in zip(requests, images, strict=True)
        ]
        found = [
            self._by_id.find(request.id for request in requests),
            self._by_image.find(images),
            self._by_image.find(names),
            self._by_id.find(as_ids),
        ]
        first = np.argmax(np.stack([*(rows >= 0 for rows in found), np.ones(len(requests), bool)]), axis=0)
        by_id = np.select([first == 0, first == 3], [found[0], found[3]], -1)
        by_image = np.select([first == 1, first == 2], [found[1], found[2]], -1)
        return by_id.tolist(), by_image.tolist()

    def _read(self) -> list[BadRow]:
        bad_rows: list[BadRow] = []
        for number, row in enumerate(read_rows(self.path), 1):
            if isinstance(row, BadRow):
                bad_rows.append(row)
                continue
            if row.keys() == {"key", "value"}:
                # A JSON object of texts.
                row = {"id": row["key"], "caption": row["value"]}
            named_by = _first_known(row, _ID_COLUMNS)
            key = row[named_by] if named_by else None
            column = _first(row, _CAPTION_COLUMNS)
            if key is None or column is None:
                reason = f"has no id or no caption; its columns are {', '.join(row)}"
            elif not isinstance(key, str | int):
                reason = f"the id {key!r} is neither text nor a whole number"
            elif self._add(str(key), row[column], row, is_image=named_by in _IMAGE_COLUMNS):
                continue
            else:
                reason = f"a second caption for '{key}'"
            bad_rows.append(BadRow(f"{self.path.name}: row {number}", reason))
        if not len(self._by_id) and not len(self._by_image):
            faults = "".join(f"\n{bad.place}: {bad.reason}" for bad in bad_rows[:5])
            raise AdapterError(
                f"{self.path}: no caption could be read{faults}",
                f"A row needs one of {', '.join(_ID_COLUMNS)} and one of {', '.join(_CAPTION_COLUMNS)}.",
            )
        return bad_rows

    def _add(self, key: str, caption: Any, row: Row, *, is_image: bool) -> bool:
        """Keep the caption of a row; return False where there is one of that name."""
        if is_image:
            return self._by_image.add(key, caption)
        column = _first_known(row, _IMAGE_COLUMNS)
        found = row[column] if column else None
        beside = str(found) if isinstance(found, str | int) else None
        is_new = self._by_id.add(key, [caption, beside])
        if is_new and beside is not None and beside not in self._images_beside:
            self._images_beside.add(beside)
        return is_new


# Loops, as generators take longer than what they do: a file may have millions of rows.
def _first(row: Row, columns: Sequence[str]) -> str | None:
    """Return the first of some columns that a row has."""
    for column in columns:
        if column in row:
            return column
    return None


def _first_known(row: Row, columns: Sequence[str]) -> str | None:
    """Return the first of some columns that a row has a value in."""
    for column in columns:
        if row.get(column) is not None:
            return column
    return None


def _image_name(request: CaptionRequest) -> str | None:
    # Encoded images are no names, and large.
    return str(request.image) if isinstance(request.image, str | int | Path) else None
