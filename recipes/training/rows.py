"""Training rows: images with captions, negatives and additional positives; and the samples of each step.

Samples depend on seed and step only. There is no state between steps, so that an interrupted training resumes
exactly.
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

from ...adapters import EncodedImage, ImageHandle
from ...benchmarks.inputs.images import ImageFinder, boxes_fault, boxes_of, pixels_value
from ...boundary import HINT, OUTSIDE, Boundary
from ...errors import DataError, UsageError, did_you_mean
from ...rows import BadRow, read_rows
from ...tasks.documents import load_documents
from ...tasks.index import TaskIndex, build_index
from ...tasks.locate import DataLocations
from ...tasks.schema import TaskConfig, load_task
from ...tasks.sources import load_source
from ...tasks.templates import DocumentError, compile_template
from .schema import Source

if TYPE_CHECKING:
    from .contract import TrainingCall

KEYS = ("id", "image", "box", "group", "captions", "negatives", "further_images", "further_captions", "similar")
ORIGIN = ("provenance",)
"""Keys with the origin of a row, which are not trained on."""


@dataclass(frozen=True)
class TrainingRow:
    """An image, or a part of one, with texts.

    Attributes:
        id: Its name in messages.
        image: Not decoded.
        group: The id of the image; rows of one image have it in common.
        captions: True texts; may be empty if the trainer needs none.
        negatives: False texts.
        further_images: Additional positive images, such as generated ones.
        further_captions: Additional true texts, such as generated ones.
        similar: Ids of rows whose images are like its own.
    """

    id: str
    image: ImageHandle
    group: str
    captions: tuple[str, ...]
    negatives: tuple[str, ...] = ()
    further_images: tuple[ImageHandle, ...] = ()
    further_captions: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()

    def negatives_of(self, caption: int) -> tuple[str, ...]:
        """Return the negatives of a caption by number, where each has the same number of them, in order."""
        each = len(self.negatives) // len(self.captions)
        return self.negatives[caption * each : (caption + 1) * each]


@dataclass(frozen=True)
class Rows:
    """All rows of a source.

    Attributes:
        rows: In order.
        left_out: Place to the reason, of unusable rows.
    """

    rows: Sequence[TrainingRow]
    left_out: Mapping[str, str]

    def counts(self) -> dict[str, int]:
        """Return the counts of rows, images and texts."""
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
        """Return a hash of all names, boxes and texts, without pixels and the common folder of files."""
        total = hashlib.sha256()
        shown = [(row.image, *row.further_images) for row in self.rows]
        files = [image.source.absolute() for row in shown for image in row if isinstance(image.source, Path)]
        folder = os.path.commonpath([file.parent for file in files]) if files else ""
        groups: dict[str, int] = {}
        for row, images in zip(self.rows, shown, strict=True):
            texts = [row.captions, row.negatives, row.further_captions]
            # The name of a group may be the path of its image.
            group = groups.setdefault(row.group, len(groups))
            places = [
                os.path.relpath(img.source, folder) if isinstance(img.source, Path) else img.name for img in images
            ]
            boxed = [[place, image.box] for place, image in zip(places, images, strict=True)]
            content = [row.id, boxed, group, *texts, *([row.similar] if row.similar else [])]
            total.update(json.dumps(content).encode())
        return total.hexdigest()


class _Unusable(Exception):  # noqa: N818 - of a row, which is left out by name
    pass


def collect(mappings: Iterable[Any], origin: str, folder: Path) -> Rows:
    """Parse mappings with ``KEYS``; unusable rows are left out by name.

    Args:
        mappings: Mappings, or unreadable rows.
        origin: The source, for messages.
        folder: Paths of images are relative to it; a path that leaves it needs ``--allow_outside``.

    Raises:
        DataError: No row can be used, or a key is unknown.
    """
    rows: dict[str, TrainingRow] = {}
    left_out: dict[str, str] = {}
    boundary = Boundary.around(folder)
    for number, entry in enumerate(mappings):
        name = str(entry.get("id", number)) if isinstance(entry, Mapping) else str(number)
        try:
            if isinstance(entry, BadRow):
                name = entry.place
                raise _Unusable(entry.reason)
            if name in rows:
                raise _Unusable("has an id that occurred before; the first one was kept")
            rows[name] = _row(name, entry, origin, folder, boundary)
        except _Unusable as fault:
            left_out[name] = str(fault)
    if not rows:
        raise no_rows(f"{origin}: no row can be trained on", left_out)
    return Rows(list(rows.values()), left_out)


def no_rows(source: str, left_out: Mapping[str, str]) -> DataError:
    """Return an error with the first reasons for which rows were left out."""
    faults = "; ".join(f"{name}: {why}" for name, why in list(left_out.items())[:3])
    return DataError(
        f"{source}{': ' if faults else ''}{faults}", HINT if any(OUTSIDE in why for why in left_out.values()) else ""
    )


def image_fault(path: Path, boundary: Boundary) -> str:
    """Return why an image of a row cannot be used; empty if it can."""
    if not boundary.holds(path):
        return f"image {path} {OUTSIDE}"
    return "" if path.is_file() else f"there is no image {path}"


def _row(name: str, entry: Any, origin: str, folder: Path, boundary: Boundary) -> TrainingRow:
    if not isinstance(entry, Mapping):
        raise _Unusable(f"is no mapping: {entry!r:.60}")
    for key in entry:
        if key not in (*KEYS, *ORIGIN):
            raise DataError(
                f"{origin}: row {name}: unknown key '{key}'.{did_you_mean(str(key), KEYS)}",
                f"Rows hold {', '.join(KEYS)}.",
            )
    box = entry.get("box")
    if box is not None and (fault := boxes_fault([box])):
        raise _Unusable(fault)
    boxes = boxes_of([box]) if box is not None else None
    whole = _image(entry.get("image"), folder, boundary)
    return TrainingRow(
        name,
        ImageHandle(whole.source, boxes[0] if boxes else None),
        str(entry.get("group") or whole.name),
        tuple(_texts(entry, "captions")),
        tuple(_texts(entry, "negatives")),
        tuple(_image(image, folder, boundary) for image in entry.get("further_images") or ()),
        tuple(_texts(entry, "further_captions")),
        tuple(_texts(entry, "similar")),
    )


def _texts(entry: Mapping[str, Any], key: str) -> Iterator[str]:
    texts = entry.get(key) or ()
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


def read_source(call: TrainingCall, source: Source, *keys: str) -> Rows:
    """Read all rows of a source; images are not decoded.

    Args:
        call: The training call.
        source: A source of its recipe.
        keys: The keys that lead to it in the recipe.

    Raises:
        BenchError: There is no such source, or none of its rows can be used.
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
    task, file = only_task(index, name, call.loaded.parsed.where(*keys, "task"))
    if source.arguments:
        task = task.model_copy(update={"dataset_kwargs": {**task.dataset_kwargs, **source.arguments}})
    return collect(_of_task(task, file, locations), f"task '{name}'", Path.cwd())


