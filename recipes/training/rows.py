"""What is trained on: images with captions and what belongs to them; and which of these a step looks at.

That is decided by seed and step alone. Nothing is remembered from step to step, so that a training that was cut off
goes on as if it had not been.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from ...adapters import Box, EncodedImage, ImageHandle
from ...benchmarks.inputs.images import ImageFinder, boxes_fault, boxes_of, pixels_value
from ...boundary import HINT, OUTSIDE, Boundary
from ...errors import DataError, UsageError, did_you_mean
from ...rows import BadRow, read_rows
from ...tasks.documents import load_documents
from ...tasks.index import build_index
from ...tasks.locate import DataLocations
from ...tasks.schema import TaskConfig, load_task
from ...tasks.sources import load_source
from ...tasks.templates import DocumentError, compile_template
from .schema import Source

if TYPE_CHECKING:
    from .contract import TrainingCall

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
            **{
                kind.replace("_", " "): sum(len(getattr(row, kind)) for row in self.rows)
                for kind in ("captions", "negatives", "further_images", "further_captions")
            },
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
            places = [
                os.path.relpath(one.source, folder) if isinstance(one.source, Path) else one.name for one in images
            ]
            boxed = [[place, one.box] for place, one in zip(places, images, strict=True)]
            content = [row.id, boxed, group, *texts]
            total.update(json.dumps(content).encode())
        return total.hexdigest()


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
        raise no_rows(f"{origin}: no row can be trained on", left_out)
    return Rows(list(rows.values()), left_out)


def no_rows(what: str, left_out: Mapping[str, str]) -> DataError:
    """Return the error that says so, with the first reasons for which rows were left out."""
    faults = "; ".join(f"{name}: {why}" for name, why in list(left_out.items())[:3])
    return DataError(
        f"{what}{': ' if faults else ''}{faults}", HINT if any(OUTSIDE in why for why in left_out.values()) else ""
    )


def image_fault(path: Path, boundary: Boundary) -> str:
    """Return why an image that a row names cannot be used; empty where it can."""
    if not boundary.holds(path):
        return f"image {path} {OUTSIDE}"
    return "" if path.is_file() else f"there is no image {path}"


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
    if fault := image_fault(path, boundary):
        raise _Unusable(fault)
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


def read_source(call: TrainingCall, source: Source, keys: Sequence[str]) -> Rows:
    """Read all rows of a source; images stay undecoded.

    Args:
        call: Holds the recipe, and where data may be.
        source: One of its sources.
        keys: Where it stands in the recipe.

    Raises:
        BenchError: There is no such source, or no row of it can be used.
    """
    if source.file is not None:
        path = call.loaded.named_file(source.file, *keys, "file")
        return collect(read_rows(path), path.name, path.parent)
    if source.reader is not None:
        return collect(source.reader.resolve()(**source.arguments), str(source.reader), Path.cwd())
    index = build_index(call.include_path)
    named = {name: Path(path) for name, path in call.data.items()}
    locations = DataLocations.from_environment(index.expand_names(named), call.allow_outside)
    name = str(source.task)
    entries = index.resolve([name])
    if len(entries) != 1:
        raise UsageError(
            f"{call.loaded.parsed.where(*keys, 'task')}: '{name}' is {len(entries)} tasks", "Name one of them."
        )
    file = entries[0].path
    task, _ = load_task(file)
    if source.arguments:
        task = task.model_copy(update={"dataset_kwargs": {**task.dataset_kwargs, **source.arguments}})
    return collect(_of_task(task, file, locations), f"task '{name}'", Path.cwd())


def walked(
    task: TaskConfig, path: Path, locations: DataLocations, *keys: str
) -> Iterator[tuple[str, dict[str, Any], ImageHandle | None] | BadRow]:
    """Yield the documents of a task: the id, the values of templates that the task has, and its image.

    Args:
        task: The task.
        path: Its file.
        locations: Where data may be.
        keys: Templates besides those of id and image.
    """
    documents = load_documents(task, path, locations)
    source = load_source(task, path)
    finder = ImageFinder(task, locations.find(task, path, source), locations.boundary(task, path, source))
    wanted = [key for key in ("doc_to_id", "doc_to_pixels", "doc_to_image", *keys) if key in task.templates]
    getters = {key: compile_template(task, key, documents.columns) for key in wanted}
    yield from documents.bad_rows
    for number, document in enumerate(documents.rows):
        try:
            values = {key: get(document) for key, get in getters.items()}
        except DocumentError as error:
            yield BadRow(f"document {number}", str(error))
            continue
        identity = str(values.get("doc_to_id", number))
        image = finder(pixels_value(values)) if "doc_to_image" in values else None
        if image is None or isinstance(image, ImageHandle):
            yield identity, values, image
        else:
            yield BadRow(identity, f"is no image of this machine: {values['doc_to_image']!r:.60}")


def _of_task(task: TaskConfig, path: Path, locations: DataLocations) -> Iterator[Any]:
    """Yield the rows of a task's documents: one an entry, or one a document."""
    keys = ["doc_to_image", "doc_to_entries" if "doc_to_entries" in task.templates else "doc_to_target"]
    if missing := [key for key in keys if key not in task.templates]:
        raise UsageError(
            f"task '{task.task}' has no {' and no '.join(missing)}.",
            "Training takes tasks with doc_to_entries, or with doc_to_image and doc_to_target.",
        )
    for row in walked(task, path, locations, keys[1]):
        if isinstance(row, BadRow):
            yield row
            continue
        identity, values, image = row
        if keys[1] == "doc_to_target":
            target = values["doc_to_target"]
            captions = target if isinstance(target, list | tuple) else [target]
            yield {"id": identity, "image": image, "group": identity, "captions": captions}
            continue
        for at, entry in enumerate(values["doc_to_entries"]):
            told = {key: entry.get(key) for key in ("box", "captions", "negatives")}
            yield {"id": f"{identity}|{entry.get('key', at)}", "image": image, "group": identity, **told}


