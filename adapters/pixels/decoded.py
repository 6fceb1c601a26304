"""Images that are decoded already, as encoded ones: what everything else here takes."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from ...errors import UsageError

if TYPE_CHECKING:
    from PIL import Image

_AS_IT_IS = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")
"""Modes of Pillow of which PNG keeps every value."""
_NUMBERS = ("I", "F")
"""Modes of numbers of any size."""


def is_decoded(image: Any) -> TypeGuard[Image.Image | np.ndarray]:
    """Return whether something is an image of Pillow, or an array."""
    if isinstance(image, str | bytes):
        return False
    pillow = sys.modules.get("PIL.Image")
    return isinstance(image, np.ndarray) or (pillow is not None and isinstance(image, pillow.Image))


def encoded(image: Image.Image | np.ndarray) -> bytes:
    """Return an image as PNG, which keeps its pixels as they are.

    Args:
        image: An image of Pillow; or uint8 values of 0 to 255, ``[h, w]`` grey, ``[h, w, 3]`` RGB or ``[h, w, 4]``
            RGBA.

    Raises:
        UsageError: An array of other values or another shape, or an image of numbers whose range nobody knows.
    """
    from PIL import Image

    if isinstance(image, np.ndarray):
        is_grey = image.ndim == 2
        if image.dtype != np.uint8 or not (is_grey or (image.ndim == 3 and image.shape[2] in (3, 4))):
            raise UsageError(
                f"an image is an array of {image.dtype} of shape {list(image.shape)}",
                "Arrays are of uint8, 0 to 255: [h, w], [h, w, 3] or [h, w, 4].",
            )
        image = Image.fromarray(image)
    if image.mode in _NUMBERS:
        raise UsageError(
            f"an image of Pillow's mode {image.mode} has numbers whose range is not known", "image.convert('RGB')"
        )
    buffer = io.BytesIO()
    # What the file that it was read of says besides (how to turn it, its colours) is not of the pixels.
    Image.Image.save(_bare(image), buffer, "png", compress_level=1)
    return buffer.getvalue()


def _bare(image: Image.Image) -> Image.Image:
    """Return the same pixels without what else their file held."""
    bare = image.copy() if image.mode in _AS_IT_IS else image.convert("RGB")
    bare.info = {key: value for key, value in bare.info.items() if key == "transparency"}
    return bare
