"""Reads entries of an image, choices between captions, or squares from documents."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ....adapters import Box, ImageHandle
from ...inputs.failures import FailureLog, Stage
from ...inputs.images import boxes_fault, boxes_of
from ...inputs.items import image_key, printable, text_fault
from ..contract import TEXTS, ProtocolSettings
from ..document_reader import Document, UnusableDocument, is_blank, is_list, read_each
from ..job import Job
from .image_text_hits import Ties


class MatchingSettings(ProtocolSettings):
    """The settings of a matching task that affect its numbers."""

    measure: Literal["scm", "neg", "square", "texts"] = "scm"
    """The measure: whether an entry's image retrieves its captions from its group (subcrop-caption matching), prefers
    them to the entry's negatives, whether two images and two captions match each other, or, without an image, whether
    captions are more similar to each other than to negatives."""
    ties: Ties = "wrong"
    """Credit of ties between captions and negatives."""
    grouping: Literal["blocks", "per_image"] = "blocks"
    """The entries whose captions compete: consecutive ones, across images; or those of one image."""
    block_size: int = Field(default=8, ge=1)
    """Entries of a block; the last block may be smaller."""
    captions: int = Field(default=1, ge=1)
    """The number of captions of an entry that are used; entries with fewer are excluded."""
    pick: Literal["first", "random"] = "first"
    """Which captions: the first, or random ones without replacement."""
    pick_seed: int = Field(default=0, ge=0)
    """Seed of the random captions."""
    average_over: Literal["categories", "entries"] = "categories"
    """The units of the overall mean, where there are categories."""
    category_levels: int = Field(default=1, ge=0)
    """The number of levels of categories with separate results."""
    least_in_category: int = Field(default=1, ge=1)
    """Categories with fewer entries are excluded."""
    left_out_categories: tuple[str, ...] = ()
    """Categories that are excluded."""
    round_categories: int | None = Field(default=None, ge=0)
    """Decimals to which the value of each category is rounded before averaging."""

    meanings: ClassVar = TEXTS["matching"]["meanings"]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.measure == "square" and self.ties == "half":
            raise ValueError("measure 'square' takes ties 'wrong' or 'right', not 'half'")
        if self.measure == "square" and self.captions != 1:
            raise ValueError("measure 'square' takes one caption of each image: captions must be 1")
        if self.measure == "texts" and self.captions < 2:
            raise ValueError("measure 'texts' compares captions with each other: captions must be 2 or more")
        return self

    def idle(self) -> Set[str]:
        """Return the settings without effect: of groups where none is formed, of a draw that is not made."""
        of_entries = self.measure != "square"
        said = {
            "ties": self.measure != "scm",
            "grouping": self.measure == "scm",
            "block_size": self.measure == "scm" and self.grouping == "blocks",
            "captions": of_entries,
            "pick": of_entries and (self.captions > 1 or self.pick == "random"),
            "pick_seed": of_entries and self.pick == "random",
        }
        return {name for name, has_say in said.items() if not has_say}


_ENTRIES = frozenset({"doc_to_image", "doc_to_entries"})
_CHOICE = frozenset({"doc_to_image", "doc_to_captions", "doc_to_negatives", "doc_to_box"})
_SQUARE = frozenset({"doc_to_images", "doc_to_captions"})
_TEXTS = frozenset({"doc_to_captions", "doc_to_negatives"})
SHAPE_KEYS = _ENTRIES | _CHOICE | _SQUARE
"""Sets of keys, of which a task has one: a list of entries per document; one entry per document, with separate
keys for captions, negatives and box, or captions and negatives alone; two images with two captions."""


def shape_of(keys: Set[str], settings: MatchingSettings) -> Set[str]:
    """Return the keys that have an effect with the others.

    Args:
        keys: The keys of the task.
        settings: Its settings.
    """
    if settings.measure == "square":
        return _SQUARE
    if settings.measure == "texts":
        return _TEXTS
    if "doc_to_entries" in keys or not keys & (_CHOICE - _ENTRIES):
        return _ENTRIES
    return _CHOICE if settings.measure == "neg" else _CHOICE - {"doc_to_negatives"}


@dataclass(frozen=True)
class MatchEntry:
    """A crop, or a whole image, with the texts that are compared with it.

    Attributes:
        id: Its name in messages and records.
        image: Id of its document, which is one image.
        pixels: The crop; None where texts alone are compared.
        captions: The captions that are used.
        negatives: The negatives; empty where the task does not use them.
        image_name: The key of the document's image, or images.
        category: That of the document; levels are separated by ``/``.
    """

    id: str
    image: str
    pixels: ImageHandle | None
    captions: tuple[str, ...]
    negatives: tuple[str, ...]
    image_name: str = ""
    category: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """Captions, then negatives."""
        return self.captions + self.negatives


Found = tuple[str, list[MatchEntry]]
"""The key of a document's images, and its entries."""


def read_matched(job: Job, settings: MatchingSettings, keys: Sequence[str], failures: FailureLog) -> list[MatchEntry]:
    """Return the entries of all documents; those of a document are neighbours.

    Args:
        job: The run.
        settings: The settings of the task.
        keys: The ``doc_to_*`` keys that the protocol reads.
        failures: Receives documents, and entries, that cannot be used.
    """
    shape = shape_of(job.task.templates.keys(), settings)
    read = {_SQUARE: _square, _ENTRIES: entries_of, _TEXTS: _texts_alone}.get(frozenset(shape), _choice)

    def entries(document: Document) -> Iterator[MatchEntry]:
        category, (name, of_document) = _category(document), read(document, settings)
        for entry in of_document:
            if len(entry.captions) >= settings.captions:
                captions = _picked(entry.captions, settings, entry.id)
                yield replace(entry, captions=captions, image_name=name, category=category)
            else:
                reason = f"has {len(entry.captions)} of the {settings.captions} captions that the task needs"
                failures.add(entry.id, "candidate", reason)

    return list(read_each(job, keys, entries, failures))


