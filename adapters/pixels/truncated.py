"""Finds images whose data end before their pixels do, where decoders fill the rest without an error.

Pillow raises where a file breaks off, but a file may have its end mark and too little before it:

- PNG: a stream that ends after some of its rows leaves the others 0, and sums of image data are not checked.
- JPEG: what follows the last data is grey (each coefficient is 0), and without an end mark further bytes are data.
- PCX: a palette at the end of the file that is not there makes greys of the indices.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .jpeg_header import END_OF_IMAGE, end_of_scans

if TYPE_CHECKING:
    from PIL import Image

_FILL = range(127, 130)
"""Levels of what a JPEG decoder fills: 128 in each channel, or 127 where CMYK is stored inverted."""
_OTHER_DATA = b"".join([b"\x55" * 64, *(bytes([0xFF, 0xD0 + number]) + b"\x55" * 64 for number in range(8))])
"""What decodes to something other than the fill, after any restart marker too, and is passed over after whole data."""


def check_sums(encoded: bytes) -> None:
    """Raise where a PNG file lacks its end, or a sum of its data is wrong; nothing is decoded. Others pass.

    Raises:
        OSError, SyntaxError: It is so.
    """
    from PIL import Image

    if encoded.startswith(b"\x89PNG"):
        Image.open(io.BytesIO(encoded), formats=("PNG",)).verify()


def is_truncated(image: Image.Image, encoded: bytes) -> bool:
    """Return whether pixels of an image are its decoder's fill, since its data end before them.

    An image is decoded a second time only where its last pixel may be such a fill, or it is an interlaced PNG.

    Args:
        image: The whole image, decoded.
        encoded: The bytes that it was decoded from.
    """
    match image.format:
        case "PNG":
            return (bool(image.info.get("interlace")) or not any(_last_pixel(image))) and _png_lacks_rows(
                image, encoded
            )
        case "JPEG" | "MPO":
            if not encoded.endswith(END_OF_IMAGE) and end_of_scans(encoded) is None:
                return True
            return is_fill(_last_pixel(image)) and _jpeg_lacks_data(image, encoded)
        case "PCX":
            # Every writer of greys adds a palette of greys.
            return image.mode == "L" and encoded[-769:-768] != b"\x0c"
        case _:
            return False


def is_fill(levels: Sequence[int]) -> bool:
    """Return whether a pixel of a JPEG file has the levels that decoders give to what is missing."""
    return all(level in _FILL for level in levels)


def _last_pixel(image: Image.Image) -> Sequence[int]:
    levels: Any = image.getpixel((image.width - 1, image.height - 1))
    return levels if isinstance(levels, tuple) else (levels,)


def _png_lacks_rows(image: Image.Image, encoded: bytes) -> bool:
    """Return whether a PNG file that is decoded over another ground shows some of it."""
    from PIL import Image

    again = Image.open(io.BytesIO(encoded), formats=("PNG",))
    again.im = Image.new(again.mode, again.size, 1).im
    return _differ(image, again)


def _jpeg_lacks_data(image: Image.Image, encoded: bytes) -> bool:
    """Return whether a JPEG file's pixels change with data that are added at their end."""
    from PIL import Image

    end = end_of_scans(encoded)
    longer = encoded[:end] + _OTHER_DATA + encoded[end:]
    return _differ(image, Image.open(io.BytesIO(longer), formats=("JPEG", "MPO")))


def _differ(image: Image.Image, other: Image.Image) -> bool:
    import numpy as np

    return not np.array_equal(np.asarray(image), np.asarray(other))
