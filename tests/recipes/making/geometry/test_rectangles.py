from itertools import product

import numpy as np
import pytest

from capbench.recipes.making.geometry import free_cells, largest_rectangle


def plain_largest(grid: np.ndarray) -> tuple[int, int, int, int] | None:
    """Look at every rectangle."""
    height, width = grid.shape
    found = []
    for left, top in product(range(width), range(height)):
        for right, bottom in product(range(left + 1, width + 1), range(top + 1, bottom_of(grid, left, top) + 1)):
            if grid[top:bottom, left:right].all():
                bounded = [r for r in range(top, bottom) if left == 0 or not grid[r, left - 1]]
                area = (right - left) * (bottom - top)
                found.append((-area, right, min(bounded, default=height), (left, top, right, bottom)))
    return min(found)[-1] if found else None


def bottom_of(grid: np.ndarray, left: int, top: int) -> int:
    bottom = top
    while bottom < len(grid) and grid[bottom, left]:
        bottom += 1
    return bottom


@pytest.mark.parametrize("seed", range(60))
def test_largest_rectangle_is_that_of_all_rectangles(seed: int):
    rng = np.random.default_rng(seed)
    grid = rng.random(rng.integers(1, 9, 2)) < rng.uniform(0.3, 1)

    assert largest_rectangle(grid) == plain_largest(grid)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["..."], (0, 0, 3, 1)),
        (["###"], None),
        (["#.#", "..."], (0, 1, 3, 2)),
        # Two of four cells: the one that ends further left.
        (["..#..", "..#.."], (0, 0, 2, 2)),
        # Two that end in one column: the upper.
        (["..", "##", ".."], (0, 0, 2, 1)),
    ],
)
def test_rectangle_of_a_drawn_grid(rows: list[str], expected: tuple[int, int, int, int] | None):
    assert largest_rectangle(np.array([[cell == "." for cell in row] for row in rows])) == expected


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
def test_grid_without_cells_has_no_rectangle(shape: tuple[int, int]):
    assert largest_rectangle(np.ones(shape, bool)) is None


@pytest.mark.parametrize("seed", range(20))
def test_cell_is_free_if_half_of_its_pixels_are(seed: int):
    rng = np.random.default_rng(seed)
    hull = (*rng.integers(0, 9, 2).tolist(), *rng.integers(9, 30, 2).tolist())
    corners = rng.integers(-3, 33, (rng.integers(0, 5), 2, 2))
    boxes = [(*low, *high) for low, high in zip(corners.min(1).tolist(), corners.max(1).tolist(), strict=True)]
    scale = int(rng.integers(1, 5))
    left, top, right, bottom = hull

    def is_free(x: int, y: int) -> bool:
        return not any(x1 <= x < x2 and y1 <= y < y2 for x1, y1, x2, y2 in boxes)

    expected = [
        [
            sum(is_free(x + i, y + j) for i in range(scale) for j in range(scale)) * 2 >= scale**2
            for x in range(left, left + (right - left) // scale * scale, scale)
        ]
        for y in range(top, top + (bottom - top) // scale * scale, scale)
    ]
    assert free_cells(hull, boxes, scale).tolist() == expected


def test_hull_smaller_than_a_cell_has_none():
    assert free_cells((0, 0, 3, 9), [], 4).shape == (2, 0)
    assert free_cells((5, 5, 5, 5), [], 4).shape == (0, 0)
