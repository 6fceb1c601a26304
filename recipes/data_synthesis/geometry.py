"""Boxes, rectangles, mask trees, points near edges: pure functions of arrays, as DetailCaps and DCI have them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.cluster.vq import kmeans2

from ...adapters.regions.contracts import PackedMask, Region, WholeBox
from ...errors import UsageError, extra


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

    Of several, the one that ends first on the right; of these, the one with the uppermost row that does not extend
    beyond it to the left, as in the released code of DetailCaps.

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
_CLUSTERS, _STARTS, _STEPS = 10, 10, 50
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
    """
    array = np.asarray(boxes, np.float64).reshape(-1, 4)
    sides = np.maximum(array[:, 2:] - array[:, :2], 0)
    shares = sides.prod(axis=1) / (size[0] * size[1])
    array = array[(shares >= _LEAST) & (shares <= _MOST)]
    if not len(array):
        return []
    centres = (array[:, :2] + array[:, 2:]) / 2
    labels = k_means(np.hstack([array, centres]), _CLUSTERS)
    united = united_hulls([_hull(array[labels == label]) for label in np.unique(labels)])
    return cut_hulls(united, 0 if rectangles == "whole" else 1)


def k_means(points: np.ndarray, clusters: int) -> np.ndarray:
    """Return the cluster of each point, by the best of 10 starts (k-means++), as int ``[n]``.

    Args:
        points: ``[n, d]``.
        clusters: How many; no more than there are different points.
    """
    rng = np.random.default_rng(0)
    count = min(clusters, len(np.unique(points, axis=0)))
    with warnings.catch_warnings():
        # Of clusters that have become empty.
        warnings.simplefilter("ignore", UserWarning)
        # SciPy 1.14 does not know "rng".
        starts = [kmeans2(points, count, _STEPS, minit="++", seed=rng) for _ in range(_STARTS)]
    return min(starts, key=lambda start: ((points - start[0][start[1]]) ** 2).sum())[1]


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
            rectangle = largest_rectangle(free)
            if rectangle is None:
                break
            left, top, right, bottom = rectangle[0], rectangle[1], rectangle[2] - short, rectangle[3] - short
            free[top:bottom, left:right] = False
            if _area((left, top, right, bottom)) / free.size < _WORTH:
                break
            x, y = hull[:2]
            kept.append((x + left * _SCALE, y + top * _SCALE, x + right * _SCALE, y + bottom * _SCALE))
    return kept


