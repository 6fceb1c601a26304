"""Small images of noise, each with a size of its own."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

SIZES = [(40, 60), (90, 50), (64, 64), (120, 30), (33, 128), (70, 70), (50, 90), (100, 40)]


def noise_image(number: int) -> Image.Image:
    """Return the image of a number, in RGB."""
    height, width = SIZES[number % len(SIZES)]
    pixels = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def noise_png(number: int) -> bytes:
    """Return it encoded."""
    buffer = io.BytesIO()
    noise_image(number).save(buffer, "PNG")
    return buffer.getvalue()
