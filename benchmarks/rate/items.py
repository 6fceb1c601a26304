"""What is rated, and the file of it."""

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
    """A document of a task, and the captions of its image.

    Attributes:
        id: The document's.
        image: What the document calls its image; its id where that is no name.
        references: The references of the image.
        captions: What each system wrote.
        picture: Name of the file of the image among those of the session; empty before there is one.
    """

    id: str
    image: str
    references: tuple[str, ...]
    captions: tuple[str, ...]
    picture: str = ""

    @property
    def first_equal(self) -> tuple[int, ...]:
        """For each caption the number of the first that is equal to it, whatever white space is between words."""
        texts = [text.split() for text in self.captions]
        return tuple(map(texts.index, texts))

    @property
    def has_choice(self) -> bool:
        """Whether its captions are not all equal."""
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
    """Return the items of a file.

    Args:
        path: The file.
        content: What it holds.
        systems: What wrote the captions of each item.

    Raises:
        DataError: A line holds no item of these systems.
    """
    found: dict[str, RatedItem] = {}
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
        if row.id in found:
            raise DataError(f"{place}: id: '{row.id}' stands in an earlier line, too", REMEDY)
        captions = tuple(row.captions[system] for system in systems)
        found[row.id] = RatedItem(row.id, row.image, tuple(row.references), captions, row.picture)
    if not found:
        raise DataError(f"{path}: holds no item", REMEDY)
    return tuple(found.values())


def _named(systems: Iterable[str]) -> str:
    return ", ".join(f"'{system}'" for system in systems) or "no system"


DESIGN = "design.json"
REMEDY = "Restore the file, or begin a session in another folder (--output)."
_VERSION_KEY, _VERSION = "capbench_ratings", 2
_ITEMS, _CHECKSUM = "items", "checksum"


class Design(BaseModel):
    """What decides which answers are asked for; it is the same for all raters, and never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    """Name of the task that gives images and references."""
    version: str
    """That of the task."""
    questions: Questionnaire
    """What is asked."""
    systems: tuple[str, ...] = Field(min_length=1)
    """What wrote the captions of an item."""
    captions: tuple[str, ...]
    """Hash of each system's file."""
    seed: int = Field(ge=0)
    """Decides the order of items and captions, and which are drawn."""
    sample: int | None = Field(ge=1)
    """How many items were drawn; None for all."""
    subset: bool
    """Whether captions may be of a part of the documents."""
    references: bool
    """Whether raters see the references."""

    def to_json(self) -> dict[str, Any]:
        """Return the design as JSON values."""
        return self.model_dump(mode="json", exclude_defaults=True)


def design_text(design: Design, items: str) -> str:
    """Return what ``design.json`` holds.

    Args:
        design: The design.
        items: SHA-256 of the file of items.
    """
    values = {_VERSION_KEY: _VERSION, **design.to_json(), _ITEMS: items}
    return json.dumps({**values, _CHECKSUM: checksum(values)}, indent=2, ensure_ascii=False) + "\n"


def read_design(path: Path) -> tuple[Design, str]:
    """Return a design, and the SHA-256 of the file of items.

    Raises:
        DataError: It is not what was written, or was written by another version.
        OSError: It cannot be read.
        ValueError: It is not JSON.
    """
    text = path.read_text(encoding="utf-8")
    values = parse_json(text)
    if not isinstance(values, dict) or values.get(_VERSION_KEY) != _VERSION:
        raise DataError(f"{path}: is not of this version of capbench", REMEDY)
    try:
        is_whole = values.get(_CHECKSUM) == checksum(values)
    except ValueError:
        # Of a text that cannot be written, or a number past all that can.
        is_whole = False
    if not is_whole:
        raise changed(path)
    design = {name: one for name, one in values.items() if name not in (_VERSION_KEY, _ITEMS, _CHECKSUM)}
    try:
        return Design.model_validate_json(json.dumps(design), strict=True), str(values.get(_ITEMS))
    except ValidationError as error:
        # A key stands in a line of its own, as it was written.
        lines = {line.split('"')[1]: at for at, line in enumerate(text.split("\n"), 1) if line.startswith('  "')}
        raise DataError(
            fault_lines(error, lambda key: f"{path}:{lines[key]}" if key in lines else str(path)), REMEDY
        ) from error


def changed(path: Path) -> DataError:
    """Return the error for a file that is not what was written when a session began."""
    return DataError(f"{path}: is not what was written when the session began, and answers are of that", REMEDY)


def fault_lines(error: ValidationError, where: Callable[[str], str]) -> str:
    """Return each fault of a file's values in a line.

    Args:
        error: What was found.
        where: Gives file and line of a key; of the empty one where a fault is of no key.
    """
    lines: list[str] = []
    for fault in error.errors():
        keys = [str(key) for key in fault["loc"]]
        said = [where(keys[0] if keys else ""), ".".join(keys), fault["msg"].removeprefix("Value error, ")]
        lines.append(": ".join(filter(None, said)))
    return "\n".join(lines)


@dataclass(frozen=True)
class Step:
    """One answer that is asked for.

    Attributes:
        item: Number of the item.
        shown: Numbers of the captions, as they stand on the page from the first.
    """

    item: int
    shown: tuple[int, ...]


def in_order(names: Sequence[str], *seed: object) -> list[int]:
    """Return the numbers of some names as the SHA-256 of the seed and each name puts them.

    Names that are added or taken away leave the order of the others as it is.

    Args:
        names: The names; no two are equal.
        seed: What else decides the order.
    """

    def drawn(number: int) -> bytes:
        return hashlib.sha256(json.dumps([*seed, names[number]]).encode()).digest()

    return sorted(range(len(names)), key=drawn)


def steps(items: Sequence[RatedItem], systems: Sequence[str], seed: int, rater: str, *, together: bool) -> list[Step]:
    """Return what a rater meets, in order; a single caption on a page is nothing to choose from, and not asked.

    Args:
        items: What is rated.
        systems: What wrote the captions of an item.
        seed: The seed of the session.
        rater: Who rates.
        together: Whether the captions of an item are on one page, where equal ones stand as the first of them; else one
            follows the other.
    """
    found: list[Step] = []
    for number in in_order([item.id for item in items], seed, rater, "items"):
        shown = in_order(systems, seed, rater, items[number].id)
        if together:
            found.append(Step(number, tuple(one for one in shown if one in items[number].first_equal)))
        else:
            found += [Step(number, (one,)) for one in shown]
    return found
