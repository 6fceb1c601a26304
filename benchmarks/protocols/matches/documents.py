"""Reads what is matched from documents: entries of an image, choices between captions, or squares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....adapters import Box, ImageHandle
from ...inputs.failures import FailureLog, Stage
from ...inputs.items import image_key, printable, text_fault
from ...inputs.pixels import boxes_fault, boxes_of
from ..document_reader import DocumentReader, is_list
from ..job import Job
from .entries import Entry
from .settings import MatchingSettings

_ENTRIES = frozenset({"doc_to_image", "doc_to_entries"})
_CHOICE = frozenset({"doc_to_image", "doc_to_captions", "doc_to_negatives", "doc_to_box"})
_SQUARE = frozenset({"doc_to_images", "doc_to_captions"})
SHAPE_KEYS = _ENTRIES | _CHOICE | _SQUARE
"""The keys of which a task has one of three sets: a list of entries a document; one entry a document, whose captions,
negatives and box are keys of their own; two images with two captions."""


def shape_of(given: Set[str], settings: MatchingSettings) -> Set[str]:
    """Return the keys that have a say beside the others.

    Args:
        given: The keys of the task.
        settings: Its choices.
    """
    if settings.measure == "square":
        return _SQUARE
    if "doc_to_entries" in given or not given & (_CHOICE - _ENTRIES):
        return _ENTRIES
    return _CHOICE if settings.measure == "neg" else _CHOICE - {"doc_to_negatives"}


@dataclass
class Matched:
    """What is matched.

    Attributes:
        entries: In order; those of a document are neighbours.
        image_names: By document: what tells its image, or images, from others.
        categories: By document: its category; levels are separated by ``/``.
    """

    entries: list[Entry] = field(default_factory=list[Entry])
    image_names: dict[str, str] = field(default_factory=dict[str, str])
    categories: dict[str, str] = field(default_factory=dict[str, str])


class _Unusable(Exception):  # noqa: N818 - of a document, which is a failure by name
    def __init__(self, stage: Stage, reason: str) -> None:
        super().__init__(reason)
        self.stage: Stage = stage


Found = tuple[str, list[Entry]]
"""What tells the images of a document from others, and its entries."""


def read_matched(job: Job, settings: MatchingSettings, keys: Sequence[str], failures: FailureLog) -> Matched:
    """Read all documents.

    Args:
        job: The run.
        settings: The choices of the task.
        keys: The ``doc_to_*`` keys that the protocol reads.
        failures: Receives documents, and entries, that cannot be used.
    """
    matched = Matched()
    shape = shape_of(job.task.templates.keys(), settings)
    read = {_SQUARE: _square, _ENTRIES: _entries}.get(frozenset(shape), _choice)
    for identity, values in DocumentReader(job, keys).read(failures):
        try:
            category = _category(job, values["doc_to_category"])
            name, entries = read(job, settings, identity, values)
        except _Unusable as fault:
            failures.add(identity, fault.stage, str(fault))
            continue
        matched.image_names[identity] = name
        matched.categories[identity] = category
        matched.entries += _with_enough(entries, settings, failures)
    return matched


def _category(job: Job, given: Any) -> str:
    if "doc_to_category" not in job.task.templates:
        return ""
    levels = given if is_list(given) else [given]
    if any(level is None or not str(level).strip() for level in levels):
        raise _Unusable("data", f"has no category: {given!r:.80}")
    return "/".join(printable(str(level)) for level in levels)


def _with_enough(
    entries: Sequence[Entry], settings: MatchingSettings, failures: FailureLog
) -> Iterator[Entry]:
    """Yield entries with the captions that are used, where there are so many."""
    for entry in entries:
        if len(entry.captions) < settings.captions:
            reason = f"is left out: {len(entry.captions)} captions of {settings.captions} are there"
            failures.add(entry.id, "candidate", reason)
        else:
            yield Entry(
                entry.id,
                entry.image,
                entry.pixels,
                _picked(entry.captions, settings, entry.id),
                entry.negatives,
            )


def _picked(captions: Sequence[str], settings: MatchingSettings, identity: str) -> tuple[str, ...]:
    """Return the captions that are used; a draw depends on the entry's name and the seed, not on other entries."""
    if settings.pick == "first":
        return tuple(captions[: settings.captions])
    generator = np.random.default_rng([settings.pick_seed, *identity.encode()])
    chosen: list[int] = generator.choice(len(captions), settings.captions, replace=False).tolist()
    return tuple(captions[number] for number in chosen)


