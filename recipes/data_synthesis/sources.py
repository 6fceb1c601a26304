"""Input of pipelines: a folder of images, a table, a DCI folder, or a task's documents."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ...adapters import ImageHandle
from ...adapters.images.handles import digests, image_suffix
from ...atomic_files import write_whole
from ...boundary import Boundary
from ...errors import DataError, UsageError
from ...rows import SUFFIXES, BadRow, load_json, no_such_file, read_rows
from ...tasks.index import build_index
from ...tasks.locate import DataLocations
from ..training.rows import image_fault, no_rows, only_task, walked
from .contract import PipelineRow

IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
_DCI = ("image", "short_caption", "extra_caption", "mask_data", "mask_keys")
"""Values of a DCI annotation that are input; the others are made by stages."""
_AT_ONCE = 1_024
"""Rows whose images are hashed together."""


@dataclass
class SourceRows:
    """The input rows of a pipeline.

    Attributes:
        name: The source.
        entries: Rows and unusable rows.
        limit: The maximum number of rows; None: all.
        left_out: Place to the reason, of unusable rows; it fills as rows are read.
    """

    name: str
    entries: Iterable[PipelineRow | BadRow]
    limit: int | None = None
    left_out: dict[str, str] = field(default_factory=dict[str, str])

    def rows(self) -> Iterator[PipelineRow]:
        """Yield the rows as they are read, once.

        Raises:
            BenchError: No row can be used.
        """
        seen: set[str] = set()
        for row in self.entries:
            if isinstance(row, BadRow):
                self.left_out[row.place] = row.reason
            elif row.id in seen:
                self.left_out[row.id] = "has an id that occurred before; the first one was kept"
            else:
                seen.add(row.id)
                yield row
        if not seen:
            raise no_rows(f"{self.name}: no row can be used", self.left_out)


def read_input(
    data: str,
    output: Path | None,
    *,
    limit: int | None = None,
    include_path: Sequence[str | Path] = (),
    allow_outside: Sequence[str | Path] = (),
) -> SourceRows:
    """Open the input of a pipeline; images are not decoded.

    Args:
        data: A folder, a file or the name of a task.
        output: Where generated images are written as files; None (in a dry run) leaves them out of the rows.
        limit: The maximum number of rows.
        include_path: Folders with user-defined task files.
        allow_outside: Additional folders whose files tasks may read.

    Raises:
        BenchError: There is no such folder, file or task.
    """
    path = Path(data).expanduser()
    if path.is_dir():
        rows = _of_dci(path) if (path / "splits.json").is_file() else _of_images(path)
    elif path.is_file():
        rows = _of_table(path)
    elif path.suffix in SUFFIXES or "/" in data:
        raise DataError(no_such_file(path))
    else:
        rows = _of_task(data, output, include_path, allow_outside)
    return SourceRows(data, islice(rows, limit), limit)


def with_digests(rows: Iterable[PipelineRow]) -> Iterator[PipelineRow]:
    """Yield rows with the digests of their images; of an unreadable image its name, as stages report it."""
    left = iter(rows)
    while some := list(islice(left, _AT_ONCE)):
        images = [row.image for row in some if row.image is not None]
        by_image = dict(zip(images, digests([ImageHandle(image) for image in images]), strict=True))
        for row in some:
            if row.image is None:
                yield row
            else:
                digest = by_image[row.image]
                known = digest if isinstance(digest, str) else f"unreadable: {row.image.name}"
                yield replace(row, image_digest=known)


def _of_images(folder: Path) -> Iterator[PipelineRow | BadRow]:
    """Yield a row per image, in the order of names; the id is the path in the folder, without the suffix."""
    boundary, whole = Boundary.around(folder), folder.absolute()
    for path in _files(whole):
        if path.suffix.lower() in IMAGES:
            name, fault = path.relative_to(whole), image_fault(path, boundary)
            yield BadRow(name.as_posix(), fault) if fault else PipelineRow(name.with_suffix("").as_posix(), path)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in the order of their paths."""
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names take the least memory
        path = folder / name
        if path.is_dir():
            yield from () if path.is_symlink() else _files(path)
        else:
            yield path


