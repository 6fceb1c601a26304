"""Reads what is matched from documents: entries of an image, choices between captions, or squares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ....adapters import Box, ImageHandle
from ...inputs.failures import FailureLog, Stage
from ...inputs.images import boxes_fault, boxes_of
from ...inputs.items import image_key, printable, text_fault
from ..contract import ProtocolSettings
from ..document_reader import Document, UnusableDocument, is_blank, is_list, read_documents
from ..job import Job
from .image_text_hits import Ties


class MatchingSettings(ProtocolSettings):
    """The choices of a matching task that move a number."""

    measure: Literal["scm", "neg", "square"] = "scm"
    """What a matching task reports: whether an entry's image finds its captions among those of its group
    (subcrop-caption matching), whether it prefers them to the entry's negatives, or whether two images and two
    captions find each other."""
    ties: Ties = "wrong"
    """What counts whose captions and negatives are equally similar."""
    grouping: Literal["blocks", "per_image"] = "blocks"
    """The entries whose captions compete: consecutive ones, over the borders of images; or those of one image."""
    block_size: int = Field(default=8, ge=1)
    """Entries of a block; the last block holds what is left."""
    captions: int = Field(default=1, ge=1)
    """So many captions of an entry are used; entries with fewer are left out."""
    pick: Literal["first", "random"] = "first"
    """Which ones: the first, or drawn at random without repetition."""
    pick_seed: int = Field(default=0, ge=0)
    """What the drawing of captions starts from."""
    average_over: Literal["categories", "entries"] = "categories"
    """What the value of all is the mean of, where there are categories."""
    category_levels: int = Field(default=1, ge=0)
    """So many levels of categories have results of their own."""
    least_in_category: int = Field(default=1, ge=1)
    """Categories with fewer entries are in no result."""
    left_out_categories: tuple[str, ...] = ()
    """These categories are in no result."""
    round_categories: int | None = Field(default=None, ge=0)
    """The value of each category is rounded to so many decimals before means are made of it."""

    meanings: ClassVar[Mapping[str, str | Mapping[str, str]]] = {
        "measure": {
            "scm": "subcrop-caption matching: an entry is right if its image, of all entries of its group, is most "
            "similar to its own captions; every other entry stands with its best caption, the entry itself with its "
            "worst; of equal entries the first is found; images look for captions, never captions for images",
            "neg": "an entry is right if its image is more similar to the worst of its own captions than to the best "
            "of its negatives",
            "square": "two images, two captions. Text: each image is more similar to its own caption than to the "
            "other. Image: each caption is more similar to its own image than to the other. Group: both",
        },
        "ties": {
            "wrong": "equal counts as wrong",
            "right": "equal counts as right, as where the true caption stands first and the first maximum is taken",
            "half": "equal counts a half",
        },
        "grouping": {
            "blocks": "consecutive entries over the borders of images, as in the released code; the last block is "
            "smaller, and an entry alone in it is right",
            "per_image": "all entries of one image, as the paper's text has it",
        },
        "block_size": "entries of a block",
        "captions": "so many captions of an entry are used; entries with fewer are left out",
        "pick": {
            "first": "the first in the data, so that every run sees the same; the released code draws them without "
            "a seed",
            "random": "drawn by pick_seed and the entry's name, without repetition",
        },
        "average_over": {
            "categories": "the value of all is the mean of categories, level by level, however few entries one has",
            "entries": "the value of all, and of a category, is the mean of its entries",
        },
        "category_levels": "so many levels of categories have results of their own",
        "least_in_category": "categories with fewer entries are in no result",
        "left_out_categories": "these categories are in no result",
        "round_categories": "the value of each category is rounded to so many decimals before means are made of it",
    }

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.measure == "square" and self.ties == "half":
            raise ValueError("a square is right or wrong as a whole: its ties are 'wrong' or 'right'")
        if self.measure == "square" and self.captions != 1:
            raise ValueError("an image of a square has one caption: captions is 1")
        return self

    def shown(self, name: str) -> str:
        """Return the value of a setting as ``bench show`` prints it."""
        return ", ".join(self.left_out_categories) if name == "left_out_categories" else super().shown(name)

    def idle(self) -> Set[str]:
        """Return the settings that change nothing: of groups where none is formed, of a draw that is not made."""
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


@dataclass(frozen=True)
class MatchEntry:
    """A crop, or a whole image, with the texts that are held against it.

    Attributes:
        id: Its name in messages and records.
        image: Id of its document, which is one image.
        pixels: The crop.
        captions: Those that are used.
        negatives: Empty where the task does not ask for them.
    """

    id: str
    image: str
    pixels: ImageHandle
    captions: tuple[str, ...]
    negatives: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """Captions, then negatives."""
        return self.captions + self.negatives


@dataclass
class MatchingData:
    """What is matched.

    Attributes:
        entries: In order; those of a document are neighbours.
        image_names: By document: what tells its image, or images, from others.
        categories: By document: its category; levels are separated by ``/``.
    """

    entries: list[MatchEntry] = field(default_factory=list[MatchEntry])
    image_names: dict[str, str] = field(default_factory=dict[str, str])
    categories: dict[str, str] = field(default_factory=dict[str, str])


Found = tuple[str, list[MatchEntry]]
"""What tells the images of a document from others, and its entries."""


def read_matched(job: Job, settings: MatchingSettings, keys: Sequence[str], failures: FailureLog) -> MatchingData:
    """Read all documents.

    Args:
        job: The run.
        settings: The choices of the task.
        keys: The ``doc_to_*`` keys that the protocol reads.
        failures: Receives documents, and entries, that cannot be used.
    """
    matched = MatchingData()
    shape = shape_of(job.task.templates.keys(), settings)
    read = {_SQUARE: _square, _ENTRIES: _entries}.get(frozenset(shape), _choice)

    def entries(document: Document) -> Iterator[tuple[str, Found]]:
        yield _category(document), read(document, settings)

    for document, found in read_documents(job, keys, entries, failures):
        for category, (name, of_document) in found:
            matched.image_names[document.id] = name
            matched.categories[document.id] = category
            for entry in of_document:
                if len(entry.captions) >= settings.captions:
                    matched.entries.append(replace(entry, captions=_picked(entry.captions, settings, entry.id)))
                else:
                    reason = f"is left out: {len(entry.captions)} captions of {settings.captions} are there"
                    failures.add(entry.id, "candidate", reason)
    return matched


def _category(document: Document) -> str:
    given = document["doc_to_category"]
    if "doc_to_category" not in document.job.task.templates:
        return ""
    levels = given if is_list(given) else [given]
    if any(map(is_blank, levels)):
        raise UnusableDocument("data", f"has no category: {given!r:.80}")
    return "/".join(printable(str(level)) for level in levels)


def _picked(captions: Sequence[str], settings: MatchingSettings, identity: str) -> tuple[str, ...]:
    """Return the captions that are used; a draw depends on the entry's name and the seed, not on other entries."""
    if settings.pick == "first":
        return tuple(captions[: settings.captions])
    generator = np.random.default_rng([settings.pick_seed, *identity.encode()])
    chosen: list[int] = generator.choice(len(captions), settings.captions, replace=False).tolist()
    return tuple(captions[number] for number in chosen)


