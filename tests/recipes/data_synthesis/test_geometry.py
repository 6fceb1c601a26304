"""Boxes, rectangles, mask trees and points near edges, against plain computations."""

import math
import sys
from functools import cache
from itertools import product

import numpy as np
import pytest

from capbench.adapters import Region
from capbench.errors import UsageError
from capbench.recipes.data_synthesis.geometry import (
    MaskNode,
    WholeBox,
    canny_edges,
    clustered_boxes,
    k_means,
    largest_rectangle,
    mask_tree,
    points_near,
    shown,
    united_hulls,
    walked,
)


def area(box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def plain_hull(boxes) -> WholeBox:
    lows, highs = ([min(box[e] for box in boxes) for e in (0, 1)], [max(box[e] for box in boxes) for e in (2, 3)])
    return (*map(math.floor, lows), *map(math.ceil, highs))


def plain_united(boxes: list[WholeBox]) -> list[WholeBox]:
    left = sorted(boxes, key=area)
    united = []
    while left:
        first, *others = left
        taken, rest = [first], []
        for other in others:
            inner = (
                max(first[0], other[0]), max(first[1], other[1]), min(first[2], other[2]), min(first[3], other[3])
            )  # fmt: skip
            shared = area(inner) if inner[0] < inner[2] and inner[1] < inner[3] else 0
            union = area(first) + area(other) - shared
            whole = area(plain_hull([first, other]))
            giou = shared / union - (whole - union) / whole
            (taken if giou > 0 or (whole - union) / whole < 0.1 else rest).append(other)
        united.append(plain_hull(taken))
        left = rest
    return united


def plain_cut(boxes: list[WholeBox], short: int) -> list[WholeBox]:
    falling = sorted(boxes, key=area, reverse=True)
    kept = falling[3:]
    for hull in falling[:3]:
        width, height = (hull[2] - hull[0]) // 4, (hull[3] - hull[1]) // 4
        grid = np.zeros((height, width), bool)
        for column in range(width):
            for row in range(height):
                pixels = [(hull[0] + 4 * column + i, hull[1] + 4 * row + j) for i in range(4) for j in range(4)]
                free = sum(not any(b[0] <= x < b[2] and b[1] <= y < b[3] for b in kept) for x, y in pixels)
                grid[row, column] = free >= 8
        for _ in range(2):
            if not grid.size or grid.sum() < 0.3 * grid.size or (rectangle := largest_rectangle(grid)) is None:
                break
            x1, y1, x2, y2 = rectangle[0], rectangle[1], rectangle[2] - short, rectangle[3] - short
            for row in range(y1, y2):
                for column in range(x1, x2):
                    grid[row, column] = False
            if (x2 - x1) * (y2 - y1) < 0.3 * grid.size:
                break
            kept.append((hull[0] + 4 * x1, hull[1] + 4 * y1, hull[0] + 4 * x2, hull[1] + 4 * y2))
    return kept


def drawn_boxes(seed: int, side: int = 120) -> np.ndarray:
    """Boxes on a coarse raster, so that edges touch and areas tie."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30))
    low = rng.integers(0, side // 6 - 1, (count, 2))
    high = np.minimum(low + rng.integers(0, 8, (count, 2)), side // 6)
    return np.hstack([low, high]) * 6.0


def test_boxes_are_those_of_a_plain_computation():
    for seed in range(20):
        boxes = drawn_boxes(seed)
        shares = [area(box) / 120**2 for box in boxes]
        kept = np.array([b for b, share in zip(boxes, shares, strict=True) if 0.001 <= share <= 0.9]).reshape(-1, 4)
        if not len(kept):
            assert clustered_boxes(boxes, (120, 120)) == [], seed
            continue
        labels = k_means(np.hstack([kept, (kept[:, :2] + kept[:, 2:]) / 2]), 10)
        first = [plain_hull(kept[labels == label]) for label in sorted(set(labels.tolist()))]
        united = plain_united(first)

        assert united_hulls(first) == united, seed
        assert clustered_boxes(boxes, (120, 120)) == plain_cut(united, 1), seed
        assert clustered_boxes(boxes, (120, 120), rectangles="whole") == plain_cut(united, 0), seed


def test_clusters_are_found_and_each_start_is_worth_no_less_than_one():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(10), 12)
    points = np.array([[100 * (n % 4), 100 * (n // 4)] for n in truth]) + rng.normal(0, 3, (120, 2))
    labels = k_means(points, 10)

    assert len({(a, b) for a, b in zip(truth.tolist(), labels.tolist(), strict=True)}) == 10
    assert len(set(labels.tolist())) == 10


def test_no_boxes_give_none():
    assert clustered_boxes(np.zeros(0), (10, 10)) == []


def plain_largest(grid: np.ndarray) -> tuple[int, int, int, int] | None:
    """Look at every rectangle."""
    height, width = grid.shape
    rectangles = []
    for left, top in product(range(width), range(height)):
        for right, bottom in product(range(left + 1, width + 1), range(top + 1, bottom_of(grid, left, top) + 1)):
            if grid[top:bottom, left:right].all():
                bounded = [r for r in range(top, bottom) if left == 0 or not grid[r, left - 1]]
                area = (right - left) * (bottom - top)
                rectangles.append((-area, right, min(bounded, default=height), (left, top, right, bottom)))
    return min(rectangles)[-1] if rectangles else None


def bottom_of(grid: np.ndarray, left: int, top: int) -> int:
    bottom = top
    while bottom < len(grid) and grid[bottom, left]:
        bottom += 1
    return bottom


def test_largest_rectangle_is_that_of_all_rectangles():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        grid = rng.random(rng.integers(1, 9, 2)) < rng.uniform(0.3, 1)

        assert largest_rectangle(grid) == plain_largest(grid), seed


HEIGHT, WIDTH = 20, 150
TALL = 40


@cache
def bounds(pixels: frozenset) -> tuple[int, int, int, int]:
    ys, xs = zip(*pixels, strict=True)
    return min(xs), min(ys), max(xs) + 1, max(ys) + 1


class Plain:
    """The tree by sets of pixels, with the release's ways where asked for."""

    def __init__(self, released: bool) -> None:
        self.released = released

    def tree(self, regions: list[Region]) -> list:
        masks = [
            (
                frozenset(map(tuple, np.argwhere(region.mask.unpacked()).tolist())),
                region.iou * region.stability**2,
                (number,),
            )
            for number, region in enumerate(regions)
        ]
        masks = sorted((mask for mask in masks if mask[0]), key=lambda mask: len(mask[0]), reverse=True)
        return self.told(self.refined(self.grouped(masks)))

    def told(self, groups: dict) -> list:
        return [(set(o[0]), pytest.approx(o[1]), o[2], self.told(children)) for o, children in groups.values()]

    def apart(self, a, b) -> bool:
        def holds(box, x, y):
            return box[0] <= x <= box[2] and box[1] <= y <= box[3]

        if not self.released:
            return False
        first, other = bounds(a), bounds(b)
        mine = holds(other, first[0], first[1]) or holds(other, first[2], first[3])
        return not (mine or holds(first, other[2], other[1]) or holds(first, other[0], other[3]))

    def shared(self, a, b) -> int:
        return 0 if self.apart(a, b) else len(a & b)

    def near(self, a, b, share) -> bool:
        sizes = len(a) + 1, len(b) + 1
        if min(sizes) / max(sizes) < share:
            return False
        differing = 0 if self.apart(a, b) else len(a ^ b)
        return not any(differing / size > 1 - share for size in sizes)

    def grouped(self, masks) -> dict:
        groups: list = []
        for mask in masks:
            for group in groups:
                if self.near(group[0][0], mask[0], 0.95):
                    if mask[1] > group[0][1]:
                        group[0] = mask
                    break
            else:
                for group in groups:
                    if self.shared(mask[0], group[0][0]) / (len(mask[0]) + 1) > 0.9:
                        if len(mask[0]) / len(group[0][0]) <= 0.9:
                            group[1].append(mask)
                        elif mask[1] > group[0][1]:
                            group[0] = mask
                        break
                else:
                    groups.append([mask, []])
        return {n: [outer, self.grouped(parts)] for n, (outer, parts) in enumerate(groups)}

    def refined(self, groups: dict) -> dict:
        kept: dict = {}
        for number, (outer, children) in enumerate(groups.values()):
            children = self.refined(children)
            keys = []
            for key, (other, _) in kept.items():
                both = self.shared(outer[0], other[0])
                if both / (len(outer[0]) + 1) > 0.03 or both / (len(other[0]) + 1) > 0.03:
                    keys.append(key)
            if keys:
                own = {number: [outer, children]} if self.released else children
                for key in keys:
                    other, theirs = kept.pop(key)
                    outer = (outer[0] | other[0], (outer[1] + other[1]) / 2, outer[2] + other[2])
                    if self.released:
                        own.update(theirs)
                    else:
                        own = dict(enumerate([*theirs.values(), *own.values()]))
                children = own
            kept[number] = [outer, children]
        for group in kept.values():
            if len(group[1]) == 1:
                ((inner, theirs),) = group[1].values()
                if self.near(group[0][0], inner[0], 0.93):
                    group[1] = theirs
        return kept


def told(tree: tuple[MaskNode, ...]) -> list:
    return [
        (set(map(tuple, np.argwhere(node.mask.unpacked()).tolist())), node.score, node.regions, told(node.children))
        for node in tree
    ]


def region(mask: np.ndarray, iou: float = 1.0, stability: float = 1.0) -> Region:
    return Region.of(mask, iou, stability)


def block(left: int, top: int, right: int, bottom: int, iou: float = 1.0) -> Region:
    mask = np.zeros((TALL, WIDTH), bool)
    mask[top:bottom, left:right] = True
    return region(mask, iou)


def drawn(seed: int) -> list[Region]:
    """Blocks and ellipses on a coarse raster (sizes tie, edges touch), copies with flaws, all and nothing."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    masks = [np.ones((HEIGHT, WIDTH), bool), np.zeros((HEIGHT, WIDTH), bool)] if seed % 3 == 0 else []
    for _ in range(int(rng.integers(1, 18))):
        left, top = rng.integers(0, WIDTH // 5 - 1) * 5, rng.integers(0, HEIGHT // 5 - 1) * 5
        wide, high = rng.integers(1, 14) * 5, rng.integers(1, 5) * 5
        inside = (x >= left) & (x < left + wide) & (y >= top) & (y < top + high)
        if rng.random() < 0.4:
            inside = ((x - left) / wide) ** 2 + ((y - top) / high) ** 2 < 1
        masks.append(inside)
        if rng.random() < 0.4:
            masks.append(inside & (rng.random(inside.shape) > rng.choice([0.02, 0.06, 0.09, 0.3])))
    scores = rng.integers(1, 5, (len(masks), 2)) / 4
    order = rng.permutation(len(masks))
    return [region(masks[n], *scores[n].tolist()) for n in order]


@pytest.mark.parametrize("comparison", ["exact", "released"])
def test_tree_is_that_of_a_plain_computation(comparison):
    depths, unions = set(), 0
    for seed in range(24):
        regions = drawn(seed)
        tree = mask_tree(regions, comparison=comparison)

        assert told(tree) == Plain(comparison == "released").tree(regions), seed
        depths |= {depth for depth, _ in walked(tree)}
        unions += sum(len(node.regions) > 1 for _, node in walked(tree))
        for _, node in walked(tree):
            left, top, right, bottom = node.mask.box
            mask = node.mask.unpacked()
            assert mask[top:bottom, left:right].sum() == mask.sum() == node.mask.size
            assert mask[top].any() and mask[bottom - 1].any()
            assert mask[:, left].any() and mask[:, right - 1].any()
    # The drawn scenes hold what is to be tested.
    assert max(depths) >= 2
    assert unions > 20


def test_released_comparison_takes_two_of_one_size_that_lie_apart_for_one():
    windows = [block(10, 10, 20, 20, 0.8), block(100, 10, 110, 20, 0.9)]

    assert [node.regions for node in mask_tree(windows)] == [(0,), (1,)]
    assert [node.regions for node in mask_tree(windows, comparison="released")] == [(1,)]


def test_siblings_that_overlap_become_one_with_the_children_of_both():
    first, second = block(0, 0, 60, 30), block(50, 0, 100, 30)
    parts = block(5, 5, 20, 20), block(70, 5, 90, 20)

    (node,) = mask_tree([first, second, *parts])
    assert set(node.regions) == {0, 1}
    assert node.mask.size == 100 * 30
    assert [child.regions for child in node.children] == [(2,), (3,)]

    (node,) = mask_tree([first, second, *parts], comparison="released")
    # The later member's number is 1, and its own; of the earlier one the child alone is left.
    assert [child.regions for child in node.children] == [(1,), (2,)]


def test_only_child_like_its_parent_gives_way():
    union_of_two = [block(0, 0, 50, 20), block(45, 0, 96, 20)]
    (node,) = mask_tree([block(0, 0, 100, 20, 0.5), *union_of_two])

    # Both lie within the whole, overlap, and their union is the whole but for 4 %.
    assert node.regions == (0,)
    assert node.children == ()


def test_small_masks_and_their_parts_are_not_shown():
    tree = mask_tree([block(0, 0, 100, 30), block(5, 5, 50, 25), block(10, 10, 20, 20), block(110, 0, 120, 9)])

    assert [(depth, node.mask.size) for depth, node in walked(tree)] == [(0, 3000), (1, 900), (2, 100), (0, 90)]
    assert [(depth, node.mask.size) for depth, node in walked(shown(tree, 900))] == [(0, 3000), (1, 900)]
    assert shown(tree) == ()
    assert mask_tree([region(np.zeros((TALL, WIDTH), bool))]) == mask_tree([]) == ()


def test_masks_of_several_images_are_said():
    with pytest.raises(UsageError, match="differ in size"):
        mask_tree([region(np.ones((2, 3), bool)), region(np.ones((3, 2), bool))])


def line(height: int, width: int, row: int) -> np.ndarray:
    edges = np.zeros((height, width), bool)
    edges[row] = True
    return edges


def test_each_point_of_an_edge_brings_eight_around_it_and_clears_its_neighbours():
    edges = line(100, 400, 50)
    points = points_near(edges, seed=0).reshape(-1, 9, 2)
    taken = points[:, 0]

    assert (taken[:, 1] == 50).all()
    assert taken[:, 0].min() >= 10 and taken[:, 0].max() <= 390
    along = np.sort(taken[:, 0])
    # Each is far enough from all others, and none is missed: no gap holds another.
    assert np.diff(along).min() >= 12
    assert np.diff(along).max() <= 25
    # Cut to whole pixels, so up to 17.5 less or 17 more.
    offsets = points[:, 1:] - points[:, :1]
    assert offsets.min() >= -18 and offsets.max() <= 17
    assert np.abs(offsets).max(axis=(0, 1)).min() > 15
    assert (points == np.floor(points)).all()
    assert (edges == line(100, 400, 50)).all()


def test_first_is_the_one_point_that_the_release_looks_at():
    edges = np.ones((160, 60), bool)
    points = [points_near(edges, seed=seed, which="first") for seed in range(15)]
    everywhere = [points_near(edges, seed=seed)[0] for seed in range(15)]

    assert all(point.shape == (1, 2) for point in points)
    # It bounds y by the width.
    assert max(point[0, 1] for point in points) == 50
    assert max(point[1] for point in everywhere) > 120
    assert all(
        point[0, 0] == other[0] and point[0, 1] == min(other[1], 50)
        for point, other in zip(points, everywhere, strict=True)
    )
    wide = [points_near(edges.T, seed=seed, which="first") for seed in range(15)]
    assert max(point[0, 0] for point in wide) == 50


def test_missing_opencv_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(UsageError, match="need OpenCV") as caught:
        canny_edges(np.zeros((30, 30, 3), np.uint8))
    assert "capbench[edges]" in caught.value.hint