def _of_table(path: Path) -> Iterator[PipelineRow | BadRow]:
    """Yield the rows of a table: ``id``, ``image`` (a path relative to the file), and all other columns as values."""
    boundary = Boundary.around(path)
    for number, row in enumerate(read_rows(path)):
        if isinstance(row, BadRow):
            yield row
            continue
        values = {key: value for key, value in row.items() if key not in ("id", "image", "provenance")}
        identity, name = str(row.get("id", number)), row.get("image")
        if name is not None and not isinstance(name, str):
            yield BadRow(identity, f"is no path of an image: {name!r:.60}")
            continue
        image = None if name is None else (path.parent / Path(name).expanduser()).absolute()
        if image is not None and (fault := image_fault(image, boundary)):
            yield BadRow(identity, fault)
            continue
        provenance = row.get("provenance") or ()
        yield PipelineRow(identity, image, values, tuple(provenance) if isinstance(provenance, list) else ())


def _of_dci(folder: Path) -> Iterator[PipelineRow | BadRow]:
    """Yield a row per image of DCI, with the annotators' texts on it and its masks."""
    boundary = Boundary.around(folder)
    splits = load_json(folder / "splits.json")
    for name in dict.fromkeys(name for names in splits.values() for name in names):
        try:
            content = load_json(folder / "complete" / name)
        except DataError as error:
            yield BadRow(name, error.message)
            continue
        missing = [key for key in ("image", "mask_data") if key not in content]
        if missing:
            yield BadRow(name, f"has no {missing[0]}")
            continue
        photo = (folder / "photos" / content["image"]).absolute()
        if fault := image_fault(photo, boundary):
            yield BadRow(name, fault)
            continue
        yield PipelineRow(Path(name).stem, photo, {key: content[key] for key in _DCI if key in content})


def _of_task(
    name: str, output: Path | None, include_path: Sequence[str | Path], allow_outside: Sequence[str | Path]
) -> Iterator[PipelineRow | BadRow]:
    """Yield a row per document, with its ``references`` and ``boxes`` if the task has them; or one per entry of it.

    Those of an image's entries have ``captions``, the ``box`` of the entry's crop, or null, and the image's id as
    ``group``.
    """
    try:
        task, path = only_task(build_index(include_path), name, "--data")
    except UsageError as error:
        raise UsageError(f"--data {name}: not a folder, a file or a task: {error.message}", error.hint) from error
    locations = DataLocations.from_environment({}, allow_outside)
    for row in walked(task, path, locations, "doc_to_target", "doc_to_boxes", "doc_to_entries"):
        if isinstance(row, BadRow):
            yield row
            continue
        identity, document, image = row
        values: dict[str, Any] = {}
        if "doc_to_target" in document:
            target = document["doc_to_target"]
            values["references"] = list(target) if isinstance(target, list | tuple) else [target]
        if "doc_to_boxes" in document:
            values["boxes"] = [list(map(float, box)) for box in document["doc_to_boxes"]]
        try:
            file = _file_of(image, identity, output) if image else None
        except OSError as error:
            yield BadRow(identity, str(error))
            continue
        if "doc_to_entries" not in document:
            yield PipelineRow(identity, file, values)
        for at, entry in enumerate(document.get("doc_to_entries", ())):
            of_entry = {"captions": entry.get("captions"), "box": entry.get("box"), "group": identity}
            yield PipelineRow(f"{identity}|{entry.get('key', at)}", file, of_entry)


def _file_of(handle: ImageHandle, identity: str, output: Path | None) -> Path | None:
    """Return the file of an image; an image in memory is written first."""
    if isinstance(handle.source, Path):
        return handle.source.absolute()
    if output is None:
        return None
    encoded = handle.encoded()
    path = output / "images" / f"{file_name(identity)}{image_suffix(encoded)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_bytes() != encoded:
        write_whole(path, encoded)
    return path.absolute()


def file_name(identity: str) -> str:
    """Return a file name for a row's id; unsafe characters are escaped, so that names stay distinct."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else f"%{ord(letter):x}" for letter in identity)
    return safe if safe.strip(".") else f"%{safe}"
