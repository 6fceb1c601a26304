"""The items to rate, and their file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import DataError
from ...rows import parse_json
from ..records.hashes import checksum
from .questions import Questionnaire


@dataclass(frozen=True)
class RatedItem:
    """A document of a task with captions of its image.

    Attributes:
        id: Id of the document.
        image: Name of the image in the document, or else its id.
        references: References of the image.
        captions: Captions by system.
        picture: Name of the image file in the session; empty before it is written.
    """

    id: str
    image: str
    references: tuple[str, ...]
    captions: tuple[str, ...]
    picture: str = ""

    @property
    def first_equal(self) -> tuple[int, ...]:
        """For each caption, the index of the first equal one; whitespace differences are ignored."""
        texts = [text.split() for text in self.captions]
        return tuple(map(texts.index, texts))

    @property
    def has_choice(self) -> bool:
        """Whether its captions differ."""
        return any(self.first_equal)


class ItemRow(BaseModel):
    """A line of ``items.jsonl``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str
    image: str
    picture: str = Field(pattern=r"^[0-9a-f]{64}\.(jpg|png|gif|webp|bmp)$")
    captions: dict[str, str]
    references: list[str]


def items_of(path: Path, content: bytes, systems: Sequence[str]) -> tuple[RatedItem, ...]:
    """Parse the items of a file.

    Args:
        path: The file.
        content: Its content.
        systems: The systems that wrote the captions.

    Raises:
        DataError: A line is not an item of these systems.
    """
    rated: dict[str, RatedItem] = {}
    for number, line in enumerate(content.splitlines(), 1):
        place = f"{path}:{number}"
        try:
            row = ItemRow.model_validate(parse_json(line.decode()))
        except ValidationError as error:
            raise DataError(fault_lines(error, lambda _, place=place: place), REMEDY) from error
        except ValueError as error:
            raise DataError(f"{place}: is not JSON: {error}", REMEDY) from error
        if sorted(row.captions) != sorted(systems):
            raise DataError(f"{place}: captions: are of {_named(row.captions)}, not of {_named(systems)}", REMEDY)
        if row.id in rated:
            raise DataError(f"{place}: id: '{row.id}' is a duplicate of an earlier line", REMEDY)
        captions = tuple(row.captions[system] for system in systems)
        rated[row.id] = RatedItem(row.id, row.image, tuple(row.references), captions, row.picture)
    if not rated:
        raise DataError(f"{path}: has no items", REMEDY)
    return tuple(rated.values())


def _named(systems: Iterable[str]) -> str:
    return ", ".join(f"'{system}'" for system in systems) or "no system"


DESIGN = "design.json"
REMEDY = "Restore the file, or start a session in another folder (--output)."
_VERSION_KEY, _VERSION = "capbench_ratings", 2
_ITEMS, _CHECKSUM = "items", "checksum"


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
    text = path.read_text(encoding="utf-8")
    values = parse_json(text)
    if not isinstance(values, dict) or values.get(_VERSION_KEY) != _VERSION:
        raise DataError(f"{path}: is from another version of capbench", REMEDY)
    try:
        is_whole = values.get(_CHECKSUM) == checksum(values)
    except ValueError:
        # Some strings and numbers from JSON cannot be encoded again.
        is_whole = False
    if not is_whole:
        raise changed(path)
    design = {name: value for name, value in values.items() if name not in (_VERSION_KEY, _ITEMS, _CHECKSUM)}
    try:
        return Design.model_validate_json(json.dumps(design), strict=True), str(values.get(_ITEMS))
    except ValidationError as error:
        # Each key is on a separate line.
        lines = {line.split('"')[1]: at for at, line in enumerate(text.split("\n"), 1) if line.startswith('  "')}
        raise DataError(
            fault_lines(error, lambda key: f"{path}:{lines[key]}" if key in lines else str(path)), REMEDY
        ) from error


def changed(path: Path) -> DataError:
    """Return the error for a file that was changed after the session began."""
    return DataError(f"{path}: was changed after the session began, so answers may not match it", REMEDY)


def fault_lines(error: ValidationError, where: Callable[[str], str]) -> str:
    """Return validation errors of a file, one per line.

    Args:
        error: The validation error.
        where: Returns file and line of a key; the key is empty if the error has none.
    """
    lines: list[str] = []
    for fault in error.errors():
        keys = [str(key) for key in fault["loc"]]
        parts = [where(keys[0] if keys else ""), ".".join(keys), fault["msg"].removeprefix("Value error, ")]
        lines.append(": ".join(filter(None, parts)))
    return "\n".join(lines)


@dataclass(frozen=True)
class Step:
    """One question.

    Attributes:
        item: Index of the item.
        shown: Indices of the captions, in their order on the page.
    """

    item: int
    shown: tuple[int, ...]


def in_order(names: Sequence[str], *seed: object) -> list[int]:
    """Return indices of names, sorted by SHA-256 of the seed and the name.

    Adding or removing names does not change the order of the others.

    Args:
        names: Distinct names.
        seed: Values that are hashed with each name.
    """

    def drawn(number: int) -> bytes:
        return hashlib.sha256(json.dumps([*seed, names[number]]).encode()).digest()

    return sorted(range(len(names)), key=drawn)


def steps(items: Sequence[RatedItem], systems: Sequence[str], seed: int, rater: str, *, together: bool) -> list[Step]:
    """Return all steps of a rater, in order; a step with a single caption to choose from has no page.

    Args:
        items: The items.
        systems: The systems that wrote the captions.
        seed: The seed of the session.
        rater: The rater.
        together: Whether all captions of an item are on one page, equal ones only once.
    """
    order: list[Step] = []
    for number in in_order([item.id for item in items], seed, rater, "items"):
        shown = in_order(systems, seed, rater, items[number].id)
        if together:
            order.append(Step(number, tuple(caption for caption in shown if caption in items[number].first_equal)))
        else:
            order += [Step(number, (caption,)) for caption in shown]
    return order
