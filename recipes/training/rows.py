"""What is trained on: images with captions, and what belongs to them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...adapters import Box, EncodedImage, ImageHandle
from ...benchmarks.inputs.pixels import PixelFinder, boxes_fault, boxes_of, pixels_value
from ...boundary import HINT, OUTSIDE, Boundary
from ...errors import DataError, UsageError, did_you_mean
from ...rows import BadRow, read_rows
from ...tasks.documents import load_documents
from ...tasks.index import build_index
from ...tasks.locate import DataLocations
from ...tasks.schema import TaskConfig, load_task
from ...tasks.sources import load_source
from ...tasks.templates import DocumentError, compile_template
from .schema import LoadedRecipe, Source, named_file

KEYS = ("id", "image", "box", "group", "captions", "negatives", "further_images", "further_captions")
TOLD = ("provenance",)
"""Keys that say where a row comes from, and are not trained on."""


@dataclass(frozen=True)
class TrainingRow:
    """An image, or a part of one, with texts.

    Attributes:
        id: Its name in messages.
        image: Not decoded.
        group: What rows of one image have in common.
        captions: True texts; none where a trainer needs none.
        negatives: False ones.
        further_images: Other images that show the same, such as generated ones.
        further_captions: Other true texts, such as generated ones.
    """

    id: str
    image: ImageHandle
    group: str
    captions: tuple[str, ...]
    negatives: tuple[str, ...] = ()
    further_images: tuple[ImageHandle, ...] = ()
    further_captions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rows:
    """All rows of a source.

    Attributes:
        rows: In order.
        left_out: Place to the reason, of what could not be used.
    """

    rows: Sequence[TrainingRow]
    left_out: Mapping[str, str]

    def counts(self) -> dict[str, int]:
        """Return how many of what there are."""
        return {
            "rows": len(self.rows),
            "images": len({row.group for row in self.rows}),
            "captions": sum(len(row.captions) for row in self.rows),
            "negatives": sum(len(row.negatives) for row in self.rows),
            "further images": sum(len(row.further_images) for row in self.rows),
            "further captions": sum(len(row.further_captions) for row in self.rows),
            "left out": len(self.left_out),
        }

    def digest(self) -> str:
        """Return a hash of all names, boxes and texts; not of pixels, nor of the folder that all files lie in."""
        total = hashlib.sha256()
        shown = [(row.image, *row.further_images) for row in self.rows]
        files = [one.source.absolute() for row in shown for one in row if isinstance(one.source, Path)]
        folder = os.path.commonpath([file.parent for file in files]) if files else ""
        groups: dict[str, int] = {}
        for row, images in zip(self.rows, shown, strict=True):
            texts = [row.captions, row.negatives, row.further_captions]
            # A group may be called by the path of its image.
            group = groups.setdefault(row.group, len(groups))
            content = [row.id, [_name_below(one, folder) for one in images], group, *texts]
            total.update(json.dumps(content).encode())
        return total.hexdigest()


def _name_below(image: ImageHandle, folder: str) -> list[Any]:
    """Return what tells an image from others: the path of a file from a folder, or its name; and its box."""
    source = image.source
    return [os.path.relpath(source, folder) if isinstance(source, Path) else image.name, image.box]


class _Unusable(Exception):  # noqa: N818 - of a row, which is left out by name
    pass


def collect(given: Iterable[Any], origin: str, folder: Path) -> Rows:
    """Return rows made of mappings with ``KEYS``; those that cannot be used are left out by name.

    Args:
        given: Mappings, or rows that could not be read.
        origin: Where they come from, for messages.
        folder: Where images lie that are named by a path; what leads out of it needs ``--allow_outside``.

    Raises:
        DataError: None can be used, or a key is not known.
    """
    rows: dict[str, TrainingRow] = {}
    left_out: dict[str, str] = {}
    boundary = Boundary.around(folder)
    for number, one in enumerate(given):
        name = str(one.get("id", number)) if isinstance(one, Mapping) else str(number)
        try:
            if isinstance(one, BadRow):
                name = one.place
                raise _Unusable(one.reason)
            if name in rows:
                raise _Unusable("has an id that occurred before; the first one was kept")
            rows[name] = _row(name, one, origin, folder, boundary)
        except _Unusable as fault:
            left_out[name] = str(fault)
    if not rows:
        faults = "; ".join(f"{name}: {why}" for name, why in list(left_out.items())[:3])
        hint = HINT if any(OUTSIDE in why for why in left_out.values()) else ""
        raise DataError(f"{origin}: no row can be trained on{': ' if faults else ''}{faults}", hint)
    return Rows(list(rows.values()), left_out)


def _row(name: str, one: Any, origin: str, folder: Path, boundary: Boundary) -> TrainingRow:
    if not isinstance(one, Mapping):
        raise _Unusable(f"is no mapping: {one!r:.60}")
    for key in one:
        if key not in (*KEYS, *TOLD):
            raise DataError(
                f"{origin}: row {name}: unknown key '{key}'.{did_you_mean(str(key), KEYS)}",
                f"Rows hold {', '.join(KEYS)}.",
            )
    box = one.get("box")
    if box is not None and (fault := boxes_fault([box])):
        raise _Unusable(fault)
    boxes: Sequence[Box | None] = [None] if box is None else boxes_of([box]) or [None]
    whole = _image(one.get("image"), folder, boundary)
    return TrainingRow(
        name,
        ImageHandle(whole.source, boxes[0]),
        str(one.get("group") or whole.name),
        tuple(_texts(one, "captions")),
        tuple(_texts(one, "negatives")),
        tuple(_image(image, folder, boundary) for image in one.get("further_images") or ()),
        tuple(_texts(one, "further_captions")),
    )


def _texts(one: Mapping[str, Any], key: str) -> Iterator[str]:
    texts = one.get(key) or ()
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise _Unusable(f"{key}: expected a list of texts, found {texts!r:.60}")
    yield from texts


def _image(image: Any, folder: Path, boundary: Boundary) -> ImageHandle:
    if isinstance(image, ImageHandle):
        return image
    if isinstance(image, bytes | EncodedImage):
        return ImageHandle(image)
    if not isinstance(image, str) or not image:
        raise _Unusable(f"is no image: {image!r:.60}")
    path = folder / Path(image).expanduser()
    if not boundary.holds(path):
        raise _Unusable(f"image {path} {OUTSIDE}")
    if not path.is_file():
        raise _Unusable(f"there is no image {path}")
    return ImageHandle(path)


def require_some(rows: Rows, kind: str, why: str) -> None:
    """Raise if no row has what an objective needs.

    Args:
        rows: The rows.
        kind: The attribute of a row.
        why: The key of the recipe that needs it.

    Raises:
        UsageError: So it is.
    """
    if not any(getattr(row, kind) for row in rows.rows):
        raise UsageError(f"{why} needs {kind}, and no row of the data has any.", "Add them, or leave the key out.")


def read_source(
    loaded: LoadedRecipe,
    source: Source,
    keys: Sequence[str],
    *,
    data: Mapping[str, str | Path],
    include_path: Sequence[str | Path],
    allow_outside: Sequence[str | Path],
) -> Rows:
    """Read all rows of a source; images stay undecoded.

    Args:
        loaded: The recipe.
        source: One of its sources.
        keys: Where it stands in the recipe.
        data: Task name to the path of its local data.
        include_path: Folders with task files of the user's own.
        allow_outside: Folders besides those of tasks and data whose files tasks may read.

    Raises:
        BenchError: There is no such source, or no row of it can be used.
    """
    if source.file is not None:
        path = named_file(loaded, source.file, *keys, "file")
        return collect(read_rows(path), path.name, path.parent)
    if source.reader is not None:
        return collect(source.reader.resolve()(**source.arguments), str(source.reader), Path.cwd())
    index = build_index(include_path)
    named = {name: Path(path) for name, path in data.items()}
    locations = DataLocations.from_environment(index.expand_names(named), allow_outside)
    name = str(source.task)
    entries = index.resolve([name])
    if len(entries) != 1:
        raise UsageError(f"{loaded.parsed.where(*keys, 'task')}: '{name}' is {len(entries)} tasks", "Name one of them.")
    file = entries[0].path
    task, _ = load_task(file)
    if source.arguments:
        task = task.model_copy(update={"dataset_kwargs": {**task.dataset_kwargs, **source.arguments}})
    return collect(_of_task(task, file, locations), f"task '{name}'", Path.cwd())


def _of_task(task: TaskConfig, path: Path, locations: DataLocations) -> Iterator[Any]:
    """Yield the rows of a task's documents: one an entry, or one a document."""
    keys = ["doc_to_image", "doc_to_entries" if "doc_to_entries" in task.templates else "doc_to_target"]
    if missing := [key for key in keys if key not in task.templates]:
        raise UsageError(
            f"task '{task.task}' has no {' and no '.join(missing)}.",
            "Training takes tasks with doc_to_entries, or with doc_to_image and doc_to_target.",
        )
    documents = load_documents(task, path, locations)
    source = load_source(task, path)
    finder = PixelFinder(task, locations.find(task, path, source), locations.boundary(task, path, source))
    others = [key for key in ("doc_to_id", "doc_to_pixels") if key in task.templates]
    getters = {key: compile_template(task, key, documents.columns) for key in [*others, *keys]}
    yield from documents.bad_rows
    for number, document in enumerate(documents.rows):
        try:
            values = {key: get(document) for key, get in getters.items()}
        except DocumentError as error:
            yield BadRow(f"document {number}", str(error))
            continue
        identity = str(values.get("doc_to_id", number))
        image = finder(pixels_value(values))
        if not isinstance(image, ImageHandle):
            yield BadRow(identity, f"is no image of this machine: {values['doc_to_image']!r:.60}")
            continue
        if keys[1] == "doc_to_target":
            target = values["doc_to_target"]
            captions = target if isinstance(target, list | tuple) else [target]
            yield {"id": identity, "image": image, "group": identity, "captions": captions}
            continue
        for at, entry in enumerate(values["doc_to_entries"]):
            told = {key: entry.get(key) for key in ("box", "captions", "negatives")}
            yield {"id": f"{identity}|{entry.get('key', at)}", "image": image, "group": identity, **told}