def only_task(index: TaskIndex, name: str, place: str) -> tuple[TaskConfig, Path]:
    """Return the task of a name, and its file.

    Raises:
        UsageError: The name is that of several tasks; ``place`` says where it stands.
    """
    entries = index.resolve([name])
    if len(entries) != 1:
        raise UsageError(f"{place}: '{name}' matches {len(entries)} tasks", "Name one task.")
    return load_task(entries[0].path)[0], entries[0].path


def walked(
    task: TaskConfig, path: Path, locations: DataLocations, *keys: str
) -> Iterator[tuple[str, dict[str, Any], ImageHandle | None] | BadRow]:
    """Yield the documents of a task: id, values of its templates, and image.

    Args:
        task: The task.
        path: Its file.
        locations: Where data may be.
        keys: Templates in addition to those of id and image.
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
    """Yield the rows of a task's documents: one per entry, or one per document."""
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
            fields = {key: entry.get(key) for key in ("box", "captions", "negatives")}
            yield {"id": f"{identity}|{entry.get('key', at)}", "image": image, "group": identity, **fields}


_T = TypeVar("_T")
Sampler = Literal["random", "by_image"]
_ORDER, _TEXTS, _FIXED, _NEGATIVE, _SIMILAR = range(5)
"""Uses of random numbers; each has a separate stream."""


