"""Reads nocaps-FOIL caption by caption, the true one and its copy with a wrong noun."""

from collections.abc import Iterator
from pathlib import Path

from ...rows import BadRow, Row
from ..json_array import elements

FILE = "nocaps-val-foil.json"
_TEXTS = ("baseline", "foil", "image_path", "domain")


def captions(folder: Path) -> Iterator[Row | BadRow]:
    """Yield both captions of each pair.

    Args:
        folder: Holds ``nocaps-val-foil.json``.

    Yields:
        ``id``, ``image`` (its file's name), ``caption``, ``references``, ``domain`` and ``foil``, whether the caption
        is the copy; a ``BadRow`` for a pair that cannot be used.

    Raises:
        DataError: The file is missing or not of its format.
    """
    for number, pair in enumerate(elements(folder / FILE)):
        texts = [pair.get(key) for key in _TEXTS] if isinstance(pair, dict) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            yield BadRow(f"{FILE}[{number}]", f"has no {', '.join(_TEXTS[:-1])} and {_TEXTS[-1]} that are texts")
            continue
        *both, image, domain = texts
        for is_foil, caption in enumerate(both):
            yield {
                "id": f"{image}-{('true', 'foil')[is_foil]}",
                "image": image,
                "caption": caption,
                "references": pair.get("references"),
                "domain": domain,
                "foil": bool(is_foil),
            }
