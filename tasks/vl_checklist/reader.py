"""Reads VL-CheckList as distributed: a JSON list of choices for each aspect of each source."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...rows import BadRow, Row
from ..json_array import elements

MOST = 1000
"""Rows of a file that are used: half of ``MAX_NUM: 2000``, as the released configuration has it."""
_IMAGES = {"vg": "vg", "vaw": "vg", "swig": "swig", "hake": "hake"}
"""The folder of each source's images."""
_OBJECT = (
    *(("Size", aspect) for aspect in ("large", "medium", "small")),
    *(("Location", aspect) for aspect in ("center", "mid", "margin")),
)
_ROLES = ("agent", "destination", "item", "tool")


def choices(folder: Path) -> Iterator[Row | BadRow]:
    """Yield of each file the first 1,000 choices whose image is there, with the first true and the first false phrase.

    As in the released code a later choice takes the place of one without its image; here such a one is named.
    Source: om-ai-lab/VL-CheckList, ``data_loader.py`` and ``evaluate.py``; ``corpus/v1`` says which files there are.

    Args:
        folder: Holds ``data`` of the repository, and the images in ``vg``, ``swig`` and ``hake``.

    Raises:
        DataError: A file or a folder of images is missing, or a file is no JSON list.
    """
    for source in ("vg", "swig", "hake"):
        if not (folder / source).is_dir():
            raise DataError(
                f"{folder} has no folder {source} with images",
                "Which choices are used depends on them; 'bench data vl_checklist' says where they are.",
            )
    for name, path in files():
        count = 0
        for number, row in enumerate(elements(folder / "data" / path)):
            if count == MOST:
                break
            choice = _choice(row)
            if choice is None:
                yield BadRow(f"{path}: row {number}", "is not [image, {POS: [text], NEG: [text]}]")
                continue
            image, true, false = choice
            image = f"{_IMAGES[name.split('/')[2]]}/{image}"
            if not (folder / image).is_file():
                yield BadRow(f"{path}: row {number}", f"{image} is not there; a later row takes its place")
                continue
            count += 1
            yield {
                "id": f"{path.removesuffix('.json')}-{number}",
                "image": image,
                "category": name,
                "caption": true,
                "negative": false,
            }


def files() -> Iterator[tuple[str, str]]:
    """Yield the category of each file (kind, aspect, source, file), and its path below ``data``."""
    for group, aspect in _OBJECT:
        lower = group.lower()
        for part in ("obj", "subj"):
            yield f"Object/{aspect}/vg/{part}", f"Object/{group}/vg_{lower}/vg_{part}_{aspect}.json"
        for role in _ROLES:
            path = f"Object/{group}/swig_{lower}/swig_{role}/swig_{role}_{aspect}.json"
            yield f"Object/{aspect}/swig/{role}", path
        yield f"Object/{aspect}/hake/obj", f"Object/{group}/hake_{lower}/hake_obj_{aspect}.json"
    for aspect in ("color", "material", "action", "size", "state"):
        for source in ("vg", "vaw"):
            yield f"Attribute/{aspect}/{source}/{source}", f"Attribute/{source}/{aspect}.json"
    for source, path in (("vg", "vg/action"), ("swig", "swig_action"), ("hake", "hake_action")):
        yield f"Relation/action/{source}/{source}", f"Relation/{path}.json"
    yield "Relation/spatial/vg/vg", "Relation/vg/spatial.json"


def _choice(row: Any) -> tuple[str, str, str] | None:
    """Return the image, the first true and the first false phrase; None if a row has not all of them."""
    try:
        image, texts = row
        choice = image, texts["POS"][0], texts["NEG"][0]
    except (TypeError, ValueError, KeyError, IndexError):
        return None
    return choice if all(isinstance(part, str) for part in choice) else None
