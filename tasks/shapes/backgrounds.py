"""Draws the six backgrounds."""

from __future__ import annotations

import numpy as np


def background_pixels(name: str, side: int, rng: np.random.Generator) -> np.ndarray:
    """Return a background as an array ``[side, side, 3]`` of float32, 0 to 255.

    Args:
        name: One of ``scene.BACKGROUNDS``.
        side: Width and height in pixels.
        rng: Random numbers, so that no two are the same.
    """
    tint = rng.integers(-8, 9, size=3).astype(np.float32)
    match name:
        case "gray":
            surface = np.full((side, side, 3), 142, np.float32)
        case "pink":
            surface = np.full((side, side, 3), (246, 172, 196), np.float32)
        case "grass":
            surface = _grass(side, rng)
        case "sky":
            surface = _sky(side, rng)
        case "sand":
            surface = _sand(side, rng)
        case "brick":
            surface = _brick(side, rng)
        case _:
            raise ValueError(f"unknown background '{name}'")
    return surface + tint


def _grass(side: int, rng: np.random.Generator) -> np.ndarray:
    height = 6
    blades = rng.integers(-38, 39, size=(-(-side // height) + 1, side), dtype=np.int8)
    # Columns start at heights of their own, or the blades would stand in rows.
    rows = np.arange(side)[:, None] + rng.integers(height, size=side)
    light = blades[rows // height, np.arange(side)].astype(np.float32)
    return np.asarray((98, 158, 66), np.float32) + light[..., None]


def _sky(side: int, rng: np.random.Generator) -> np.ndarray:
    down = np.linspace(0, 1, side, dtype=np.float32)[:, None, None]
    surface = np.asarray((96, 160, 232), np.float32) + down * np.asarray((100, 66, 20), np.float32)
    clouds = np.clip(1.6 * _smooth(side, 5, rng) - 0.75, 0, 0.7)[..., None]
    return surface + clouds * (246 - surface)


def _sand(side: int, rng: np.random.Generator) -> np.ndarray:
    grains = rng.integers(-26, 27, size=(side, side), dtype=np.int8).astype(np.float32)
    waves = 18 * (_smooth(side, 4, rng) - 0.5)
    return np.asarray((226, 200, 146), np.float32) + (grains + waves)[..., None]


def _brick(side: int, rng: np.random.Generator) -> np.ndarray:
    course, length = 0.105 * side, 0.25 * side
    y = np.arange(side) + rng.uniform(0, course)
    x = np.arange(side) + rng.uniform(0, length)
    row = (y // course).astype(int)[:, None]
    along = x[None, :] + row % 2 * length / 2
    column = (along // length).astype(int)
    joint = max(1.0, side / 64)
    mortar = ((y % course < joint)[:, None] | (along % length < joint))[..., None]
    shades = rng.integers(-20, 21, size=(12, 7)).astype(np.float32)
    bricks = np.asarray((170, 92, 74), np.float32) + shades[row % 12, column % 7][..., None]
    return np.where(mortar, np.float32(206), bricks)


def _smooth(side: int, cells: int, rng: np.random.Generator) -> np.ndarray:
    """Return smooth noise ``[side, side]``, 0 to 1."""
    from PIL import Image

    coarse = Image.fromarray(rng.random((cells, cells), dtype=np.float32))
    return np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC))
