"""Measure what a maker does with the masks of an image: boxes, hulls, rectangles, the tree. No model is asked.

python speed/regions.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from capbench.adapters import Region
from capbench.recipes.making.geometry.boxes import clustered_boxes
from capbench.recipes.making.geometry.edge_points import points_near
from capbench.recipes.making.geometry.mask_tree import mask_tree, walked

SIDE, MASKS, BAR = 2_000, 300, 2.0
"""Pixels a side, masks, and core-seconds that boxes and tree may take."""


def drawn(seed: int) -> list[Region]:
    """Return ellipses of 20 to 900 pixels, a tenth of them with a near copy."""
    rng = np.random.default_rng(seed)
    y, x = np.ogrid[:SIDE, :SIDE]
    regions: list[Region] = []
    while len(regions) < MASKS:
        across, down = np.exp(rng.uniform(np.log(20), np.log(900), 2))
        left, top = rng.uniform(0, SIDE, 2)
        for larger in (1.0, 1.01)[: 1 + (rng.random() < 0.1)]:
            mask = ((x - left) / across) ** 2 + ((y - top) / down) ** 2 < larger
            rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
            box = (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))
            regions.append(Region(mask, box, float(rng.uniform(0.8, 1)), float(rng.uniform(0.9, 1))))
    return regions[:MASKS]


def nested() -> list[Region]:
    """Return masks each of which holds all that are smaller: the most comparisons, of the largest masks."""
    y, x = np.ogrid[:SIDE, :SIDE]
    centre = SIDE / 2
    return [
        Region(np.maximum(abs(x - centre), abs(y - centre)) < centre - 3 * number, (0, 0, 0, 0), 0.9, 0.9)
        for number in range(MASKS)
    ]


def spent(work: Callable[[], object]) -> float:
    """Return the core-seconds of some work, the least of three."""
    found = []
    for _ in range(3):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    """Print what each step takes, and whether boxes and tree keep the bar."""
    for name, regions in (("drawn", drawn(0)), ("nested", nested())):
        boxes = np.array([one.box for one in regions])
        of_boxes = spent(lambda boxes=boxes: clustered_boxes(boxes, (SIDE, SIDE)))
        of_tree = spent(lambda regions=regions: mask_tree(regions))
        count = sum(1 for _ in walked(mask_tree(regions)))
        mark = "" if of_boxes + of_tree <= BAR else f"  over the bar of {BAR:g}"
        print(
            f"{MASKS} {name} masks of {SIDE} x {SIDE}: boxes, hulls and rectangles {of_boxes:.2f} s, "
            f"tree of {count} {of_tree:.2f} s{mark}"
        )
    edges = np.random.default_rng(0).random((SIDE, SIDE)) < 0.05
    print(f"points near {edges.sum():,} pixels of edges: {spent(lambda: points_near(edges, seed=0)):.2f} s")


if __name__ == "__main__":
    main()