class Batches:
    """The batches of all epochs, without an incomplete last batch.

    ``random`` shuffles rows each epoch. ``by_image`` shuffles images, and the rows of each, and splits the sequence
    into batches: DCI's ImgGroup, in which the rows of an image are each other's negatives.

    Args:
        groups: The group of each row.
        size: Rows per batch.
        sampler: The order.
        seed: The random seed.
    """

    def __init__(self, groups: Sequence[str], size: int, sampler: Sampler, seed: int) -> None:
        self._groups = groups
        self._size = size
        self._sampler = sampler
        self._seed = seed
        self.in_an_epoch = len(groups) // size
        """The number of batches per epoch."""
        self._order = lru_cache(maxsize=2)(self._new_order)

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
        # In the order of their first rows, images with more rows would tend to come first.
        ranks = rng.permutation(len(places))
        return sorted(order, key=lambda row: ranks[places[self._groups[row]]])


@dataclass(frozen=True)
class BatchSample:
    """The samples of a step.

    Attributes:
        rows: The ``b`` rows.
        images: Their images, then additional ones.
        texts: ``b * captions`` captions, then negatives, then additional captions.
        captions: Captions per row.
        with_negative: Indices of rows with a negative.
        with_image: Indices of rows with an additional image.
        with_text: Indices of rows with an additional caption.
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
    """Samples images and texts of rows.

    Attributes:
        captions: Captions per row.
        pick: ``first``, or ``random`` at each step.
        negatives: Whether the losses use negatives.
        further_images: Whether the losses use additional images.
        further_texts: Whether the losses use additional captions.
        prompt: A prefix of each text.
        seed: The random seed.
        of_caption: Whether each step draws a negative among those of the (first) caption drawn, as NegCLIP does. Else
            the choice among those of a row is fixed, as in DCI.
    """

    captions: int
    pick: Literal["first", "random"]
    negatives: bool
    further_images: bool
    further_texts: bool
    prompt: str
    seed: int
    of_caption: bool = False

    def draw(self, rows: Sequence[TrainingRow], step: int | None) -> BatchSample:
        """Return the samples of rows at a step; None gives fixed samples, as for validation."""
        rng = np.random.default_rng((self.seed, _FIXED) if step is None else (self.seed, _TEXTS, step))
        picks = [self._picks(row, rng) for row in rows]
        texts = [self.prompt + row.captions[at] for row, picked in zip(rows, picks, strict=True) for at in picked]
        images = [row.image for row in rows]
        with_negative, with_image, with_text = (
            [number for number, row in enumerate(rows) if wanted and getattr(row, kind)]
            for kind, wanted in (
                ("negatives", self.negatives),
                ("further_images", self.further_images),
                ("further_captions", self.further_texts),
            )
        )
        texts += [self.prompt + self._negative(rows[number], picks[number][0], rng) for number in with_negative]
        for number in with_image:
            images.append(_one_of(rows[number].further_images, rng))
        texts += [self.prompt + _one_of(rows[number].further_captions, rng) for number in with_text]
        return BatchSample(rows, images, texts, self.captions, with_negative, with_image, with_text)

    def similar(self, rows: Sequence[TrainingRow], step: int) -> list[str]:
        """Return the id of a row like each that names any, by chance."""
        rng = np.random.default_rng((self.seed, _SIMILAR, step))
        return [_one_of(row.similar, rng) for row in rows if row.similar]

    def _picks(self, row: TrainingRow, rng: np.random.Generator) -> list[int]:
        """Return the captions of a row by number."""
        if self.pick == "first":
            return list(range(len(row.captions)))[: self.captions]
        return rng.permutation(len(row.captions))[: self.captions].tolist()

    def _negative(self, row: TrainingRow, caption: int, rng: np.random.Generator) -> str:
        if self.of_caption:
            return _one_of(row.negatives_of(caption), rng)
        return _one_of(row.negatives, np.random.default_rng((self.seed, _NEGATIVE, *row.id.encode())))


def _one_of(several: Sequence[_T], rng: np.random.Generator) -> _T:
    return several[int(rng.integers(len(several)))]
