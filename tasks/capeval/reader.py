"""Reads the checklists of CAPEval as distributed."""

from collections.abc import Iterator
from pathlib import Path

from ...rows import BadRow, Row, read_rows

_LISTS = ("instance", "attribute", "relation", "image", "text", "human", "ui", "world_knowledge")
_CATEGORIES = {"SO": "Scene & Object", "PA": "People & Activity", "TI": "Text & Interface", "DK": "Design & Knowledge"}


def checklists(folder: Path, file: str) -> Iterator[Row | BadRow]:
    """Yield the images with the items of their checklists, in the order in which the judge is shown them.

    Args:
        folder: Holds the file.
        file: A row an image: ``img_path``, and lists such as ``attribute_checklist`` of ``{Tags, Question}``.

    Yields:
        ``img_path``, its ``category`` by the first letters of the name, and ``items``: mappings of ``question``,
        ``tags`` and ``type``; a ``BadRow`` for an image without.

    Raises:
        DataError: The file is missing or cannot be read.
    """
    for number, row in enumerate(read_rows(folder / file), 1):
        if isinstance(row, BadRow):
            yield row
            continue
        try:
            name = row["img_path"]
            items = [
                {"question": item["Question"].strip(), "tags": item["Tags"] or "", "type": f"{kind}_checklist"}
                for kind in _LISTS
                for item in row.get(f"{kind}_checklist") or ()
                if item["Question"].strip()
            ]
            yield {"img_path": name, "category": _CATEGORIES[name[:2]], "items": items}
        except (AttributeError, KeyError, TypeError) as error:
            yield BadRow(f"{file}: row {number}", f"is no checklist of CAPEval: {type(error).__name__}: {error}")
