"""Draws scenes from seeds."""

from functools import lru_cache

import numpy as np

from .scene import (
    BACKGROUNDS,
    COLOURS,
    MARGIN,
    SHAPES,
    SIZES,
    TEXTURES,
    Box,
    Scene,
    Stream,
    Thing,
    generator,
    telling_order,
)

SPLITS = {"test": range(0, 100_000), "validation": range(100_000, 200_000), "train": range(1_000_000, 2**31)}
"""Seeds of the scenes of each split; nothing that is trained may see a seed outside ``train``."""

EDGE = 0.03
_SIDES = {"small": (0.19, 0.2), "medium": (0.255, 0.27), "large": (0.335, 0.355)}
_ATTEMPTS = 60


# Tasks of the world, and what judges them, ask for the same scenes.
@lru_cache(maxsize=4096)
def sample_scene(seed: int, least: int = 2, most: int = 5) -> Scene:
    """Draw a scene.

    Args:
        seed: Number of the scene; see ``SPLITS``.
        least: Fewest things.
        most: Most things, at most 5.
    """
    rng = generator(seed, Stream.CONTENT)
    count = int(rng.integers(least, most + 1))
    background = BACKGROUNDS[rng.integers(len(BACKGROUNDS))]
    return Scene(seed, telling_order(sample_things(rng, count)), background)


def sample_things(rng: np.random.Generator, count: int) -> list[Thing]:
    """Draw things that differ in shape or colour and stand apart."""
    while True:
        sizes = [SIZES[index] for index in rng.integers(len(SIZES), size=count)]
        boxes = place(rng, sizes)
        if boxes is not None:
            break
    names = rng.choice(len(SHAPES) * len(COLOURS), size=count, replace=False)
    # Half of the things are plain, so that a texture is news.
    textures = [TEXTURES[max(0, index - 2)] for index in rng.integers(len(TEXTURES) + 2, size=count)]
    return [
        Thing(SHAPES[name % len(SHAPES)], COLOURS[name // len(SHAPES)], size, texture, box)
        for name, size, texture, box in zip(names.tolist(), sizes, textures, boxes, strict=True)
    ]


def place(rng: np.random.Generator, sizes: list[str]) -> list[Box] | None:
    """Return boxes of the given sizes that keep a distance from each other, or None if they do not fit."""
    boxes: list[Box] = []
    for size in sizes:
        side = float(rng.uniform(*_SIDES[size]))
        for left, top in rng.uniform(EDGE, 1 - EDGE - side, size=(_ATTEMPTS, 2)).tolist():
            box = (left, top, left + side, top + side)
            if all(apart(box, other) for other in boxes):
                boxes.append(box)
                break
        else:
            return None
    return boxes


def apart(first: Box, second: Box) -> bool:
    """Tell whether two boxes are at least ``MARGIN`` apart, and some, in x or in y."""
    gap = 1.5 * MARGIN
    return (
        first[2] + gap <= second[0]
        or second[2] + gap <= first[0]
        or first[3] + gap <= second[1]
        or second[3] + gap <= first[1]
    )
