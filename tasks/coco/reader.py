"""Reads COCO 2014 as distributed, Karpathy's part of it for tests, and annotations of others in COCO's layout."""

import random
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...rows import BadRow, Row, read_rows
from ..json_array import members

KARPATHY = "dataset_coco.json"
FIVE = "reference_captions.json"
_HINT = "'bench data coco_chair' and 'bench data coco_chair_val2014' list the files."


def karpathy(folder: Path, split: str = "test", instances: str | None = None) -> Iterator[Row | BadRow]:
    """Yield the images of a part of Karpathy's split, with all of their captions.

    Args:
        folder: Holds ``dataset_coco.json``.
        split: ``test``, ``val``, ``train`` or ``restval``.
        instances: File with the marked objects, for tasks that need them: ``objects`` of an image.

    Yields:
        ``id`` (COCO's), ``image`` (its file's name), ``references`` and, if asked for, ``objects``; a
        ``BadRow`` for an entry that cannot be used.

    Raises:
        DataError: A file is missing or not of its format.
    """
    rows: dict[int, Row] = {}
    for kind, number, entry in members(folder / KARPATHY, _HINT):
        if kind != "images":
            continue
        if not isinstance(entry, dict) or not isinstance(entry.get("split"), str):
            yield BadRow(f"{KARPATHY}[{number}]", "has no split")
        elif entry["split"] == split:
            identity, references = identity_of(entry, "cocoid"), _sentences(entry)
            if identity is None or references is None or not isinstance(entry.get("filename"), str):
                yield BadRow(f"{KARPATHY}[{number}]", "has no cocoid, filename and sentences with raw text")
            else:
                rows[identity] = _row(identity, entry["filename"], references)
    yield from _with_objects(rows, folder, instances)


def five_references(folder: Path, seed: int | None = None) -> Iterator[Row | BadRow]:
    """Yield the images of Karpathy's test split with the five references that the authors of PAC-S++ released.

    Args:
        folder: Holds ``reference_captions.json``.
        seed: Seed of the draw of one reference of each image, which becomes its ``caption``, scored with the others;
            without it, none is drawn.

    Yields:
        ``id`` (COCO's), ``image`` (its file's name), ``references`` and, if drawn, ``caption``; a ``BadRow`` for an
        entry that cannot be used.

    Raises:
        DataError: The file is missing or not of its format.
    """
    for number, entry in enumerate(read_rows(folder / FIVE, key="id")):
        identity, texts = ("", None) if isinstance(entry, BadRow) else (entry["id"], entry.get("value"))
        texts = texts if isinstance(texts, list) and all(isinstance(text, str) for text in texts) else []
        if not identity.isdigit() or len(texts) != 5:
            yield BadRow(f"{FIVE}[{number}]", "has no COCO id and five captions")
            continue
        row = _row(int(identity), f"COCO_val2014_{identity:0>12}.jpg", texts)
        if seed is not None:
            drawn = random.Random(f"{seed} {identity}").randrange(5)  # noqa: S311 - a sample, not a secret
            row |= {"caption": texts[drawn], "references": texts[:drawn] + texts[drawn + 1 :]}
        yield row


def val2014(
    folder: Path,
    captions: str = "annotations/captions_val2014.json",
    instances: str = "annotations/instances_val2014.json",
) -> Iterator[Row | BadRow]:
    """Yield all images of a file of captions, such as that of val2014; columns as in ``karpathy``.

    Args:
        folder: Holds the files.
        captions: File with the captions.
        instances: File with the marked objects.

    Raises:
        DataError: A file is missing or not of its format.
    """
    captioned = read_captions(folder / captions, _HINT)
    yield from captioned.bad_rows
    rows = {
        identity: _row(identity, entry["file_name"], captioned.captions[identity])
        for identity, entry in captioned.images.items()
    }
    yield from _with_objects(rows, folder, instances)


def _row(identity: int, image: str, references: list[str]) -> Row:
    return {"id": str(identity), "image": image, "references": references}


def _with_objects(rows: dict[int, Row], folder: Path, instances: str | None) -> Iterator[Row | BadRow]:
    """Yield rows, with the objects of their images if a file of these is named."""
    if instances is None:
        yield from rows.values()
        return
    objects, bad_rows = read_objects(folder / instances, rows, _HINT)
    yield from bad_rows
    for identity, row in rows.items():
        # An image that the file does not know has unknown objects, not none.
        if identity in objects:
            yield {**row, "objects": objects[identity]}
        else:
            yield BadRow(f"image {identity}", f"is not among the images of {Path(instances).name}")


