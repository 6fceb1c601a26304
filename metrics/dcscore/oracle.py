"""The facts that people wrote of images, from a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import DataError, MetricError
from ...rows import BadRow, read_rows
from ..score_file import bare_name
from .answers import Fact

_HINT = (
    'A row is {"image_name": NAME, "oracle_caption": TEXT, "oracle_facts": [TEXT, ...]}, as in DeCapBench\'s '
    "eval/human_annotated_oracle_facts.jsonl."
)


@dataclass(frozen=True)
class Known:
    """What is known of an image.

    Attributes:
        caption: What a person wrote of it.
        facts: The facts of that, one or more.
    """

    caption: str
    facts: tuple[Fact, ...]


def read_oracle(path: Path) -> dict[str, Known]:
    """Return what is known of each image, by its name without folders and suffix.

    Facts that people wrote are all relevant, as released.

    Raises:
        MetricError: The file cannot be read, or a row is not as it must be, or of an image that another is of.
    """
    found: dict[str, Known] = {}
    try:
        for number, row in enumerate(read_rows(path), 1):
            if isinstance(row, BadRow):
                raise MetricError(f"{row.place}: {row.reason}", _HINT)
            try:
                name, known = _read(row)
            except ValueError as error:
                raise MetricError(f"{path}: row {number}: {error}", _HINT) from None
            if name in found:
                raise MetricError(
                    f"{path}: row {number}: a second row of image '{name}'", "Remove one of them."
                )
            found[name] = known
    except DataError as error:
        raise MetricError(error.message, error.hint or _HINT) from error
    if not found:
        raise MetricError(f"{path}: holds no row", _HINT)
    return found


def _read(row: dict[str, Any]) -> tuple[str, Known]:
    name, caption, facts = (row.get(key) for key in ("image_name", "oracle_caption", "oracle_facts"))
    for key, value in (("image_name", name), ("oracle_caption", caption)):
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"has no {key}")
    if not isinstance(facts, list) or not facts:
        raise ValueError("has no list of oracle_facts")
    # The released file has a blank one, which counts.
    if not all(isinstance(one, str) for one in facts):
        raise ValueError("has an entry of oracle_facts that is no text")
    return bare_name(str(name)), Known(str(caption), tuple(Fact(one, relevant=True) for one in facts))
