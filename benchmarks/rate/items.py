"""What is rated, and the file of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import DataError
from ...rows import parse_json
from .design import REMEDY, fault_lines


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


def line_of(item: RatedItem, systems: Sequence[str]) -> str:
    """Return the line of an item in ``items.jsonl``."""
    captions = dict(zip(systems, item.captions, strict=True))
    row = {"id": item.id, "image": item.image, "picture": item.picture}
    return json.dumps({**row, "captions": captions, "references": item.references}, ensure_ascii=False) + "\n"


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
