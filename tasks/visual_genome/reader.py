"""Reads Visual Genome as distributed: images with the boxes of their regions and objects."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...rows import BadRow, Row, is_number
from ..coco.reader import identity_of
from ..json_array import elements

IMAGES = "image_data.json"
BOX_FILES = (("region_descriptions.json", "regions", "region"), ("objects.json", "objects", "object"))
"""File, the key of its list of boxes, and what a box is called."""


def described(folder: Path, images: int | None = 500, seed: int = 0) -> Iterator[Row | BadRow]:
    """Yield images drawn at random, each with its boxes: those of its regions, then those of its objects.

    Files are read element by element; only what belongs to the drawn images is held.

    Args:
        folder: Holds ``image_data.json``, ``region_descriptions.json`` and ``objects.json``.
        images: How many are drawn, from all of ``image_data.json``; None for all.
        seed: Of the draw. One seed gives the same images wherever the ids are the same.

    Yields:
        ``id``, ``image`` (its file's name) and ``boxes`` (left, top, right, bottom; lists) of an image; a
        ``BadRow`` for a box that has no area or lies outside its image, which is left out, and for an image
        without an id or a size.

    Raises:
        DataError: A file is missing or not of its format, or there are fewer images than are to be drawn.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder} is a file; the data set is a folder", "'bench data vg_clip_f1' lists the files it needs."
        )
    sizes: dict[int, tuple[float, float]] = {}
    for number, entry in enumerate(elements(folder / IMAGES)):
        identity = identity_of(entry, "image_id", "id")
        size = _numbers(entry, ("width", "height")) if isinstance(entry, Mapping) else None
        if identity is None or size is None or min(size) <= 0:
            yield BadRow(f"{IMAGES}[{number}]", "has no image_id, width and height")
        else:
            sizes[identity] = (size[0], size[1])
    drawn = sorted(sizes)
    if images is not None:
        if images > len(drawn):
            raise DataError(
                f"{folder / IMAGES} has {len(drawn):,} images, fewer than the {images:,} to draw",
                "Visual Genome has 108,077. A task file of your own can draw fewer (dataset_kwargs: images).",
            )
        # Of Python's generators this alone is promised to give the same numbers in every version.
        numbers = random.Random(seed)  # noqa: S311 - a sample, not a secret
        drawn = sorted(sorted(drawn, key=lambda _: numbers.random())[:images])
    boxes: dict[int, list[list[float]]] = {identity: [] for identity in drawn}
    for file, key, kind in BOX_FILES:
        for number, entry in enumerate(elements(folder / file)):
            identity = identity_of(entry, "image_id", "id")
            of_image = entry.get(key) if isinstance(entry, Mapping) else None
            if identity is None or not isinstance(of_image, list):
                yield BadRow(f"{file}[{number}]", f"has no id of an image, or no list of {key}")
            elif identity in boxes:
                for position, box in enumerate(of_image):
                    edges = _edges(box, *sizes[identity])
                    if isinstance(edges, str):
                        yield BadRow(f"{file}: image {identity}, {kind} {_name(box, kind, position)}", edges)
                    else:
                        boxes[identity].append(edges)
    for identity in drawn:
        yield {"id": str(identity), "image": f"{identity}.jpg", "boxes": boxes[identity]}


def _edges(box: Any, width: float, height: float) -> list[float] | str:
    """Return left, top, right and bottom of a box, or why it is none."""
    if not isinstance(box, Mapping):
        return "is not a JSON object"
    numbers = _numbers(box, ("x", "y", "width", "height")) or _numbers(box, ("x", "y", "w", "h"))
    if numbers is None:
        return "has no x, y, width and height"
    x, y, across, down = numbers
    if across <= 0 or down <= 0:
        return f"has no area: {across:g} x {down:g}"
    if x >= width or y >= height or x + across <= 0 or y + down <= 0:
        return f"lies outside the image of {width:g} x {height:g}: {across:g} x {down:g} at {x:g}, {y:g}"
    return [x, y, x + across, y + down]


def _numbers(entry: Mapping[str, Any], keys: tuple[str, ...]) -> list[float] | None:
    """Return the values of some keys; None unless all are finite numbers."""
    values: list[Any] = [entry.get(key) for key in keys]
    return values if all(map(is_number, values)) else None


def _name(box: Any, kind: str, position: int) -> str:
    identity = box.get(f"{kind}_id", box.get("id")) if isinstance(box, Mapping) else None
    return f"number {position + 1}" if identity is None else str(identity)
