"""The items to rate, and their file."""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ...errors import DataError
from ...rows import parse_json
from ..records.hashes import checksum
from .questions import Questionnaire


class RatedItem(BaseModel):
    """A document of a task with captions of its image, and a line of ``items.jsonl``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str
    """Id of the document."""
    image: str
    """Name of the image in the document, or else its id."""
    picture: str = Field(default="", pattern=r"^[0-9a-f]{64}\.(jpg|png|gif|webp|bmp)$")
    """Name of the image file in the session; empty before it is written."""
    of_video: bool = False
    """Whether the file has some frames of a video, which metrics must not take for an image."""
    captions: dict[str, str]
    """Captions by system, in the order of the session's systems."""
    references: tuple[str, ...]
    """References of the image."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The captions without their systems."""
        return tuple(self.captions.values())

    @property
    def first_equal(self) -> tuple[int, ...]:
        """For each caption, the index of the first equal one; whitespace differences are ignored."""
        words = [text.split() for text in self.texts]
        return tuple(map(words.index, words))

    @property
    def has_choice(self) -> bool:
        """Whether its captions differ."""
        return any(self.first_equal)


DESIGN = "design.json"
REMEDY = "Restore the file, or start a session in another folder (--output)."
_VERSION_KEY, _VERSION = "capbench_ratings", 2
_ITEMS, _CHECKSUM = "items", "checksum"


class KnownAnswer(BaseModel):
    """The right answer to a question, to compare raters with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    """Id of the item."""
    system: str | None = None
    """The system of the caption, where one is shown at a time."""
    answer: Any
    """The answer as files of answers have it."""


class Design(BaseModel):
    """The design of a session; it is the same for all raters and never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    """Name of the task with images and references."""
    version: str
    """Version of the task."""
    questions: Questionnaire
    """The questions."""
    systems: tuple[str, ...] = Field(min_length=1)
    """The systems that wrote the captions of an item."""
    captions: tuple[str, ...]
    """Hash of each system's file."""
    seed: int = Field(ge=0)
    """Random seed for sampling items and for the order of items and captions."""
    sample: int | None = Field(ge=1)
    """Number of sampled items; None for all."""
    subset: bool
    """Whether captions may cover only a part of the documents."""
    references: bool
    """Whether raters see the references."""
    raters: tuple[str, ...] = ()
    """The raters, each with a link; empty if whoever opens the address may rate under any name."""
    per_item: int | None = Field(default=None, ge=1)
    """Number of raters of an item; None for all."""
    repeats: int = Field(default=0, ge=0)
    """Number of questions that each rater is asked again at the end."""
    known: tuple[KnownAnswer, ...] = ()
    """Answers that are known."""

    def to_json(self) -> dict[str, Any]:
        """Return the design as JSON values."""
        return self.model_dump(mode="json", exclude_defaults=True)


def design_text(design: Design, items: str) -> str:
    """Return the content of ``design.json``.

    Args:
        design: The design.
        items: SHA-256 of the file of items.
    """
    values = {_VERSION_KEY: _VERSION, **design.to_json(), _ITEMS: items}
    return json.dumps({**values, _CHECKSUM: checksum(values)}, indent=2, ensure_ascii=False) + "\n"


def read_design(path: Path) -> tuple[Design, str]:
    """Return a design, and the SHA-256 of the file of items.

    Raises:
        DataError: The file was changed, or is of another version.
        OSError: The file cannot be read.
        ValueError: The file is not JSON.
    """
    values = parse_json(path.read_text(encoding="utf-8"))
    if not isinstance(values, dict) or values.get(_VERSION_KEY) != _VERSION:
        raise DataError(f"{path}: is from another version of capbench", REMEDY)
    design = {name: value for name, value in values.items() if name not in (_VERSION_KEY, _ITEMS, _CHECKSUM)}
    # Some strings and numbers from JSON cannot be encoded again.
    with suppress(ValueError):
        if values.get(_CHECKSUM) == checksum(values):
            return Design.model_validate_json(json.dumps(design), strict=True), str(values.get(_ITEMS))
    raise changed(path)


def changed(path: Path) -> DataError:
    """Return the error for a file that was changed after the session began."""
    return DataError(f"{path}: was changed after the session began, so answers may not match it", REMEDY)


@dataclass(frozen=True)
class Step:
    """One question.

    Attributes:
        item: Index of the item.
        shown: Indices of the captions, in their order on the page; of battles those that can be drawn.
        again: Whether the question was asked before.
    """

    item: int
    shown: tuple[int, ...]
    again: bool = False


def in_order(names: Sequence[str], *seed: object) -> list[int]:
    """Return indices of names, sorted by SHA-256 of the seed and the name.

    Adding or removing names does not change the order of the others.

    Args:
        names: Distinct names.
        seed: Values that are hashed with each name.
    """
    drawn = [hashlib.sha256(json.dumps([*seed, name]).encode()).digest() for name in names]
    return sorted(range(len(names)), key=drawn.__getitem__)
