import sys

import numpy as np
import pytest

from capbench.errors import UsageError
from capbench.recipes.making.geometry import canny_edges, edge_points, points_near


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


def test_pixels_at_most_ten_from_the_border_are_no_points():
    edges = np.zeros((60, 80), bool)
    edges[[9, 30, 51], [40, 9, 40]] = edges[30, 71] = True
    assert points_near(edges, seed=0).shape == (0, 2)

    for x, y in ((10, 30), (70, 30), (40, 10), (40, 50)):
        one = np.zeros((60, 80), bool)
        one[y, x] = True
        points = points_near(one, seed=0)
        assert points[0].tolist() == [x, y]
        assert len(points) == 9
        assert points.min(axis=0).tolist() >= [10, 10]
        assert points[:, 0].max() <= 70 and points[:, 1].max() <= 50


def test_points_stay_in_a_wide_image_and_in_a_tall_one():
    for height, width in ((40, 200), (200, 40)):
        points = points_near(np.ones((height, width), bool), seed=1)
        assert (points >= 10).all()
        assert (points <= (width - 10, height - 10)).all()
        # They are everywhere, which they are not where x is bounded by the height.
        assert points.max() > 180


def test_first_is_the_one_point_that_the_release_looks_at():
    edges = np.ones((160, 60), bool)
    points = [points_near(edges, seed=seed, which="first") for seed in range(15)]
    everywhere = [points_near(edges, seed=seed)[0] for seed in range(15)]

    assert all(one.shape == (1, 2) for one in points)
    # It bounds y by the width.
    assert max(one[0, 1] for one in points) == 50
    assert max(one[1] for one in everywhere) > 120
    assert all(
        one[0, 0] == other[0] and one[0, 1] == min(other[1], 50) for one, other in zip(points, everywhere, strict=True)
    )
    wide = [points_near(edges.T, seed=seed, which="first") for seed in range(15)]
    assert max(one[0, 0] for one in wide) == 50


def test_same_seed_gives_the_same_points_and_another_others():
    edges = np.random.default_rng(0).random((80, 80)) < 0.1

    assert np.array_equal(points_near(edges, seed=3), points_near(edges, seed=3))
    assert not np.array_equal(points_near(edges, seed=3)[:9], points_near(edges, seed=4)[:9])


@pytest.mark.parametrize("shape", [(0, 0), (5, 5), (19, 100), (100, 100)])
def test_without_an_edge_there_are_no_points(shape: tuple[int, int]):
    for which in ("all", "first"):
        assert points_near(np.zeros(shape, bool), seed=0, which=which).shape == (0, 2)


def test_missing_opencv_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(UsageError, match="need OpenCV") as caught:
        edge_points(np.zeros((30, 30, 3), np.uint8), seed=0)
    assert "capbench[edges]" in caught.value.hint


def test_edge_of_a_square_is_found():
    pytest.importorskip("cv2", reason="needs the extra 'edges'")
    pixels = np.zeros((100, 100, 3), np.uint8)
    pixels[30:70, 30:70] = 255
    edges = canny_edges(pixels)
    rows, columns = np.nonzero(edges)

    assert edges.sum() > 100
    assert {int(rows.min()), int(columns.min())} <= {29, 30}
    assert not edges[35:65, 35:65].any()
    near = edge_points(pixels, seed=0).reshape(-1, 9, 2)[:, 0]
    assert edges[near[:, 1].astype(int), near[:, 0].astype(int)].all()
