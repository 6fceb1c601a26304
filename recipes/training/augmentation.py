"""Random crops of images, as encoders are trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

from ...adapters import ImageHandle

_RATIOS = math.log(3 / 4), math.log(4 / 3)
_TRIALS = 10


@dataclass(frozen=True)
class RandomView(ImageHandle):
    """A random crop of an image.

    Attributes:
        seed: Decides the crop.
    """

    seed: tuple[int, ...] = ()


def random_crop(image: Image.Image, size: int, shares: tuple[float, float], rng: np.random.Generator) -> Image.Image:
    """Return a random crop of an image as a square, by the rule of torchvision's ``RandomResizedCrop``.

    Of ten crops with a random share of the area and a random ratio from 3:4 to 4:3 the first is taken that lies within
    the image; if none does, the largest in its middle with such a ratio.

    Args:
        image: The image.
        size: Pixels a side of the square.
        shares: The least and the greatest share of the area that a crop keeps.
        rng: The source of random numbers.
    """
    width, height = image.size
    for _ in range(_TRIALS):
        area, ratio = width * height * rng.uniform(*shares), math.exp(rng.uniform(*_RATIOS))
        wide, tall = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < tall <= height:
            left, top = int(rng.integers(width - wide + 1)), int(rng.integers(height - tall + 1))
            break
    else:
        least, greatest = (math.exp(end) for end in _RATIOS)
        wide, tall = min(width, round(height * greatest)), min(height, round(width / least))
        left, top = (width - wide) // 2, (height - tall) // 2
    return image.crop((left, top, left + wide, top + tall)).resize((size, size), Image.Resampling.BICUBIC)
