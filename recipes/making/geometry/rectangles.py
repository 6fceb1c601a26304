"""Largest free rectangles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....adapters.regions.packed_masks import WholeBox


def free_cells(hull: WholeBox, boxes: Sequence[WholeBox], scale: int) -> np.ndarray:
    """Return which cells of a hull no box covers.

    Args:
        hull: The hull, in pixels.
        boxes: What covers its pixels.
        scale: Side of a cell in pixels; pixels beyond the last whole cell are left out.

    Returns:
        bool ``[rows, columns]``: whether at least half of a cell's pixels are free.
    """
    left, top, right, bottom = hull
    rows, columns = max(bottom - top, 0) // scale, max(right - left, 0) // scale
    free = np.ones((rows * scale, columns * scale), np.uint8)
    for x1, y1, x2, y2 in boxes:
        free[max(y1 - top, 0) : max(y2 - top, 0), max(x1 - left, 0) : max(x2 - left, 0)] = 0
    counts = free.reshape(rows, scale, columns, scale).sum(axis=(1, 3), dtype=np.int64)
    return 2 * counts >= scale**2


def largest_rectangle(grid: np.ndarray) -> WholeBox | None:
    """Return the largest rectangle of a grid that is free throughout.

    Of several, the one that ends first on the right; of these, the one with the uppermost row that goes no further to
    the left, as in the released code of DetailCaps.

    Args:
        grid: Which cells are free, bool ``[rows, columns]``.

    Returns:
        Its edges in cells; None where no cell is free.
    """
    height, width = grid.shape
    rows = np.arange(height)
    # Of the rectangle that ends in a column and is as wide as a row's run of free cells: the width, and both ends.
    wide = np.zeros(height, np.int64)
    first, end = np.zeros(height, np.int64), np.full(height, height)
    best, area = None, 0
    for column in range(width):
        free = grid[:, column]
        above = np.maximum.accumulate(np.where(free, -1, rows)) + 1
        below = np.minimum.accumulate(np.where(free, height, rows)[::-1])[::-1]
        wide = np.where(free, wide + 1, 0)
        first = np.where(free, np.maximum(first, above), 0)
        end = np.where(free, np.minimum(end, below), height)
        areas = wide * (end - first)
        row = int(areas.argmax()) if height else 0
        if height and areas[row] > area:
            area = int(areas[row])
            best = (column + 1 - int(wide[row]), int(first[row]), column + 1, int(end[row]))
    return best
