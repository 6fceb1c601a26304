"""Non-maximum suppression of boxes, whatever they are of."""

from __future__ import annotations

import numpy as np


def kept_boxes(boxes: np.ndarray, scores: np.ndarray, most: float) -> np.ndarray:
    """Return the boxes that no better one overlaps, the best first.

    Args:
        boxes: Left, top, right, bottom, ``[n, 4]``. A box without area overlaps none.
        scores: How good they are, ``[n]``; of equal ones the first is the better.
        most: IoU above which a box goes.

    Returns:
        Their positions, int64 ``[kept]``.
    """
    left = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    edges = np.asarray(boxes, np.float64).reshape(-1, 4)[left]
    kept = []
    while len(left):
        kept.append(left[0])
        stays = ~(_overlaps(edges[0], edges) > most)
        stays[0] = False
        left, edges = left[stays], edges[stays]
    return np.array(kept, np.int64)


def _overlaps(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Return the IoU of a box and others, 0 where neither has an area."""
    shared = np.maximum(np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2]), 0).prod(axis=1)
    union = (box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) - shared
    return np.divide(shared, union, out=np.zeros(len(boxes)), where=union > 0)
