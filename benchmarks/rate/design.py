"""What decides which answers are asked for, and the file of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import DataError
from ...rows import parse_json
from ..records.hashes import checksum
from .questions import Questionnaire

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
    if not _is_whole(values):
        raise changed(path)
    design = {name: one for name, one in values.items() if name not in (_VERSION_KEY, _ITEMS, _CHECKSUM)}
    try:
        return Design.model_validate_json(json.dumps(design), strict=True), str(values.get(_ITEMS))
    except ValidationError as error:
        raise DataError(fault_lines(error, partial(_where, path, text)), REMEDY) from error


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


def _is_whole(values: Mapping[str, Any]) -> bool:
    try:
        return values.get(_CHECKSUM) == checksum(values)
    except ValueError:
        # Of a text that cannot be written, or a number past all that can.
        return False


def _where(path: Path, text: str, key: str) -> str:
    """Return file and line of a key that stands in a line of its own, as it was written."""
    lines = (number for number, line in enumerate(text.split("\n"), 1) if line.startswith(f'  "{key}":'))
    return ":".join(map(str, (path, *islice(lines, 1))))
