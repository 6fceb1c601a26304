from functools import cache

import numpy as np
import pytest

from capbench.adapters import Region
from capbench.adapters.regions.packed_masks import PackedMask
from capbench.errors import UsageError
from capbench.recipes.making.geometry import MaskNode, mask_tree, shown, walked

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
            (frozenset(map(tuple, np.argwhere(one.mask.unpacked()).tolist())), one.iou * one.stability**2, (number,))
            for number, one in enumerate(regions)
        ]
        masks = sorted((one for one in masks if one[0]), key=lambda one: len(one[0]), reverse=True)
        return self.told(self.refined(self.grouped(masks)))

    def told(self, groups: dict) -> list:
        return [(set(o[0]), pytest.approx(o[1]), o[2], self.told(children)) for o, children in groups.values()]

    def apart(self, a, b) -> bool:
        def holds(box, x, y):
            return box[0] <= x <= box[2] and box[1] <= y <= box[3]

        if not self.released:
            return False
        one, other = bounds(a), bounds(b)
        mine = holds(other, one[0], one[1]) or holds(other, one[2], one[3])
        return not (mine or holds(one, other[2], other[1]) or holds(one, other[0], other[3]))

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
            found = []
            for key, (other, _) in kept.items():
                both = self.shared(outer[0], other[0])
                if both / (len(outer[0]) + 1) > 0.03 or both / (len(other[0]) + 1) > 0.03:
                    found.append(key)
            if found:
                own = {number: [outer, children]} if self.released else children
                for key in found:
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
        (set(map(tuple, np.argwhere(one.mask.unpacked()).tolist())), one.score, one.regions, told(one.children))
        for one in tree
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
    for seed in range(40):
        regions = drawn(seed)
        tree = mask_tree(regions, comparison=comparison)

        assert told(tree) == Plain(comparison == "released").tree(regions), seed
        depths |= {depth for depth, _ in walked(tree)}
        unions += sum(len(one.regions) > 1 for _, one in walked(tree))
        for _, one in walked(tree):
            left, top, right, bottom = one.mask.box
            mask = one.mask.unpacked()
            assert mask[top:bottom, left:right].sum() == mask.sum() == one.mask.size
            assert mask[top].any() and mask[bottom - 1].any()
            assert mask[:, left].any() and mask[:, right - 1].any()
    # The drawn scenes hold what is to be tested.
    assert max(depths) >= 2
    assert unions > 20


def test_part_is_a_child_and_a_neighbour_is_none():
    house, window, tree = block(10, 5, 60, 35), block(20, 10, 30, 20), block(60, 5, 100, 35)

    one, other = mask_tree([window, tree, house])

    assert one.regions == (2,)
    assert [child.regions for child in one.children] == [(0,)]
    assert (other.regions, other.children) == ((1,), ())


def test_better_of_two_that_are_nearly_the_same_stays():
    (one,) = mask_tree([block(0, 0, 100, 20, 0.8), block(0, 0, 98, 20, 0.9)])
    assert one.regions == (1,)
    # Of equal scores the larger one.
    (one,) = mask_tree([block(0, 0, 98, 20), block(0, 0, 100, 20)])
    assert one.regions == (1,)


def test_released_comparison_takes_two_of_one_size_that_lie_apart_for_one():
    windows = [block(10, 10, 20, 20, 0.8), block(100, 10, 110, 20, 0.9)]

    assert [one.regions for one in mask_tree(windows)] == [(0,), (1,)]
    assert [one.regions for one in mask_tree(windows, comparison="released")] == [(1,)]


def test_siblings_that_overlap_become_one_with_the_children_of_both():
    first, second = block(0, 0, 60, 30), block(50, 0, 100, 30)
    parts = block(5, 5, 20, 20), block(70, 5, 90, 20)

    (one,) = mask_tree([first, second, *parts])
    assert set(one.regions) == {0, 1}
    assert one.mask.size == 100 * 30
    assert [child.regions for child in one.children] == [(2,), (3,)]

    (one,) = mask_tree([first, second, *parts], comparison="released")
    # The later member's number is 1, and its own; of the earlier one the child alone is left.
    assert [child.regions for child in one.children] == [(1,), (2,)]


def test_only_child_like_its_parent_gives_way():
    union_of_two = [block(0, 0, 50, 20), block(45, 0, 96, 20)]
    (one,) = mask_tree([block(0, 0, 100, 20, 0.5), *union_of_two])

    # Both lie within the whole, overlap, and their union is the whole but for 4 %.
    assert one.regions == (0,)
    assert one.children == ()


def test_mask_of_everything_holds_all_others_and_one_of_nothing_is_left_out():
    everything, nothing = region(np.ones((TALL, WIDTH), bool)), region(np.zeros((TALL, WIDTH), bool))

    (one,) = mask_tree([nothing, block(0, 0, 10, 10), everything, block(140, 30, 150, 40)])
    assert one.regions == (2,)
    assert [child.regions for child in one.children] == [(1,), (3,)]
    assert one.mask.box == (0, 0, WIDTH, TALL)
    assert mask_tree([nothing]) == mask_tree([]) == ()


def test_small_masks_and_their_parts_are_not_shown():
    tree = mask_tree([block(0, 0, 100, 30), block(5, 5, 50, 25), block(10, 10, 20, 20), block(110, 0, 120, 9)])

    assert [(depth, one.mask.size) for depth, one in walked(tree)] == [(0, 3000), (1, 900), (2, 100), (0, 90)]
    assert [(depth, one.mask.size) for depth, one in walked(shown(tree, 900))] == [(0, 3000), (1, 900)]
    assert shown(tree) == ()


def test_masks_of_several_images_are_said():
    with pytest.raises(UsageError, match="several sizes"):
        mask_tree([region(np.ones((2, 3), bool)), region(np.ones((3, 2), bool))])


@pytest.mark.parametrize("seed", range(10))
def test_packed_masks_are_compared_bit_by_bit(seed: int):
    rng = np.random.default_rng(seed)
    masks = []
    for _ in range(2):
        mask = rng.random((30, 200)) < 0.5
        low, high = rng.integers(0, 64, 2), rng.integers(65, 200, 2)
        mask[:, : low[0]] = mask[:, high[0] :] = mask[: low[1] // 4] = False
        masks.append(mask)
    one, other = map(PackedMask.of, masks)

    assert one.size == masks[0].sum()
    assert one.shared(other) == other.shared(one) == (masks[0] & masks[1]).sum()
    assert np.array_equal(one.unpacked(), masks[0])
    assert np.array_equal(one.united(other).unpacked(), masks[0] | masks[1])
    assert one.united(other).size == (masks[0] | masks[1]).sum()
