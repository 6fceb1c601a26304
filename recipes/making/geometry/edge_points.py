"""Points near edges, at which a segmenter is told to look, as DCI has it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from ....errors import UsageError

_BORDER, _SPACING, _JITTER, _EXTRA = 10, 12, 35.0, 8

Which: TypeAlias = Literal["all", "first"]


def edge_points(pixels: np.ndarray, *, seed: int, which: Which = "all") -> np.ndarray:
    """Return points of an image near its edges; see :func:`points_near`.

    Args:
        pixels: RGB of 8 bits, ``[height, width, 3]``.
        seed: Of the order of edges, and of the points around them.
        which: ``all``, or ``first``.

    Raises:
        UsageError: OpenCV is not installed, or an argument is none.
    """
    return points_near(canny_edges(pixels), seed=seed, which=which)


def opencv() -> Any:
    """Return OpenCV's module.

    Raises:
        UsageError: It is not installed.
    """
    try:
        import cv2  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise UsageError(
            "points near edges need OpenCV, which is not installed.", "pip install 'capbench[edges]'"
        ) from error
    return cv2


def canny_edges(pixels: np.ndarray) -> np.ndarray:
    """Return the edges of an image: a bilateral filter (11, 61, 39), then Canny's (100, 250).

    Args:
        pixels: RGB of 8 bits, ``[height, width, 3]``.

    Returns:
        bool ``[height, width]``.

    Raises:
        UsageError: OpenCV is not installed.
    """
    cv2 = opencv()
    return cv2.Canny(cv2.bilateralFilter(np.ascontiguousarray(pixels), 11, 61, 39), 100, 250) == 255


def points_near(edges: np.ndarray, *, seed: int, which: Which = "all") -> np.ndarray:
    """Return points near edges, everywhere but at the border.

    Pixels of edges are taken in random order. Each that is 10 pixels or more from the border becomes a point with 8
    more around it, up to 17.5 pixels away in x and in y, and no pixel within 12 is taken after it.

    Source: Urbanek et al., DCI (CVPR 2024), §3.1; the released ``get_points_from_canny_greedy``. It bounds y by the
    width and x by the height, and hands the points over in a form of which SAM takes the first point alone.

    Args:
        edges: Where edges are, bool ``[height, width]``.
        seed: Of the order, and of the points around.
        which: ``all`` of them, bounded by the image; or ``first``, the one that the release looks at, as it bounds it.

    Returns:
        x and y in whole pixels, float64 ``[n, 2]``; none where there is no edge.

    Raises:
        UsageError: The edges are no map, or ``which`` is neither.
    """
    if edges.ndim != 2:
        raise UsageError(f"edges of the shape {list(edges.shape)} are no map", "It is [height, width].")
    if which not in ("all", "first"):
        raise UsageError(f"edge_points={which} is not known.", "Known are all, first.")
    height, width = edges.shape
    rng = np.random.default_rng(seed)
    candidates = rng.permutation(np.argwhere(edges)[:, ::-1]).tolist()
    left = edges.copy()
    most = (width - _BORDER, height - _BORDER)
    found: list[np.ndarray] = []
    for x, y in candidates:
        if min(x, y) < _BORDER or x > most[0] or y > most[1] or not left[y, x]:
            continue
        if which == "first":
            return np.array([[min(x, most[1]), min(y, most[0])]], np.float64)
        around = np.array((x, y)) + rng.uniform(-_JITTER / 2, _JITTER / 2, (_EXTRA, 2))
        found += [np.array([[x, y]]), np.clip(around, _BORDER, most).astype(int)]
        left[max(0, y - _SPACING) : y + _SPACING, max(0, x - _SPACING) : x + _SPACING] = False
    return np.concatenate(found).astype(np.float64) if found else np.zeros((0, 2))