def _entries(document: Document, settings: MatchingSettings) -> Found:
    """Return the entries that a document lists."""
    given = document["doc_to_entries"]
    if not is_list(given) or not all(isinstance(one, Mapping) for one in given):
        raise UnusableDocument("data", "has no list of entries with captions and negatives")
    needed = ("captions", "negatives") if settings.measure == "neg" else ("captions",)
    for number, one in enumerate(given):
        name = f"entry {one.get('key', number)}"
        _box(one.get("box"), f"{name} ")
        for key in needed:
            texts = one.get(key)
            if not is_list(texts) or not texts:
                raise UnusableDocument("data", f"{name} has no list of {key}")
            _require_texts(texts, f"{name}: one of its {key}")
    pixels = _pixels(document, document["doc_to_image"])
    entries = [
        MatchEntry(
            printable(f"{document.id}|{one.get('key', number)}"),
            document.id,
            ImageHandle(pixels.source, _box(one.get("box"))),
            tuple(one["captions"]),
            tuple(one["negatives"]) if settings.measure == "neg" else (),
        )
        for number, one in enumerate(given)
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


def _square(document: Document, settings: MatchingSettings) -> Found:
    """Return the two entries of a square: of each the other's caption is the negative."""
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


def _texts(given: Any, stage: Stage, what: str) -> tuple[str, ...]:
    """Return one text or a list of some as texts."""
    texts = given if is_list(given) else [given]
    if not texts:
        raise UnusableDocument(stage, f"has no {what}")
    _require_texts(texts, "" if len(texts) == 1 else f"one of its {what}s", stage)
    return tuple(texts)


def _require_texts(texts: Sequence[Any], which: str, stage: Stage = "data") -> None:
    for text in texts:
        # A model has a vector for no words, too, and released data is matched as it is.
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
