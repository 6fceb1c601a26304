"""Draws pictures that are the same on every machine: seeded arrays, kept without loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def draw_pictures(folder: Path) -> dict[str, Path]:
    """Write PNG files of several sizes and pixel formats.

    Returns:
        Name to file: ``wide``, ``tall``, ``exact`` (32 by 32), ``odd`` (333 by 217), ``grey``, ``palette`` and
        ``alpha``.
    """
    from PIL import Image

    random = np.random.default_rng(20210418)
    drawn = {
        "wide": Image.fromarray(_scene(random, 64, 200)),
        "tall": Image.fromarray(_scene(random, 240, 50)),
        "exact": Image.fromarray(_scene(random, 32, 32)),
        "odd": Image.fromarray(_scene(random, 217, 333)),
        "grey": Image.fromarray(_scene(random, 90, 70)[:, :, 0]),
        "palette": Image.fromarray(_scene(random, 80, 120)[:, :, 1] // 16),
        "alpha": Image.fromarray(np.dstack([_scene(random, 60, 60), _scene(random, 60, 60)[:, :, :1]])),
    }
    drawn["palette"].putpalette(random.integers(0, 256, 48, dtype=np.uint8).tobytes())
    files = {name: folder / f"{name}.png" for name in drawn}
    for name, picture in drawn.items():
        picture.save(files[name])
    return files


def _scene(random: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Return ``[height, width, 3]`` uint8: blocks of colour, a slope and noise."""
    blocks = random.integers(0, 160, (6, 6, 3))
    rows = np.arange(height) * 6 // height
    columns = np.arange(width) * 6 // width
    slope = 60 * np.arange(width)[None, :, None] // width
    noise = random.integers(0, 36, (height, width, 3))
    return (blocks[rows][:, columns] + slope + noise).astype(np.uint8)