def _sentences(entry: dict[str, Any]) -> list[str] | None:
    sentences = entry.get("sentences")
    if not isinstance(sentences, list):
        return None
    texts: list[Any] = [sentence.get("raw") if isinstance(sentence, dict) else None for sentence in sentences]
    return texts if all(isinstance(text, str) for text in texts) else None


@dataclass
class CaptionedImages:
    """What a file of captions holds.

    Attributes:
        images: Id to entry, in the file's order; each has a ``file_name``.
        captions: Id to captions, in the file's order; a list for every image.
        bad_rows: Entries that cannot be used.
    """

    images: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    captions: dict[int, list[str]] = field(default_factory=dict)
    bad_rows: list[BadRow] = field(default_factory=list)


def read_captions(
    path: Path, hint: str, usable: Callable[[Mapping[str, Any]], bool] = lambda annotation: True
) -> CaptionedImages:
    """Read a file of captions: ``{images: [{id, file_name}], annotations: [{image_id, caption}]}``.

    Args:
        path: The file.
        hint: What to do if it is missing.
        usable: Tells of an annotation whether it is meant to be used; the others are passed over.

    Raises:
        DataError: The file is missing, not JSON, or holds no images.
    """
    captioned = CaptionedImages()
    captions: dict[int, list[str]] = {}
    for kind, number, entry in members(path, hint):
        if kind not in ("images", "annotations"):
            continue
        place = f"{path.name}: {kind}[{number}]"
        identity = identity_of(entry, "id" if kind == "images" else "image_id")
        if kind == "images":
            if identity is None or not isinstance(entry.get("file_name"), str):
                captioned.bad_rows.append(BadRow(place, "has no id and file_name"))
            else:
                captioned.images[identity] = entry
        elif identity is None or not isinstance(text := entry.get("caption"), str) or not text.strip():
            captioned.bad_rows.append(BadRow(place, "has no image_id and caption"))
        elif usable(entry):
            captions.setdefault(identity, []).append(text)
    if not captioned.images:
        raise DataError(f"{path}: holds no list of images", hint)
    captioned.captions = {identity: captions.pop(identity, []) for identity in captioned.images}
    captioned.bad_rows += [
        BadRow(f"{path.name}: image {identity}", "has captions but no entry among the images") for identity in captions
    ]
    return captioned


def read_objects(path: Path, wanted: Container[int], hint: str) -> tuple[dict[int, list[str]], list[BadRow]]:
    """Read which objects are marked: ``{images: [...], annotations: [{image_id, category_id}], categories: [...]}``.

    The file is read element by element: of the outlines, which make up most of it, nothing is held.

    Args:
        path: The file.
        wanted: Ids of the images whose objects are needed.
        hint: What to do if it is missing.

    Returns:
        Id to sorted names of the marked categories, for every wanted image of the file (an empty list
        where nothing is marked); and the entries that cannot be used.

    Raises:
        DataError: The file is missing, not JSON, or a category that marks an object has no name in it.
    """
    categories: dict[int, set[int]] = {}
    names: dict[int, str] = {}
    bad_rows: list[BadRow] = []
    for kind, number, entry in members(path, hint):
        if kind == "images":
            if (identity := identity_of(entry, "id")) is not None and identity in wanted:
                categories.setdefault(identity, set())
        elif kind == "annotations":
            identity, category = identity_of(entry, "image_id"), identity_of(entry, "category_id")
            if identity is None or category is None:
                bad_rows.append(BadRow(f"{path.name}: annotations[{number}]", "has no image_id and category_id"))
            elif identity in wanted:
                categories.setdefault(identity, set()).add(category)
        elif kind == "categories":
            identity = identity_of(entry, "id")
            if identity is not None and isinstance(entry.get("name"), str):
                names[identity] = entry["name"]
    if unknown := sorted(set().union(*categories.values()) - names.keys()):
        raise DataError(f"{path}: category {unknown[0]} has no name among the categories", hint)
    return {image: sorted(names[category] for category in marked) for image, marked in categories.items()}, bad_rows


def identity_of(entry: Any, *keys: str) -> int | None:
    """Return a whole number that an entry holds under the first key that it has; None if it holds none there."""
    value = next((entry[key] for key in keys if key in entry), None) if isinstance(entry, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
