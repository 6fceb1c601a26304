import math

import numpy as np
import pytest

from capbench.errors import UsageError
from capbench.recipes.making.geometry import (
    WholeBox,
    clustered_boxes,
    cut_hulls,
    hulls,
    k_means,
    largest_rectangle,
    settled,
    united_hulls,
    with_centres,
)


def area(box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def plain_hull(boxes) -> WholeBox:
    lows, highs = ([min(one[e] for one in boxes) for e in (0, 1)], [max(one[e] for one in boxes) for e in (2, 3)])
    return (*map(math.floor, lows), *map(math.ceil, highs))


def plain_settled(points, centres) -> list[int]:
    centres = [list(one) for one in centres]
    labels: list[int] = []
    while True:
        nearest = []
        for point in points:
            far = [sum((a - b) ** 2 for a, b in zip(point, centre, strict=True)) for centre in centres]
            nearest.append(far.index(min(far)))
        if nearest == labels:
            return labels
        labels = nearest
        for number in range(len(centres)):
            own = [point for point, label in zip(points, labels, strict=True) if label == number]
            if own:
                centres[number] = [sum(values) / len(own) for values in zip(*own, strict=True)]


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
            if not grid.size or grid.sum() < 0.3 * grid.size or (found := largest_rectangle(grid)) is None:
                break
            x1, y1, x2, y2 = found[0], found[1], found[2] - short, found[3] - short
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


@pytest.mark.parametrize("seed", range(40))
def test_boxes_are_those_of_a_plain_computation(seed: int):
    boxes = drawn_boxes(seed)
    shares = [area(one) / 120**2 for one in boxes]
    kept = np.array([b for b, share in zip(boxes, shares, strict=True) if 0.001 <= share <= 0.9]).reshape(-1, 4)
    if not len(kept):
        assert clustered_boxes(boxes, (120, 120)) == []
        return
    labels = k_means(with_centres(kept), 10)
    first = [plain_hull(kept[labels == one]) for one in sorted(set(labels.tolist()))]
    united = plain_united(first)

    assert hulls(kept, labels) == first
    assert united_hulls(first) == united
    assert clustered_boxes(boxes, (120, 120)) == plain_cut(united, 1)
    assert clustered_boxes(boxes, (120, 120), rectangles="whole") == plain_cut(united, 0)


@pytest.mark.parametrize("seed", range(20))
def test_centres_settle_as_in_a_plain_computation(seed: int):
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 12, (25, 2)).astype(float)
    centres = points[rng.choice(25, 5, replace=False)]
    labels, error = settled(points, centres)

    assert labels.tolist() == plain_settled(points.tolist(), centres.tolist())
    means = {one: points[labels == one].mean(0) for one in set(labels.tolist())}
    assert error == pytest.approx(sum(((p - means[n]) ** 2).sum() for p, n in zip(points, labels, strict=True)))


def test_clusters_are_found_and_each_start_is_worth_no_less_than_one():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(10), 12)
    points = np.array([[100 * (n % 4), 100 * (n // 4)] for n in truth]) + rng.normal(0, 3, (120, 2))
    labels = k_means(points, 10)

    assert len({(a, b) for a, b in zip(truth.tolist(), labels.tolist(), strict=True)}) == 10
    assert len(set(labels.tolist())) == 10


def test_best_of_the_starts_counts():
    for seed in range(10):
        points = with_centres(drawn_boxes(seed + 100))
        labels = k_means(points, 10)
        found = sum(((points[labels == n] - points[labels == n].mean(0)) ** 2).sum() for n in set(labels.tolist()))
        # Any start by itself, such as the first points, comes out no better, but by luck.
        alone = settled(points, np.unique(points, axis=0)[:10])[1]
        assert found <= 1.02 * alone + 1e-9


def test_same_boxes_are_one_cluster():
    assert set(k_means(np.ones((7, 6)), 10).tolist()) == {0}
    assert clustered_boxes(np.array([[0, 0, 40, 40]] * 20), (100, 100), rectangles="whole") == [(0, 0, 40, 40)]


def test_released_rectangle_is_a_cell_short():
    box = np.array([[10, 20, 50, 60]])

    assert clustered_boxes(box, (100, 100)) == [(10, 20, 46, 56)]
    assert clustered_boxes(box, (100, 100), rectangles="whole") == [(10, 20, 50, 60)]


def test_area_counts_from_a_thousandth_to_nine_tenths():
    size = (1000, 100)
    for box, count in (
        ([0, 0, 10, 10], 1), ([0, 0, 9, 11], 0), ([0, 0, 900, 100], 1), ([0, 0, 901, 100], 0), ([0, 0, 0, 100], 0),
        ([50, 50, 40, 40], 0),
    ):  # fmt: skip
        assert len(clustered_boxes(np.array([box]), size, rectangles="whole")) == count, box


def test_boxes_that_touch_are_united_and_those_apart_are_not():
    # Side by side their hull has no gap; apart by a fifth of it, it has.
    assert united_hulls([(0, 0, 10, 10), (10, 0, 20, 10)]) == [(0, 0, 20, 10)]
    assert united_hulls([(0, 0, 10, 10), (15, 0, 25, 10)]) == [(0, 0, 10, 10), (15, 0, 25, 10)]
    # A gap of exactly a tenth is one too many; GIoU is below 0 there.
    assert len(united_hulls([(0, 0, 9, 10), (10, 0, 19, 10)])) == 1
    assert len(united_hulls([(0, 0, 9, 10), (11, 0, 20, 10)])) == 2
    # One pass: the smallest takes what is near it, and its hull takes no more.
    chain = [(0, 0, 10, 10), (10, 0, 21, 10), (21, 0, 33, 10)]
    assert united_hulls(chain) == [(0, 0, 21, 10), (21, 0, 33, 10)]
    assert united_hulls([]) == []


def test_only_the_three_largest_are_cut_by_the_others():
    small, *large = [(40, 40, 60, 60), (0, 40, 100, 200), (0, 0, 200, 80), (120, 100, 200, 200)]
    cut = cut_hulls([*large, small], 0)

    assert cut[0] == small
    assert cut == plain_cut([*large, small], 0)
    assert len(cut) >= 3


def test_three_tenths_that_are_free_are_worth_a_rectangle_and_less_is_not():
    apart = [(100, 0, 140, 40), (200, 0, 240, 40)]

    assert (0, 28, 40, 40) in cut_hulls([(0, 0, 40, 40), *apart, (0, 0, 40, 28)], 0)
    assert cut_hulls([(0, 0, 40, 40), *apart, (0, 0, 40, 32)], 0) == [(0, 0, 40, 32), *apart]


def test_input_that_is_none_is_said():
    for bad in (np.zeros((2, 3)), np.zeros(4), np.array([[0, 0, np.nan, 1]])):
        with pytest.raises(UsageError, match="are no boxes"):
            clustered_boxes(bad, (10, 10))
    assert clustered_boxes(np.zeros(0), (10, 10)) == []
