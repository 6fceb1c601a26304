"""How alike an encoder finds the entries of an image and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...adapters import ImageHandle
from ...metrics.contract import Context
from ...metrics.vectors.features import image_features, text_features
from .mask_texts import boxes_of_entries
from .models import MakerModels
from .rows import MakingRow


def named_texts(row: MakingRow) -> dict[str, dict[str, str]]:
    """Return of each entry its first summary (``sum``) and its negatives (``swaps_0``, …), by DCI's names."""
    return {
        key: {
            "sum": row.values["summaries"][key][0],
            **{
                f"{kind}_{number}": text for kind, texts in kinds.items() for number, text in enumerate(texts)
            },
        }
        for key, kinds in row.values["negatives"].items()
    }


def similarities(rows: Sequence[MakingRow], models: MakerModels) -> list[dict[str, dict[str, float]] | str]:
    """Return for each row, by entry and text, the cosine of the crop and the text; or why its image cannot be read.

    A crop is the bounding box of the mask.

    Raises:
        AdapterError: The encoder failed as a whole.
    """
    context = Context(models.cache, encoder=models["encoder"])
    places = [
        (number, key, text)
        for number, row in enumerate(rows)
        for key, texts in named_texts(row).items()
        for text in texts.values()
    ]
    crops = [_crop(rows[number], key) for number, key, _ in places]
    images, texts = image_features(crops, context), text_features([text for *_, text in places], context)
    cosines = np.einsum(
        "nd,nd->n", images.of_inputs().astype(np.float64), texts.of_inputs().astype(np.float64)
    )
    found: list[dict[str, dict[str, float]] | str] = [{} for _ in rows]
    for at, (number, key, text) in enumerate(places):
        its = found[number]
        if at in images.failures:
            found[number] = f"image: {images.failures[at]}"
        elif isinstance(its, dict):
            its.setdefault(key, {})[text] = float(cosines[at])
    return found


def _crop(row: MakingRow, key: str) -> ImageHandle:
    box = boxes_of_entries(row.values)[key]
    if box is None:
        return row.pixels
    left, top, right, bottom = map(float, box)
    return replace(row.pixels, box=(left, top, right, bottom))
