"""What released code printed, and what it was given: any machine can compute the same, and see whether it does.

A file says under ``made_by`` (or ``note``) which code printed its values, on what.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..items import Items


def read_golden(name: str) -> dict[str, Any]:
    """Return golden values.

    Args:
        name: Name of the file, without its ending.
    """
    return json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))


def golden_items(
    candidates: Sequence[str], references: Sequence[Sequence[str]], weights: Sequence[int] | None = None, **more: Any
) -> Items:
    """Return items of captions that released code was given, numbered from 0, each weighing 1 unless said.

    Args:
        candidates: The captions.
        references: The references of each.
        weights: Whole numbers.
        **more: Other fields of the items, such as images.
    """
    return Items(
        ids=[str(number) for number in range(len(candidates))],
        candidates=list(candidates),
        references=[tuple(texts) for texts in references],
        weights=np.asarray([1] * len(candidates) if weights is None else weights),
        **more,
    )