_T = TypeVar("_T")
Sampler = Literal["random", "by_image"]
_ORDER, _TEXTS, _FIXED, _NEGATIVE = range(4)
"""What random numbers are for, so that one use does not move another."""


class Batches:
    """The batches of all epochs; a last one that is not whole is left out.

    ``random`` puts rows in a new order each epoch. ``by_image`` puts images in a new order, and the rows of each, and
    cuts the whole into batches: DCI's ImgGroup, in which the rows of an image are each other's negatives.

    Args:
        groups: What rows of one image have in common, by row.
        size: Rows of a batch.
        sampler: Which order.
        seed: Other seeds give other orders.
    """

    def __init__(self, groups: Sequence[str], size: int, sampler: Sampler, seed: int) -> None:
        self._groups = groups
        self._size = size
        self._sampler = sampler
        self._seed = seed
        self._order = lru_cache(maxsize=2)(self._new_order)

    @property
    def in_an_epoch(self) -> int:
        """How many batches an epoch has."""
        return len(self._groups) // self._size

    def rows(self, step: int) -> list[int]:
        """Return the numbers of the rows of a step."""
        epoch, batch = divmod(step, self.in_an_epoch)
        return self._order(epoch)[batch * self._size : (batch + 1) * self._size]

    def _new_order(self, epoch: int) -> list[int]:
        rng = np.random.default_rng((self._seed, _ORDER, epoch))
        order: list[int] = rng.permutation(len(self._groups)).tolist()
        if self._sampler == "random":
            return order
        places: dict[str, int] = {}
        for row in order:
            places.setdefault(self._groups[row], len(places))
        # Images in the order of their first rows would be the more in front the more rows they have.
        ranks = rng.permutation(len(places))
        return sorted(order, key=lambda row: ranks[places[self._groups[row]]])


@dataclass(frozen=True)
class BatchSample:
    """What a step looks at.

    Attributes:
        rows: The rows, ``b`` of them.
        images: Theirs, then further ones.
        texts: ``b * captions`` captions, the negatives, the further ones.
        captions: Of a row.
        with_negative: Numbers of the rows that have one.
        with_image: Numbers of the rows that have a further image.
        with_text: Numbers of the rows that have a further caption.
    """

    rows: Sequence[TrainingRow]
    images: Sequence[ImageHandle]
    texts: Sequence[str]
    captions: int
    with_negative: Sequence[int]
    with_image: Sequence[int]
    with_text: Sequence[int]


@dataclass(frozen=True)
class BatchSampler:
    """Draws what is looked at of rows.

    Attributes:
        captions: Of a row.
        pick: ``first``, or a ``random`` choice, new at each look.
        negatives: Whether the losses look at negatives. Which of several a row has does not change, as in DCI.
        further_images: Whether the losses look at further images.
        further_texts: Whether the losses look at further captions.
        prompt: What stands before each text.
        seed: Other seeds draw otherwise.
    """

    captions: int
    pick: Literal["first", "random"]
    negatives: bool
    further_images: bool
    further_texts: bool
    prompt: str
    seed: int

    def draw(self, rows: Sequence[TrainingRow], step: int | None) -> BatchSample:
        """Return what is looked at of rows at a step, or where that shall not change (None), as for validation."""
        rng = np.random.default_rng((self.seed, _FIXED) if step is None else (self.seed, _TEXTS, step))
        texts = [self.prompt + text for row in rows for text in self._captions(row, rng)]
        images = [row.image for row in rows]
        with_negative, with_image, with_text = (
            [number for number, row in enumerate(rows) if wanted and getattr(row, kind)]
            for kind, wanted in (
                ("negatives", self.negatives),
                ("further_images", self.further_images),
                ("further_captions", self.further_texts),
            )
        )
        texts += [self.prompt + self._negative(rows[number]) for number in with_negative]
        for number in with_image:
            images.append(_one_of(rows[number].further_images, rng))
        texts += [self.prompt + _one_of(rows[number].further_captions, rng) for number in with_text]
        return BatchSample(rows, images, texts, self.captions, with_negative, with_image, with_text)

    def _captions(self, row: TrainingRow, rng: np.random.Generator) -> list[str]:
        if self.pick == "first":
            return list(row.captions[: self.captions])
        return [row.captions[at] for at in rng.permutation(len(row.captions))[: self.captions]]

    def _negative(self, row: TrainingRow) -> str:
        return _one_of(row.negatives, np.random.default_rng((self.seed, _NEGATIVE, *row.id.encode())))


def _one_of(several: Sequence[_T], rng: np.random.Generator) -> _T:
    return several[int(rng.integers(len(several)))]
