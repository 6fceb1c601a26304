"""Reads ARO: the choices of Visual Genome as distributed, and captions with their frozen shuffles."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...rows import BadRow, Row, is_number, read_rows
from ..json_array import elements

_BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")


def relations(folder: Path) -> Iterator[Row | BadRow]:
    """Yield the choices of VG-Relation; their category is the relation.

    Args:
        folder: Holds ``visual_genome_relation.json``.
    """
    yield from _choices(folder / "visual_genome_relation.json", lambda row: row["relation_name"])


def attributes(folder: Path) -> Iterator[Row | BadRow]:
    """Yield the choices of VG-Attribution; their category is the pair of attributes.

    Args:
        folder: Holds ``visual_genome_attribution.json``.
    """
    yield from _choices(folder / "visual_genome_attribution.json", lambda row: "_".join(row["attributes"][:2]))


def _choices(path: Path, category_of: Any) -> Iterator[Row | BadRow]:
    for number, row in enumerate(elements(path)):
        try:
            left, top, width, height = (row[edge] for edge in _BOX)
            if not all(map(is_number, (left, top, width, height))):
                raise TypeError
            yield {
                "id": str(number),
                "image": row["image_path"],
                "box": [left, top, left + width, top + height],
                "caption": row["true_caption"],
                "negative": row["false_caption"],
                "category": category_of(row),
            }
        except (KeyError, TypeError, IndexError):
            yield BadRow(
                f"{path.name}: case {number}", "is not as distributed: it lacks a box, a caption or its category"
            )


def order(folder: Path, file: str) -> Iterator[Row | BadRow]:
    """Yield captions with their four shuffles, as ``capbench.tasks.aro.shuffles`` froze them.

    Args:
        folder: Holds the file.
        file: Its name. Its first row has the hash of the others.

    Raises:
        DataError: The file is missing, or is not as it was frozen.
    """
    path = folder / file
    remedy = "python -m capbench.tasks.aro.shuffles makes it anew; 'bench data aro_coco_order' says of what."
    if not path.is_file():
        raise DataError(f"{path}: there is no such file", remedy)
    rows = read_rows(path)
    head = next(rows, None)
    recorded = head.get("sha256") if isinstance(head, dict) else None
    sha256 = hashlib.sha256(path.read_bytes().partition(b"\n")[2]).hexdigest()
    if recorded != sha256:
        raise DataError(f"{path}: its rows have the hash {sha256}, and its first row says {recorded}", remedy)
    yield from rows
