import numpy as np
import pytest

from capbench.adapters.regions.sam import without_small


def parts(mask: np.ndarray) -> list[set[tuple[int, int]]]:
    left = set(map(tuple, np.argwhere(mask).tolist()))
    found = []
    while left:
        part, todo = set(), [left.pop()]
        while todo:
            y, x = todo.pop()
            part.add((y, x))
            near = {(y + j, x + i) for j in (-1, 0, 1) for i in (-1, 0, 1)} & left
            left -= near
            todo += near
        found.append(part)
    return found


def plain(mask: np.ndarray, least: int) -> set[tuple[int, int]]:
    pixels = set(map(tuple, np.argwhere(mask).tolist()))
    for hole in parts(~mask):
        pixels |= hole if len(hole) < least else set()
    filled = np.zeros_like(mask)
    for pixel in pixels:
        filled[pixel] = True
    islands = parts(filled)
    large = [island for island in islands if len(island) >= least]
    return set().union(*(large or sorted(islands, key=lambda island: (-len(island), min(island)))[:1]))


@pytest.mark.parametrize("seed", range(30))
def test_mask_is_that_of_a_plain_computation(seed: int):
    rng = np.random.default_rng(seed)
    mask = rng.random((9, 11)) < rng.uniform(0.2, 0.8)
    least = int(rng.integers(0, 8))

    assert set(map(tuple, np.argwhere(without_small(mask, least)).tolist())) == plain(mask, least)


def test_all_and_nothing_stay_as_they_are():
    for value in (True, False):
        assert (without_small(np.full((4, 5), value), 3) == value).all()
    # What is smaller than the least altogether is a hole, or the largest island.
    assert not without_small(np.zeros((2, 2), bool), 0).any()
    one = np.zeros((4, 5), bool)
    one[1, 1] = True
    assert without_small(one, 3).sum() == 1