def _belong(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Return which boxes a box is to be united with."""
    shared = np.maximum(np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2]), 0).prod(axis=1)
    union = (box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) - shared
    outer = np.maximum(box[2:], boxes[:, 2:]) - np.minimum(box[:2], boxes[:, :2])
    hull = outer.prod(axis=1)
    gap = (hull - union) / hull
    return (shared / union - gap > 0) | (gap < 0.1)


def _hull(boxes: np.ndarray) -> WholeBox:
    left, top = np.floor(boxes[:, :2].min(axis=0)).astype(int).tolist()
    right, bottom = np.ceil(boxes[:, 2:].max(axis=0)).astype(int).tolist()
    return left, top, right, bottom


def _area(box: WholeBox) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])


_SAME, _CONTAINED, _TOO_LARGE, _OVERLAP, _FOLDED = 0.95, 0.9, 0.9, 0.03, 0.93
SHOWN = 5000
"""Pixels below which DCI showed no mask to its annotators."""

Comparison: TypeAlias = Literal["exact", "released"]


@dataclass(frozen=True, eq=False)
class MaskNode:
    """A mask of a tree, or the union of several.

    Attributes:
        mask: Its pixels.
        score: Predicted IoU times the square of stability; of a union the mean of its members'.
        regions: Positions of the regions that it is made of: one, or of a union several.
        children: What is part of it.
    """

    mask: PackedMask
    score: float
    regions: tuple[int, ...]
    children: tuple[MaskNode, ...]


def mask_tree(regions: Sequence[Region], *, comparison: Comparison = "exact") -> tuple[MaskNode, ...]:
    """Return the regions of an image as a tree.

    By falling size, each mask is compared with the groups of its level. A near duplicate (sizes within 5 %, and no
    more than 5 % of either is not the other's) replaces the group's mask if its score is higher, and is dropped
    otherwise. A mask that lies more than 90 % within a group becomes a part of it, if it is not larger than 90 % of
    it; else the one with the higher score stays. Any other mask is a new group. Groups are processed recursively.
    From the bottom up, siblings that overlap by more than 3 % of either become one, whose children are those of
    both; and an only child that is nearly the same (7 %) as its parent gives way to its own.

    Source: Urbanek et al., DCI (CVPR 2024), §3.1; the released ``get_groups_simple`` and ``refine_groups_simple``. They
    take two masks of one size for nearly the same where their boxes do not meet, so that one of them goes; boxes that
    cross so that none of four corners lies in the other do not meet for them; and of a union they keep the children of
    the earlier members and the later member itself, where no child takes its place by its number.

    Args:
        regions: Masks of one image with their scores. A mask without pixels is left out.
        comparison: ``exact``, or ``released`` with those faults.

    Returns:
        The uppermost masks, each with its children.

    Raises:
        UsageError: The masks are of several sizes.
    """
    shapes = {region.mask.shape for region in regions}
    if len(shapes) > 1:
        raise UsageError(f"masks of one image differ in size: {sorted(shapes)}", "Give masks of one image.")
    masks = [MaskNode(part.mask, part.iou * part.stability**2, (number,), ()) for number, part in enumerate(regions)]
    falling = sorted((node for node in masks if node.mask.size), key=lambda node: -node.mask.size)
    rules = _Rules(comparison == "released")
    return tuple(_node(node) for node in rules.refined(rules.grouped(falling)).values())


def shown(tree: Sequence[MaskNode], least: int = SHOWN) -> tuple[MaskNode, ...]:
    """Return a tree without masks that are too small, and what is part of them.

    Args:
        tree: The tree.
        least: Pixels that a mask must have.
    """
    return tuple(replace(node, children=shown(node.children, least)) for node in tree if node.mask.size >= least)


def walked(tree: Sequence[MaskNode], depth: int = 0) -> Iterator[tuple[int, MaskNode]]:
    """Yield every mask of a tree with its depth, parents before children."""
    for node in tree:
        yield depth, node
        yield from walked(node.children, depth + 1)


@dataclass(eq=False)
class _Group:
    outer: MaskNode
    children: dict[int, _Group] = field(default_factory=dict)


@dataclass(frozen=True)
class _Rules:
    """How masks are compared and united.

    Attributes:
        released: Whether with the released faults.
    """

    released: bool

    def grouped(self, falling: Sequence[MaskNode]) -> dict[int, _Group]:
        """Return masks, the largest first, as groups by number, with all that is part of them."""
        groups: list[_Group] = []
        parts: list[list[MaskNode]] = []
        for mask in falling:
            same = next((group for group in groups if self._near(group.outer.mask, mask.mask, _SAME)), None)
            if same is not None:
                same.outer = max(same.outer, mask, key=lambda node: node.score)
                continue
            around = next((n for n, group in enumerate(groups) if self._contained(mask.mask, group.outer.mask)), None)
            if around is None:
                groups.append(_Group(mask))
                parts.append([])
            elif mask.mask.size / groups[around].outer.mask.size > _TOO_LARGE:
                groups[around].outer = max(groups[around].outer, mask, key=lambda node: node.score)
            else:
                parts[around].append(mask)
        for group, within in zip(groups, parts, strict=True):
            group.children = self.grouped(within)
        return dict(enumerate(groups))

    def refined(self, groups: dict[int, _Group]) -> dict[int, _Group]:
        """Return groups of which no two siblings overlap, by number; the groups themselves are changed."""
        kept: dict[int, _Group] = {}
        for number, group in enumerate(groups.values()):
            group.children = self.refined(group.children)
            overlapping = [n for n, other in kept.items() if self._overlap(group.outer.mask, other.outer.mask)]
            if overlapping:
                group = self._united(number, group, [kept.pop(n) for n in overlapping])
            kept[number] = group
        for group in kept.values():
            only = next(iter(group.children.values())) if len(group.children) == 1 else None
            if only and self._near(group.outer.mask, only.outer.mask, _FOLDED):
                group.children = only.children
        return kept

    def _united(self, number: int, group: _Group, others: Sequence[_Group]) -> _Group:
        united = _Group(group.outer)
        # The release asks for a child by its number, so that one may take another's place.
        children = {number: group} if self.released else dict(group.children)
        for other in others:
            first, second = united.outer, other.outer
            mean = (first.score + second.score) / 2
            united.outer = MaskNode(first.mask.united(second.mask), mean, (*first.regions, *second.regions), ())
            if self.released:
                children.update(other.children)
            else:
                children = dict(enumerate([*other.children.values(), *children.values()]))
        united.children = children
        return united

    def _shared(self, mask: PackedMask, other: PackedMask) -> int:
        return mask.shared(other) if self._meet(mask.box, other.box) else 0

    def _contained(self, inner: PackedMask, outer: PackedMask) -> bool:
        # A pixel is added to sizes throughout, as in the release.
        return self._shared(inner, outer) / (inner.size + 1) > _CONTAINED

    def _overlap(self, mask: PackedMask, other: PackedMask) -> bool:
        return self._shared(mask, other) / (min(mask.size, other.size) + 1) > _OVERLAP

    def _near(self, mask: PackedMask, other: PackedMask, share: float) -> bool:
        small, large = sorted((mask.size + 1, other.size + 1))
        if small / large < share:
            return False
        if self.released and not self._meet(mask.box, other.box):
            return True
        differing = mask.size + other.size - 2 * self._shared(mask, other)
        return differing / small <= 1 - share

    def _meet(self, box: WholeBox, other: WholeBox) -> bool:
        """Tell whether two boxes meet; in the release, whether one of four corners lies in the other box."""
        if not self.released:
            return True
        (left, top, right, bottom), (x1, y1, x2, y2) = box, other
        return _holds(other, left, top) or _holds(other, right, bottom) or _holds(box, x2, y1) or _holds(box, x1, y2)


def _holds(box: WholeBox, x: int, y: int) -> bool:
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _node(group: _Group) -> MaskNode:
    return replace(group.outer, children=tuple(map(_node, group.children.values())))


_BORDER, _SPACING, _JITTER, _EXTRA = 10, 12, 35.0, 8

Which: TypeAlias = Literal["all", "first"]


def opencv() -> Any:
    """Return OpenCV's module.

    Raises:
        UsageError: It is not installed.
    """
    with extra("edges", "points near edges need OpenCV"):
        import cv2
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
    """
    height, width = edges.shape
    rng = np.random.default_rng(seed)
    candidates = rng.permutation(np.argwhere(edges)[:, ::-1]).tolist()
    left = edges.copy()
    most = (width - _BORDER, height - _BORDER)
    chosen: list[np.ndarray] = []
    for x, y in candidates:
        if min(x, y) < _BORDER or x > most[0] or y > most[1] or not left[y, x]:
            continue
        if which == "first":
            return np.array([[min(x, most[1]), min(y, most[0])]], np.float64)
        around = np.array((x, y)) + rng.uniform(-_JITTER / 2, _JITTER / 2, (_EXTRA, 2))
        chosen += [np.array([[x, y]]), np.clip(around, _BORDER, most).astype(int)]
        left[max(0, y - _SPACING) : y + _SPACING, max(0, x - _SPACING) : x + _SPACING] = False
    return np.concatenate(chosen).astype(np.float64) if chosen else np.zeros((0, 2))
