"""Cleans masks of small holes and islands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def without_small(mask: np.ndarray, least: int) -> np.ndarray:
    """Return a mask whose small holes are filled and small islands dropped, holes first.

    Pixels belong together that touch at an edge or a corner. Where all islands are small, the largest is kept. So does
    segment-anything (``remove_small_regions``).

    Args:
        mask: bool ``[height, width]``.
        least: Pixels that a hole or an island must have to stay.
    """
    holes, sizes = _parts(~mask)
    # Part 0 is the rest of the image.
    small = sizes < least
    small[0] = False
    filled = mask | small[holes]
    islands, sizes = _parts(filled)
    large = sizes >= least
    large[0] = False
    if not large.any() and len(sizes) > 1:
        large[1 + sizes[1:].argmax()] = True
    return large[islands]


def _parts(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the part that each pixel belongs to, 0 for none, and the sizes of the parts."""
    import numpy as np
    from scipy.ndimage import label

    found: Any = label(mask, np.ones((3, 3), int))
    parts, count = found
    return parts, np.bincount(parts.ravel(), minlength=count + 1)
