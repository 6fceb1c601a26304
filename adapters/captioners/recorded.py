"""Captions that were recorded elsewhere, served as if a model wrote them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import AdapterError
from ...rows import BadRow, read_rows
from ..contracts import Caption, Captioned, Captioner, CaptionRequest

_IMAGE_COLUMNS = ("image_id", "image")
_ID_COLUMNS = ("id", *_IMAGE_COLUMNS)
_CAPTION_COLUMNS = ("caption", "candidate", "response", "prediction")


class RecordedCaptions(Captioner):
    """Serves captions from a file: jsonl, json, csv, tsv, or COCO's result format.

    A row names its document by ``id``, ``image_id`` or ``image`` and holds the text in ``caption``,
    ``candidate``, ``response`` or ``prediction``. COCO's result format (a list of ``image_id`` and
    ``caption``) is one of these. Where a task names no ids, a whole number in ``id`` is a document's number,
    counted from 0, and one in ``image_id`` or ``image`` is the name of its image.

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
        self._by_id: dict[str, Any] = {}
        self._by_image: dict[str, Any] = {}
        self._image_beside: dict[str, str] = {}
        self._claimed: set[str] = set()
        self.bad_rows = self._read()

    def fingerprint(self) -> dict[str, Any]:
        """Return the hash of the file; two copies of one file are one model."""
        return {"adapter": "captions", "sha256": hashlib.sha256(self.path.read_bytes()).hexdigest()}

    def stream(
        self, requests: Sequence[CaptionRequest], batch_size: int | None = None
    ) -> Iterator[Captioned]:
        """Give the recorded caption of each request, as it stands in the file; a null is one that says nothing.

        Raises:
            AdapterError: A row's id is of one document, and the image beside it of another.
        """
        captions: dict[int, Caption] = {}
        for at, request in enumerate(requests):
            if (place := self._place(request)) is not None:
                recorded, key = place
                if recorded is self._by_id:
                    self._require_one_document(request, key)
                self._claimed.add(key)
                captions[at] = Caption(recorded[key])
        absent = frozenset(range(len(requests))) - captions.keys()
        yield Captioned(captions, absent=absent)

    def unclaimed(self) -> list[str]:
        """Return the ids of rows that no request has asked for, in the file's order."""
        return [key for key in (*self._by_id, *self._by_image) if key not in self._claimed]

    @cached_property
    def _images_beside(self) -> frozenset[str]:
        return frozenset(self._image_beside.values())

    def _require_one_document(self, request: CaptionRequest, key: str) -> None:
        """Raise if the image beside an id is not the request's, and that of another row is."""
        own = {_image_name(request)} | (set[str]() if request.numbered else {request.id})
        beside = self._image_beside.get(key)
        if beside is None or beside in own or not (others := own & self._images_beside):
            return
        raise AdapterError(
            f"{self.path}: of the row with id '{key}' and image '{beside}', the id is that of document "
            f"'{request.id}', whose image is '{others.pop()}' in another row",
            "Remove the column that does not name the task's documents: ids of annotations, say.",
        )

    def _place(self, request: CaptionRequest) -> tuple[Mapping[str, Any], str] | None:
        """Return where the caption of a request stands, and under which key; None if nowhere."""
        image = _image_name(request)
        places = [(self._by_id, request.id), (self._by_image, image)]
        if request.numbered:
            # A number could be either: it is an image only where the file says so.
            places += [(self._by_id, image)] if image and not image.isdigit() else []
        else:
            places += [(self._by_image, request.id), (self._by_id, image)]
        return next(
            ((captions, key) for captions, key in places if key is not None and key in captions), None
        )

    def _read(self) -> list[BadRow]:
        bad_rows: list[BadRow] = []
        for number, row in enumerate(read_rows(self.path), 1):
            if isinstance(row, BadRow):
                bad_rows.append(row)
                continue
            named_by = next((column for column in _ID_COLUMNS if row.get(column) is not None), None)
            key = row[named_by] if named_by else None
            captions = self._by_image if named_by in _IMAGE_COLUMNS else self._by_id
            column = next((column for column in _CAPTION_COLUMNS if column in row), None)
            if key is None or column is None:
                reason = f"has no id or no caption; its columns are {', '.join(row)}"
            elif not isinstance(key, str | int):
                reason = f"the id {key!r} is neither text nor a whole number"
            elif str(key) in captions:
                reason = f"a second caption for '{key}'"
            else:
                captions[str(key)] = row[column]
                beside = next((row[one] for one in _IMAGE_COLUMNS if row.get(one) is not None), None)
                if captions is self._by_id and isinstance(beside, str | int):
                    self._image_beside[str(key)] = str(beside)
                continue
            bad_rows.append(BadRow(f"{self.path.name}: row {number}", reason))
        if not self._by_id and not self._by_image:
            faults = "".join(f"\n{bad.place}: {bad.reason}" for bad in bad_rows[:5])
            raise AdapterError(
                f"{self.path}: no caption could be read{faults}",
                f"A row needs one of {', '.join(_ID_COLUMNS)} and one of {', '.join(_CAPTION_COLUMNS)}.",
            )
        return bad_rows


def _image_name(request: CaptionRequest) -> str | None:
    # Encoded images are no names, and large.
    return str(request.image) if isinstance(request.image, str | int | Path) else None
