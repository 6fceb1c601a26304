"""From the many boxes of a segmenter to the few that are worth a caption, as DetailCaps has it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ....adapters.regions.packed_masks import WholeBox
from ....errors import UsageError


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


_LEAST, _MOST = 0.001, 0.9
_CLUSTERS, _STARTS, _STEPS = 10, 10, 300
_CUT, _RECTANGLES, _SCALE, _WORTH = 3, 2, 4, 0.3


def clustered_boxes(
    boxes: np.ndarray, size: tuple[int, int], *, rectangles: Literal["released", "whole"] = "released"
) -> list[WholeBox]:
    """Return the few boxes of an image that hold what its many boxes hold.

    Boxes with an area of 0.1 % to 90 % of the image are clustered by edges and centre (k-means, 10 clusters or one a
    box), and each cluster becomes the hull of its boxes. Hulls that overlap or nearly touch are united, in one pass.
    The 3 largest are then replaced by what the others leave free of them: up to 2 rectangles each, of at least 30 %.
    Source: Dong et al., DetailCaps (2024), §4.1; the released ``bbox_cluster.py``.

    Args:
        boxes: Left, top, right, bottom in pixels, ``[n, 4]``.
        size: Width and height of the image in pixels.
        rectangles: Whether a free rectangle is a cell (4 pixels) short on the right and at the bottom, as in the
            release, which takes the last cell's place for its end; or whole.

    Returns:
        The boxes in whole pixels: hulls, the largest first, then rectangles. Empty where no box is of that size.

    Raises:
        UsageError: They are no boxes, the image has no pixels, or ``rectangles`` is neither.
    """
    found = np.asarray(boxes, np.float64)
    found = found.reshape(0, 4) if found.size == 0 else found
    if found.ndim != 2 or found.shape[1] != 4 or not np.isfinite(found).all():
        raise UsageError(f"boxes of the shape {list(np.shape(boxes))} are no boxes", "They are finite, [n, 4].")
    if min(size) < 1:
        raise UsageError(f"an image of {size[0]} x {size[1]} pixels has no boxes", "Give width and height.")
    if rectangles not in ("released", "whole"):
        raise UsageError(f"rectangles={rectangles} is not known.", "Known are released, whole.")
    sides = np.maximum(found[:, 2:] - found[:, :2], 0)
    shares = sides.prod(axis=1) / (size[0] * size[1])
    found = found[(shares >= _LEAST) & (shares <= _MOST)]
    if not len(found):
        return []
    united = united_hulls(hulls(found, k_means(with_centres(found), _CLUSTERS)))
    return cut_hulls(united, 0 if rectangles == "whole" else 1)


def with_centres(boxes: np.ndarray) -> np.ndarray:
    """Return boxes with their centres: x1, y1, x2, y2, centre x, centre y, ``[n, 6]``."""
    return np.hstack([boxes, (boxes[:, :2] + boxes[:, 2:]) / 2])


def k_means(points: np.ndarray, clusters: int, seed: int = 0) -> np.ndarray:
    """Return the cluster of each point, by the best of 10 starts (k-means++), as int ``[n]``.

    Args:
        points: ``[n, d]``.
        clusters: How many; no more than there are different points.
        seed: Of the starts.
    """
    rng = np.random.default_rng(seed)
    different = np.unique(points, axis=0)
    count = min(clusters, len(different))
    best, least = np.zeros(len(points), np.int64), math.inf
    for _ in range(_STARTS):
        labels, error = settled(points, _starting_centres(different, count, rng))
        if error < least:
            best, least = labels, error
    return best


def settled(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, float]:
    """Move centres to the mean of the points that are nearest to them until no point changes (Lloyd).

    A centre that no point is nearest to stays where it is.

    Args:
        points: ``[n, d]``.
        centres: ``[k, d]``.

    Returns:
        The nearest centre of each point, the first of equal ones, and the sum of squared distances.
    """
    centres = centres.copy()
    labels = np.full(len(points), -1)
    distances = np.zeros((len(points), len(centres)))
    for _ in range(_STEPS):
        distances = ((points[:, None] - centres) ** 2).sum(axis=2)
        nearest = distances.argmin(axis=1)
        if (nearest == labels).all():
            break
        labels = nearest
        for one in np.unique(labels):
            centres[one] = points[labels == one].mean(axis=0)
    return labels, float(distances.min(axis=1).sum())


def hulls(boxes: np.ndarray, labels: np.ndarray) -> list[WholeBox]:
    """Return the hull of the boxes of each label, in whole pixels, by label."""
    return [_hull(boxes[labels == one]) for one in np.unique(labels)]


def united_hulls(boxes: Sequence[WholeBox]) -> list[WholeBox]:
    """Unite boxes that overlap or nearly touch, in one pass.

    The smallest box takes all others with which its GIoU is above 0, or of whose common hull less than 10 % is covered
    by neither, and becomes the hull of them; then the smallest of the rest.

    Args:
        boxes: None of them empty.
    """
    left = np.asarray(sorted(boxes, key=_area), np.float64).reshape(-1, 4)
    united = []
    while len(left):
        taken = _belong(left[0], left)
        taken[0] = True
        united.append(_hull(left[taken]))
        left = left[~taken]
    return united


def cut_hulls(boxes: Sequence[WholeBox], short: int) -> list[WholeBox]:
    """Replace the 3 largest boxes by what the others leave free of them.

    Args:
        boxes: In whole pixels.
        short: Cells that a rectangle is short on the right and at the bottom: 1 in the release.
    """
    falling = sorted(boxes, key=_area, reverse=True)
    kept = falling[_CUT:]
    for hull in falling[:_CUT]:
        free = free_cells(hull, kept, _SCALE)
        for _ in range(_RECTANGLES):
            if not free.size or free.mean() < _WORTH:
                break
            found = largest_rectangle(free)
            if found is None:
                break
            left, top, right, bottom = found[0], found[1], found[2] - short, found[3] - short
            free[top:bottom, left:right] = False
            if _area((left, top, right, bottom)) / free.size < _WORTH:
                break
            x, y = hull[:2]
            kept.append((x + left * _SCALE, y + top * _SCALE, x + right * _SCALE, y + bottom * _SCALE))
    return kept


def _starting_centres(points: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return different points, each drawn by its squared distance to those before it (k-means++)."""
    centres = [points[rng.integers(len(points))]]
    squared = np.full(len(points), math.inf)
    while len(centres) < count:
        squared = np.minimum(squared, ((points - centres[-1]) ** 2).sum(axis=1))
        centres.append(points[rng.choice(len(points), p=squared / squared.sum())])
    return np.stack(centres)


def _belong(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Return which boxes a box is to be united with."""
    inner = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    shared = np.maximum(inner, 0).prod(axis=1)
    outer = np.maximum(box[2:], boxes[:, 2:]) - np.minimum(box[:2], boxes[:, :2])
    hull = outer.prod(axis=1)
    union = (box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) - shared
    gap = (hull - union) / hull
    return (shared / union - gap > 0) | (gap < 0.1)


def _hull(boxes: np.ndarray) -> WholeBox:
    left, top = np.floor(boxes[:, :2].min(axis=0)).astype(int).tolist()
    right, bottom = np.ceil(boxes[:, 2:].max(axis=0)).astype(int).tolist()
    return left, top, right, bottom


def _area(box: WholeBox) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])