def _entries(job: Job, settings: MatchingSettings, identity: str, values: Mapping[str, Any]) -> Found:
    """Return the entries that a document lists."""
    given = values["doc_to_entries"]
    if not is_list(given) or not all(isinstance(one, Mapping) for one in given):
        raise _Unusable("data", "has no list of entries with captions and negatives")
    needed = ("captions", "negatives") if settings.measure == "neg" else ("captions",)
    for number, one in enumerate(given):
        name = f"entry {one.get('key', number)}"
        _require_box(one.get("box"), f"{name} ")
        for key in needed:
            texts = one.get(key)
            if not is_list(texts) or not texts:
                raise _Unusable("data", f"{name} has no list of {key}")
            _require_texts(texts, f"{name}: one of its {key}")
    pixels = _pixels(job, values["doc_to_image"])
    entries = [
        Entry(
            printable(f"{identity}|{one.get('key', number)}"),
            identity,
            ImageHandle(pixels.source, _box(one.get("box"))),
            tuple(one["captions"]),
            tuple(one["negatives"]) if settings.measure == "neg" else (),
        )
        for number, one in enumerate(given)
    ]
    return image_key(values["doc_to_image"]), entries


def _choice(job: Job, settings: MatchingSettings, identity: str, values: Mapping[str, Any]) -> Found:
    """Return the one entry that a document is."""
    captions = _texts(values["doc_to_captions"], "candidate", "caption")
    negatives: tuple[str, ...] = ()
    if settings.measure == "neg":
        negatives = _texts(values["doc_to_negatives"], "candidate", "negative")
    _require_box(values["doc_to_box"])
    handle = ImageHandle(_pixels(job, values["doc_to_image"]).source, _box(values["doc_to_box"]))
    return image_key(values["doc_to_image"]), [Entry(identity, identity, handle, captions, negatives)]


def _square(job: Job, settings: MatchingSettings, identity: str, values: Mapping[str, Any]) -> Found:
    """Return the two entries of a square: of each the other's caption is the negative."""
    images, captions = values["doc_to_images"], values["doc_to_captions"]
    if not is_list(images) or len(images) != 2:
        raise _Unusable("image", "is not two images")
    if not is_list(captions) or len(captions) != 2:
        raise _Unusable("candidate", "is not two captions")
    texts = _texts(captions, "candidate", "caption")
    entries = [
        Entry(f"{identity}|{at}", identity, _pixels(job, images[at]), (texts[at],), (texts[1 - at],))
        for at in (0, 1)
    ]
    return " ".join(map(image_key, images)), entries


def _texts(given: Any, stage: Stage, what: str) -> tuple[str, ...]:
    """Return one text or a list of some as texts."""
    texts = given if is_list(given) else [given]
    if not texts:
        raise _Unusable(stage, f"has no {what}")
    _require_texts(texts, "" if len(texts) == 1 else f"one of its {what}s", stage)
    return tuple(texts)


def _require_texts(texts: Sequence[Any], which: str, stage: Stage = "data") -> None:
    for text in texts:
        # A model has a vector for no words, too, and released data is matched as it is.
        blank = isinstance(text, str) and not text.strip()
        if not blank and (fault := text_fault(text)):
            raise _Unusable(stage, f"{which} {fault}".strip())


def _require_box(box: Any, whose: str = "") -> None:
    if box is not None and (fault := boxes_fault([box])):
        raise _Unusable("data", f"{whose}{fault}")


def _box(box: Any) -> Box | None:
    boxes = None if box is None else boxes_of([box])
    return boxes[0] if boxes else None


def _pixels(job: Job, image: Any) -> ImageHandle:
    pixels = job.pixels(image)
    if not isinstance(pixels, ImageHandle):
        raise _Unusable("image", f"is no image of this machine: {image!r:.80}")
    return pixels
