"""Captions that were recorded elsewhere, served as if a model wrote them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import AdapterError
from ...rows import BadRow, read_rows
from ..contracts import Captioner, CaptionRequest

_IMAGE_COLUMNS = ("image_id", "image")
_ID_COLUMNS = ("id", *_IMAGE_COLUMNS)
_CAPTION_COLUMNS = ("caption", "candidate", "response", "prediction")


class RecordedCaptions(Captioner):
    """Serves captions from a file: jsonl, json, csv, tsv, or COCO's result format.

    A row names its document by ``id``, ``image_id`` or ``image`` and holds the text in ``caption``,
    ``candidate``, ``response`` or ``prediction``. COCO's result format (a list of ``image_id`` and
    ``caption``) is one of these. Where a task names no ids, a whole number in ``id`` is a document's number,
    counted from 0, and one in ``image_id`` or ``image`` is the name of its image.

    Of two captions for one id the first is served; the second is one of ``bad_rows``.

    Args:
        path: The file.
        name: How the captions are called in results; the file's name unless given.

    Raises:
        AdapterError: No row has such columns, or none is readable.
        DataError: The file is missing or unreadable.
    """

    batch_size = 1024
    keep = False

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        self.path = Path(path).expanduser()
        self.name = name or self.path.stem
        self._by_id: dict[str, str | None] = {}
        self._by_image: dict[str, str | None] = {}
        self._claimed: set[str] = set()
        self.bad_rows = self._read()

    def fingerprint(self) -> dict[str, Any]:
        """Return the hash of the file; two copies of one file are one model."""
        return {"adapter": "captions", "sha256": hashlib.sha256(self.path.read_bytes()).hexdigest()}

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str | None]:
        """Return the recorded caption of each request; None where the file has none."""
        return [self._recorded(request) for request in requests]

    def unclaimed(self) -> list[str]:
        """Return the ids of rows that no request has asked for, in the file's order."""
        return [key for key in (*self._by_id, *self._by_image) if key not in self._claimed]

    def _recorded(self, request: CaptionRequest) -> str | None:
        # Encoded images are no names, and large.
        image = str(request.image) if isinstance(request.image, str | int | Path) else None
        places = [(self._by_id, request.id), (self._by_image, image)]
        if request.numbered:
            # A number could be either: it is an image only where the file says so.
            places += [(self._by_id, image)] if image and not image.isdigit() else []
        else:
            places += [(self._by_image, request.id), (self._by_id, image)]
        for captions, key in places:
            if key is not None and key in captions:
                self._claimed.add(key)
                return captions[key]
        return None

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
                continue
            bad_rows.append(BadRow(f"{self.path.name}: row {number}", reason))
        if not self._by_id and not self._by_image:
            faults = "".join(f"\n{bad.place}: {bad.reason}" for bad in bad_rows[:5])
            raise AdapterError(
                f"{self.path}: no caption could be read{faults}",
                f"A row needs one of {', '.join(_ID_COLUMNS)} and one of {', '.join(_CAPTION_COLUMNS)}.",
            )
        return bad_rows
