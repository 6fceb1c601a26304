"""Reads SugarCrepe as distributed: a JSON object of choices for each of its subsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ...rows import BadRow, Row, load_json

SUBSETS = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
_KEYS = ("filename", "caption", "negative_caption")


def choices(folder: Path) -> Iterator[Row | BadRow]:
    """Yield the choices of all subsets, each named by its subset and its key, which may leave numbers out.

    Args:
        folder: Holds the files.

    Raises:
        DataError: A file is missing, or is not as distributed.
    """
    for subset in SUBSETS:
        content = load_json(folder / f"{subset}.json", "'bench data sugarcrepe' lists the files.")
        if not isinstance(content, dict):
            raise DataError(f"{folder / subset}.json: is not a JSON object of choices")
        for key, row in content.items():
            if isinstance(row, dict) and all(isinstance(row.get(name), str) for name in _KEYS):
                yield {"id": f"{subset}-{key}", "subset": subset, **{name: row[name] for name in _KEYS}}
            else:
                yield BadRow(f"{subset}.json: {key}", f"has not the texts {', '.join(_KEYS)}")
