"""Captions that were recorded elsewhere, served as if a model wrote them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import AdapterError
from ..rows import BadRow, read_rows
from .contracts import Captioner, CaptionRequest

_ID_COLUMNS = ("id", "image_id", "image")
_CAPTION_COLUMNS = ("caption", "candidate", "response", "prediction")


class RecordedCaptions(Captioner):
    """Serves captions from a file: jsonl, json, csv, tsv, or COCO's result format.

    A row names its document by ``id``, ``image_id`` or ``image`` and holds the text in ``caption``,
    ``candidate``, ``response`` or ``prediction``. COCO's result format (a list of ``image_id`` and
    ``caption``) is one of these.

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
        self._captions, self.bad_rows = self._read()

    def fingerprint(self) -> dict[str, Any]:
        """Return the hash of the file; two copies of one file are one model."""
        return {"adapter": "captions", "sha256": hashlib.sha256(self.path.read_bytes()).hexdigest()}

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str | None]:
        """Return the recorded caption of each request; None where the file has none."""
        return [next(self._recorded(request), None) for request in requests]

    def _recorded(self, request: CaptionRequest) -> Iterator[str | None]:
        if request.id in self._captions:
            yield self._captions[request.id]
        # Encoded images are no names, and large.
        if isinstance(request.image, str | int | Path) and str(request.image) in self._captions:
            yield self._captions[str(request.image)]

    def _read(self) -> tuple[dict[str, str | None], list[BadRow]]:
        captions: dict[str, str | None] = {}
        bad_rows: list[BadRow] = []
        for number, row in enumerate(read_rows(self.path), 1):
            if isinstance(row, BadRow):
                bad_rows.append(row)
                continue
            key = next((row[column] for column in _ID_COLUMNS if row.get(column) is not None), None)
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
        if not captions:
            faults = "".join(f"\n{bad.place}: {bad.reason}" for bad in bad_rows[:5])
            raise AdapterError(
                f"{self.path}: no caption could be read{faults}",
                f"A row needs one of {', '.join(_ID_COLUMNS)} and one of {', '.join(_CAPTION_COLUMNS)}.",
            )
        return captions, bad_rows
