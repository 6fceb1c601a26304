"""Time CLIP-F1's linear algebra against a loop of ``numpy.linalg.lstsq`` in the same run, and compare values.

Features are at hand, as they are in a second run: image parts are noisy copies of a few directions, some
of them repeated, as the boxes of one image overlap. Run by hand::

    python speed/clip_f1.py
    python speed/clip_f1.py --images 100
"""

import argparse
import time
from collections.abc import Sequence

import numpy as np

from capbench.metrics.clip_f1 import proportions

IMAGE_PARTS, TEXT_PARTS, SIZE = 60, 9, 768
"""Crops and the whole image; eight sentences and the whole caption; the size of ViT-L/14's features."""


def features(generator: np.random.Generator, parts: int, repeats: int = 0) -> np.ndarray:
    """Return unit vectors ``[parts, SIZE]`` float32 that lie near each other, the last ones repeats."""
    vectors = generator.normal(size=SIZE) + generator.normal(size=(parts, SIZE))
    vectors[parts - repeats :] = vectors[:repeats]
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def by_lstsq(vector: np.ndarray, members: np.ndarray, k: int) -> float:
    """Return the proportion of one vector, as the definition reads."""
    cosines = members @ vector / np.linalg.norm(members, axis=1) / np.linalg.norm(vector)
    nearest = members[np.argsort(-cosines)[:k]].T
    coefficients = np.linalg.lstsq(nearest, vector, rcond=None)[0]
    return float(np.linalg.norm(nearest @ coefficients) / np.linalg.norm(vector))


def compare(images: Sequence[tuple[np.ndarray, np.ndarray]], k: int, rounds: int) -> None:
    """Print the best seconds of both, their ratio, and the greatest difference of a part's value."""
    best_ours = best_theirs = float("inf")
    difference = 0.0
    for _ in range(rounds):
        start = time.perf_counter()
        ours = proportions(images, k)
        best_ours = min(best_ours, time.perf_counter() - start)
        start = time.perf_counter()
        theirs = [
            ([by_lstsq(one, text, k) for one in image], [by_lstsq(one, image, k) for one in text])
            for image, text in images
        ]
        best_theirs = min(best_theirs, time.perf_counter() - start)
        for pair, other in zip(ours, theirs, strict=True):
            difference = max(difference, *(float(np.abs(a - b).max()) for a, b in zip(pair, other, strict=True)))
    print(
        f"k = {k:2}: {best_ours:6.3f} s, lstsq a part {best_theirs:6.3f} s, "
        f"{best_theirs / best_ours:5.1f} times as fast, values differ by at most {difference:.0e}"
    )


def main() -> None:
    """Compare for the paper's k, on features in single and in double precision."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=500, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="the best of so many counts")
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    images = [
        (features(generator, IMAGE_PARTS, repeats=3), features(generator, TEXT_PARTS)) for _ in range(options.images)
    ]
    for dtype in (np.float32, np.float64):
        print(f"{options.images} images of {IMAGE_PARTS} parts, captions of {TEXT_PARTS}, {np.dtype(dtype)}:")
        for k in (3, 5, 10):
            compare([(image.astype(dtype), text.astype(dtype)) for image, text in images], k, options.rounds)


if __name__ == "__main__":
    main()
