"""What passes through the stages of a maker: an image, what is known of it, and where that came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from ...adapters import ImageHandle
from ...errors import DataError


class RowFile:
    """Rows that were written to a file, and are read from its start as often as they are wanted.

    Attributes:
        path: The file.
        keys: The values that every row has.
        have_images: Whether every row has an image.

    Args:
        path: Where the file is written; the draft of one process, which goes with it.
        rows: The rows, in order; their values are JSON.
    """

    def __init__(self, path: Path, rows: Iterable[MakingRow]) -> None:
        self.path = path
        self.keys: frozenset[str] = frozenset()
        self.have_images = True
        self._count = 0
        with path.open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(f"{json.dumps(row.to_values())}\n")
                self.keys = self.keys.intersection(row.values) if self._count else frozenset(row.values)
                self.have_images &= row.image is not None
                self._count += 1

    def __len__(self) -> int:
        """Return how many rows there are."""
        return self._count

    def __iter__(self) -> Iterator[MakingRow]:
        """Yield the rows, one at a time."""
        with self.path.open("rb") as lines:
            yield from map(MakingRow.of_line, lines)

    def remove(self) -> None:
        """Remove the file; nobody reads the rows again."""
        self.path.unlink()


Values: TypeAlias = Mapping[str, Any]
"""JSON values."""


@dataclass(frozen=True)
class MakingRow:
    """An image with what is known of it.

    Attributes:
        id: Its name.
        image: Its file; None for rows of texts alone.
        values: What was given, and what stages made.
        provenance: What each stage says of what it made: ``stage``, ``model``, ``prompt``, ``seed``, ``removed``, …
        passing: Whether another run may make more of it, as a model or its server failed; it is not kept then.
        image_digest: Tells the image from others: of the file's bytes, where they can be read.
    """

    id: str
    image: Path | None = None
    values: Values = field(default_factory=dict[str, Any])
    provenance: tuple[Values, ...] = ()
    passing: bool = False
    image_digest: str = ""

    def having(self, stage: str, told: Values, **values: Any) -> MakingRow:
        """Return the row with what a stage made.

        Args:
            stage: The stage.
            told: What it says of where that came from.
            **values: What it made.
        """
        return replace(self, values={**self.values, **values}, provenance=(*self.provenance, {"stage": stage, **told}))

    @property
    def file(self) -> Path:
        """The image's file.

        Raises:
            DataError: There is none.
        """
        if self.image is None:
            raise DataError(f"row {self.id} has no image", "Give images with --data, or leave the stage out.")
        return self.image

    @property
    def pixels(self) -> ImageHandle:
        """The image; see ``file``."""
        return ImageHandle(self.file)

    def to_values(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        image = None if self.image is None else str(self.image)
        return {
            "id": self.id,
            "image": image,
            "image_digest": self.image_digest,
            "values": self.values,
            "provenance": list(self.provenance),
        }

    @classmethod
    def of_values(cls, values: Values) -> MakingRow:
        """Return the row that JSON values hold."""
        image = None if values["image"] is None else Path(values["image"])
        provenance = tuple(values["provenance"])
        return cls(values["id"], image, values["values"], provenance, image_digest=values["image_digest"])

    @classmethod
    def of_line(cls, line: str | bytes) -> MakingRow:
        """Return the row that a line of JSON holds."""
        return cls.of_values(json.loads(line))


@dataclass(frozen=True)
class Unmade:
    """What a stage could not make of a row.

    Attributes:
        reason: Why, in words.
        passing: Whether another run may make it, as a model or its server failed; it is not kept then.
    """

    reason: str
    passing: bool = False


Made: TypeAlias = MakingRow | Unmade


def key_of(row: MakingRow) -> str:
    """Return a text that changes with everything that a stage can see of a row; not with where its image lies."""
    return json.dumps([row.id, row.image_digest, row.values, list(row.provenance)], sort_keys=True, ensure_ascii=False)


def digest_of(*parts: object) -> str:
    """Return a hash of JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
