"""Captions that were recorded elsewhere, served as if a model wrote them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import AdapterError
from ...rows import BadRow, Row, read_rows
from ..contracts import Caption, Captioned, Captioner, CaptionRequest
from ..images.file_digests import RecordedFile

_IMAGE_COLUMNS = ("image_id", "image")
_ID_COLUMNS = ("id", "question_id", *_IMAGE_COLUMNS)
_CAPTION_COLUMNS = ("caption", "candidate", "response", "prediction", "answer")


@dataclass(slots=True)
class _RecordedRow:
    caption: Any
    image: str | None = None
    """The image of a row that has an id, too."""
    is_claimed: bool = False


class RecordedCaptions(RecordedFile, Captioner):
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

    adapter = "captions"
    keep = False

    def __init__(self, path: str | Path, name: str | None = None, subset: bool = False) -> None:
        super().__init__(path, name)
        self.subset = subset
        self._by_id: dict[str, _RecordedRow] = {}
        self._by_image: dict[str, _RecordedRow] = {}
        self._images_beside: set[str | None] = set()
        self.bad_rows = self._read()

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        """Yield the recorded caption of each request, unchanged; null is an empty caption.

        Raises:
            AdapterError: A row's id and its image belong to different documents.
        """
        captions: dict[int, Caption] = {}
        for at, request in enumerate(requests):
            if (row := self._row_of(request)) is not None:
                row.is_claimed = True
                captions[at] = Caption(row.caption)
        absent = frozenset(range(len(requests))) - captions.keys()
        yield Captioned(captions, absent=absent)

    def unclaimed(self) -> list[str]:
        """Return the ids of rows that no request has used, in the file's order."""
        rows = [*self._by_id.items(), *self._by_image.items()]
        return [name for name, row in rows if not row.is_claimed]

    def _row_of(self, request: CaptionRequest) -> _RecordedRow | None:
        """Return the row of a request's caption.

        A document is found by its id, else by its image; where it has its own name, each may be called as the
        other. The number of a document is no image. An image is an id only where the file declares it.

        Raises:
            AdapterError: The id matches the row, but the row's image belongs to another document.
        """
        # Encoded images are no names, and large.
        image = str(request.image) if isinstance(request.image, str | int | Path) else None
        name = None if request.numbered else request.id
        by_id = request.id
        if by_id not in self._by_id:
            for key in (image, name):
                if key in self._by_image:
                    return self._by_image[key]
            if image is None or image not in self._by_id or (request.numbered and (not image or image.isdigit())):
                return None
            by_id = image
        row = self._by_id[by_id]
        own = {image, name} - {None}
        if row.image is not None and row.image not in own and (others := own & self._images_beside):
            raise AdapterError(
                f"{self.path}: of the row with id '{by_id}' and image '{row.image}', the id is that of "
                f"document '{request.id}', whose image is '{next(iter(others))}' in another row",
                "Remove the column that does not name the task's documents, such as ids of annotations.",
            )
        return row

    def _read(self) -> list[BadRow]:
        bad_rows: list[BadRow] = []
        for number, row in enumerate(read_rows(self.path), 1):
            if isinstance(row, BadRow):
                bad_rows.append(row)
                continue
            if row.keys() == {"key", "value"}:
                # A JSON object of texts.
                row = {"id": row["key"], "caption": row["value"]}
            named_by = _first(row, _ID_COLUMNS)
            key = row[named_by] if named_by else None
            column = _first(row, _CAPTION_COLUMNS, nullable=True)
            if key is None or column is None:
                reason = f"has no id or no caption; its columns are {', '.join(row)}"
            elif not isinstance(key, str | int):
                reason = f"the id {key!r} is neither text nor a whole number"
            elif self._add(str(key), row[column], row, is_image=named_by in _IMAGE_COLUMNS):
                continue
            else:
                reason = f"a second caption for '{key}'"
            bad_rows.append(BadRow(f"{self.path.name}: row {number}", reason))
        if not self._by_id and not self._by_image:
            faults = "".join(f"\n{bad.place}: {bad.reason}" for bad in bad_rows[:5])
            raise AdapterError(
                f"{self.path}: no caption could be read{faults}",
                f"A row needs one of {', '.join(_ID_COLUMNS)} and one of {', '.join(_CAPTION_COLUMNS)}.",
            )
        return bad_rows

    def _add(self, key: str, caption: Any, row: Row, *, is_image: bool) -> bool:
        """Keep the caption of a row; return False where there is one of that name."""
        rows = self._by_image if is_image else self._by_id
        if key in rows:
            return False
        rows[key] = kept = _RecordedRow(caption)
        column = None if is_image else _first(row, _IMAGE_COLUMNS)
        if column and isinstance(row[column], str | int):
            kept.image = str(row[column])
            self._images_beside.add(kept.image)
        return True


def _first(row: Row, columns: Sequence[str], *, nullable: bool = False) -> str | None:
    """Return the first of some columns that a row has a value in, or null where that is one."""
    # A loop, as generators are slower: a file may have millions of rows.
    for column in columns:
        if row.get(column) is not None or (nullable and column in row):
            return column
    return None