def _category(document: Document) -> str:
    category = document["doc_to_category"]
    if "doc_to_category" not in document.job.task.templates:
        return ""
    levels = category if is_list(category) else [category]
    if any(map(is_blank, levels)):
        raise UnusableDocument("data", f"has no category: {category!r:.80}")
    return "/".join(printable(str(level)) for level in levels)


def _picked(captions: Sequence[str], settings: MatchingSettings, identity: str) -> tuple[str, ...]:
    """Return the captions that are used; a draw depends only on the entry's name and the seed."""
    if settings.pick == "first":
        return tuple(captions[: settings.captions])
    generator = np.random.default_rng([settings.pick_seed, *identity.encode()])
    chosen: list[int] = generator.choice(len(captions), settings.captions, replace=False).tolist()
    return tuple(captions[number] for number in chosen)


def entries_of(document: Document, settings: MatchingSettings) -> Found:
    """Return the entries that a document lists, with all of their captions.

    Raises:
        UnusableDocument: It has none, or one that cannot be used.
    """
    listed = document["doc_to_entries"]
    if not is_list(listed) or not all(isinstance(entry, Mapping) for entry in listed):
        raise UnusableDocument("data", "has no list of entries with captions and negatives")
    needed = ("captions", "negatives") if settings.measure == "neg" else ("captions",)
    for number, entry in enumerate(listed):
        name = f"entry {entry.get('key', number)}"
        _box(entry.get("box"), f"{name} ")
        for key in needed:
            texts = entry.get(key)
            if not is_list(texts) or not texts:
                raise UnusableDocument("data", f"{name} has no list of {key}")
            _require_texts(texts, f"{name}: one of its {key}")
    pixels = _pixels(document, document["doc_to_image"])
    entries = [
        MatchEntry(
            printable(f"{document.id}|{entry.get('key', number)}"),
            document.id,
            ImageHandle(pixels.source, _box(entry.get("box"))),
            tuple(entry["captions"]),
            tuple(entry["negatives"]) if settings.measure == "neg" else (),
        )
        for number, entry in enumerate(listed)
    ]
    return image_key(document["doc_to_image"]), entries


def _choice(document: Document, settings: MatchingSettings) -> Found:
    """Return the one entry that a document is."""
    captions = _texts(document["doc_to_captions"], "candidate", "caption")
    negatives: tuple[str, ...] = ()
    if settings.measure == "neg":
        negatives = _texts(document["doc_to_negatives"], "candidate", "negative")
    box = _box(document["doc_to_box"])
    handle = ImageHandle(_pixels(document, document["doc_to_image"]).source, box)
    return image_key(document["doc_to_image"]), [MatchEntry(document.id, document.id, handle, captions, negatives)]


def _texts_alone(document: Document, settings: MatchingSettings) -> Found:
    """Return the one entry of a document without an image."""
    captions = _texts(document["doc_to_captions"], "candidate", "caption")
    negatives = _texts(document["doc_to_negatives"], "candidate", "negative")
    return document.id, [MatchEntry(document.id, document.id, None, captions, negatives)]


def _square(document: Document, settings: MatchingSettings) -> Found:
    """Return the two entries of a square: the caption of one is the negative of the other."""
    images, captions = document["doc_to_images"], document["doc_to_captions"]
    if not is_list(images) or len(images) != 2:
        raise UnusableDocument("image", "is not two images")
    if not is_list(captions) or len(captions) != 2:
        raise UnusableDocument("candidate", "is not two captions")
    texts = _texts(captions, "candidate", "caption")
    entries = [
        MatchEntry(f"{document.id}|{at}", document.id, _pixels(document, images[at]), (texts[at],), (texts[1 - at],))
        for at in (0, 1)
    ]
    return " ".join(map(image_key, images)), entries


def _texts(value: Any, stage: Stage, noun: str) -> tuple[str, ...]:
    """Return one text or a list of some as texts."""
    texts = value if is_list(value) else [value]
    if not texts:
        raise UnusableDocument(stage, f"has no {noun}")
    _require_texts(texts, "" if len(texts) == 1 else f"one of its {noun}s", stage)
    return tuple(texts)


def _require_texts(texts: Sequence[Any], which: str, stage: Stage = "data") -> None:
    for text in texts:
        # Empty texts have a vector, too, and released data is matched unchanged.
        blank = isinstance(text, str) and not text.strip()
        if not blank and (fault := text_fault(text)):
            raise UnusableDocument(stage, f"{which} {fault}".strip())


def _box(box: Any, whose: str = "") -> Box | None:
    if box is None:
        return None
    if fault := boxes_fault([box]):
        raise UnusableDocument("data", f"{whose}{fault}")
    return (boxes_of([box]) or (None,))[0]


def _pixels(document: Document, image: Any) -> ImageHandle:
    pixels = document.job.pixels(image)
    if not isinstance(pixels, ImageHandle):
        raise UnusableDocument("image", f"is no image of this machine: {image!r:.80}")
    return pixels
