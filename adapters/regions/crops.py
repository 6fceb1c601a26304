"""Overlapping crops of an image, in which a segmenter finds what is too small in the whole."""

from __future__ import annotations

import math

Window = tuple[int, int, int, int]
"""Left, top, right, bottom in whole pixels; right and bottom are exclusive."""


def crop_windows(size: tuple[int, int], layers: int, overlap: float) -> list[tuple[int, Window]]:
    """Return the whole image, then the crops of each layer, with the layer; column by column within one.

    Layer i has 2^i crops a side.

    Args:
        size: Width and height in pixels.
        layers: How many layers of crops beside the whole.
        overlap: Share of the shorter side by which crops of the first layer overlap; half of it in the next, and so on.
    """
    width, height = size
    found = [(0, (0, 0, width, height))]
    for layer in range(1, layers + 1):
        count = 2**layer
        shared = int(overlap * min(size) * (2 / count))
        wide, high = (math.ceil((shared * (count - 1) + side) / count) for side in size)
        found += [
            (layer, (x, y, min(x + wide, width), min(y + high, height)))
            for x in (int((wide - shared) * column) for column in range(count))
            for y in (int((high - shared) * row) for row in range(count))
        ]
    return found
