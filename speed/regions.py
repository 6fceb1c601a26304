"""Time the masks of an image in data synthesis: packing, boxes, hulls, rectangles, the tree. No model is called.

python speed/regions.py
"""

import resource
import time
from collections.abc import Callable, Iterator

import numpy as np

from capbench.adapters import Region
from capbench.recipes.data_synthesis.geometry import clustered_boxes, mask_tree, points_near, walked

SIDE, MASKS, BAR = 2_000, 300, 2.0
"""Pixels a side, masks, and core-seconds that all of it may take."""


def drawn(seed: int) -> Iterator[np.ndarray]:
    """Yield ellipses of 20 to 900 pixels, a tenth of them with a near copy."""
    rng = np.random.default_rng(seed)
    y, x = np.ogrid[:SIDE, :SIDE]
    while True:
        across, down = np.exp(rng.uniform(np.log(20), np.log(900), 2))
        left, top = rng.uniform(0, SIDE, 2)
        for larger in (1.0, 1.01)[: 1 + (rng.random() < 0.1)]:
            yield ((x - left) / across) ** 2 + ((y - top) / down) ** 2 < larger


def nested() -> Iterator[np.ndarray]:
    """Yield masks each of which holds all that are smaller: the most comparisons, of the largest masks."""
    y, x = np.ogrid[:SIDE, :SIDE]
    centre = SIDE / 2
    for number in range(MASKS):
        yield np.maximum(abs(x - centre), abs(y - centre)) < centre - 3 * number


def packed(masks: Iterator[np.ndarray]) -> tuple[list[Region], float]:
    """Return the regions of the first masks, and the core-seconds of packing them."""
    rng = np.random.default_rng(0)
    regions: list[Region] = []
    taken = 0.0
    while len(regions) < MASKS:
        mask, iou, stability = next(masks), float(rng.uniform(0.8, 1)), float(rng.uniform(0.9, 1))
        start = time.process_time()
        regions.append(Region.of(mask, iou, stability))
        taken += time.process_time() - start
    return regions, taken


def spent(work: Callable[[], object]) -> float:
    """Return the core-seconds of some work, the least of three."""
    found = []
    for _ in range(3):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    """Print what each step takes, and whether all of it keeps the bar; and the memory."""
    for name, masks in (("drawn", drawn(0)), ("nested", nested())):
        regions, of_packing = packed(masks)
        boxes = np.array([one.box for one in regions], np.float64)
        of_boxes = spent(lambda boxes=boxes: clustered_boxes(boxes, (SIDE, SIDE)))
        of_tree = spent(lambda regions=regions: mask_tree(regions))
        count = sum(1 for _ in walked(mask_tree(regions)))
        mark = "" if of_packing + of_boxes + of_tree <= BAR else f"  over the bar of {BAR:g}"
        held = sum(one.mask.words.nbytes for one in regions)
        print(
            f"{MASKS} {name} masks of {SIDE} x {SIDE}, {held / 1e6:.0f} MB: packing {of_packing:.2f} s, boxes, hulls "
            f"and rectangles {of_boxes:.2f} s, tree of {count} {of_tree:.2f} s{mark}"
        )
    edges = np.random.default_rng(0).random((SIDE, SIDE)) < 0.05
    print(f"points near {edges.sum():,} pixels of edges: {spent(lambda: points_near(edges, seed=0)):.2f} s")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


if __name__ == "__main__":
    main()
