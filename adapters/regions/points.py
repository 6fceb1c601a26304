"""Where segmenters are told to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import AdapterError

if TYPE_CHECKING:
    import numpy as np


def wanted_points(
    points: np.ndarray | None, grid: int | None, size: tuple[int, int], default: int | None = None
) -> np.ndarray:
    """Return the points of an image at which regions are looked for.

    Args:
        points: x and y in pixels, ``[n, 2]``; see ``Segmenter.masks``.
        grid: Points a side.
        size: Width and height of the image in pixels.
        default: The grid where neither is given.

    Returns:
        x and y in pixels, float64 ``[n, 2]``; of a grid row by row, each in the middle of its cell.

    Raises:
        AdapterError: Both are given, or they are no points.
    """
    import numpy as np

    if points is not None and grid is not None:
        raise AdapterError("regions are asked for at points and on a grid.", "Give one of the two.")
    if points is not None:
        found = np.asarray(points, np.float64)
        if found.ndim != 2 or found.shape[1] != 2 or not np.isfinite(found).all():
            raise AdapterError(
                f"points of the shape {list(np.shape(points))} are not x and y.", "They are finite numbers, [n, 2]."
            )
        if (found < 0).any() or (found >= size).any():
            raise AdapterError(
                f"a point lies outside the image of {size[0]} x {size[1]} pixels.", "Points are x, y in pixels."
            )
        return found
    side = default if grid is None else grid
    if not isinstance(side, int) or side < 1:
        raise AdapterError(f"grid={side} has no points.", "It is how many points a side has, 1 or more.")
    along = (np.arange(side) + 0.5) / side
    return np.stack([np.tile(along, side) * size[0], np.repeat(along, side) * size[1]], axis=1)
