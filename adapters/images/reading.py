"""Reads an image, or a crop of one, as it is stored; or says why it cannot be read.

An image whose data end before its pixels do is none that can be read. Pillow raises where a file breaks off, but a file
may have its end mark and too little before it, and decoders fill the rest without an error:

- PNG: a stream that ends after some of its rows leaves the others 0, and sums of image data are not checked.
- JPEG: what follows the last data is grey (each coefficient is 0), and without an end mark additional bytes are data.
- PCX: a palette at the end of the file that is not there makes greys of the indices.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .handles import Box, ImageHandle
from .jpeg_header import END_OF_IMAGE, end_of_scans

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 178_956_970
"""Pixels (0.5 GiB of RGB) above which an image is taken for a decompression bomb, as in Pillow."""

_FORMATS = (
    *("AVIF", "BMP", "DIB", "GIF", "ICO", "JPEG", "JPEG2000", "MPO", "PCX"),
    *("PNG", "PPM", "SGI", "TGA", "TIFF", "WEBP"),
)  # fmt: skip
"""Formats of pixels. Pillow knows others, which it hands to programs such as Ghostscript."""
_ORIENTATION = 0x0112
_TURN = "EXIF orientation"
_CUT = "16 bits a channel cut to 8"
_CLIPPED = "grey levels of 16 bits clipped at 255"


class UnreadableImage(Exception):  # noqa: N818 - callers handle it as a reason, not as an error
    """An image that cannot be read; its text names the image and the cause."""


@dataclass(frozen=True)
class ReadImage:
    """An image that was read.

    Attributes:
        image: The pixels, loaded, in Pillow's mode. The model's transform decides whether it converts them to RGB
            before or after the resize.
        remarks: Unusual steps in reading it.
    """

    image: Image.Image
    remarks: tuple[str, ...] = ()

    @property
    def remark(self) -> str:
        """The remarks in one line; empty for none."""
        return "; ".join(self.remarks)


def read_bytes(handle: ImageHandle) -> bytes:
    """Return the encoded bytes of an image.

    Raises:
        UnreadableImage: There is no such file, or nothing is in it.
    """
    if isinstance(handle.source, bytes):
        encoded = handle.source
    else:
        try:
            encoded = handle.source.read_bytes()
        except OSError as error:
            raise UnreadableImage(f"{handle.name}: {error.strerror or error}") from error
        except ValueError as error:
            raise UnreadableImage(f"{handle.name}: is no path: {error}") from error
    if not encoded:
        raise UnreadableImage(f"{handle.name}: is empty (0 bytes)")
    return encoded


def read_image(handle: ImageHandle, encoded: bytes | None = None) -> ReadImage:
    """Read an image, or a crop of one.

    Of an animation the first frame is read. Orientation in EXIF data is not applied, as in the
    released code of the metrics.

    Args:
        handle: The image.
        encoded: Its bytes, where they have been read already.

    Raises:
        UnreadableImage: It is missing, damaged, no image, too large, or its box lies outside.
    """
    from PIL import Image

    encoded = read_bytes(handle) if encoded is None else encoded
    try:
        image = Image.open(io.BytesIO(encoded), formats=_formats())
        check_size(handle, *image.size)
        # Pillow drops the lower byte of 16-bit colours while it decodes.
        cut = "16" not in image.mode and any(";16" in str(tile[3:]) for tile in getattr(image, "tile", ()))
        check_sums(encoded)
        image.load()
        if is_truncated(image, encoded):
            raise UnreadableImage(f"{handle.name}: is truncated: its data end before its pixels do")
        read = _with_known_range(ReadImage(image, _remarks(image, cut)))
    except UnreadableImage:
        raise
    except Image.UnidentifiedImageError as error:
        raise UnreadableImage(f"{handle.name}: is not an image in a known format") from error
    except Exception as error:
        # Decoders raise errors of any type: OSError, SyntaxError, struct.error, ValueError, ...
        raise UnreadableImage(f"{handle.name}: {_cause(error)}") from error
    if handle.box is None:
        return read
    inside, remark = crop_of(handle, handle.box, *read.image.size)
    return ReadImage(read.image.crop(inside), (*read.remarks, remark) if remark else read.remarks)


def turned(read: ReadImage) -> ReadImage:
    """Return an image as its EXIF data say that it is to be shown; nothing is left of them."""
    from PIL import ImageOps

    remarks = tuple(remark for remark in read.remarks if not remark.startswith(_TURN))
    return ReadImage(ImageOps.exif_transpose(read.image), remarks)


def image_size(handle: ImageHandle) -> tuple[int, int]:
    """Return width and height of an image or crop; nothing is decoded. Zeros where it cannot be read."""
    from PIL import Image

    with contextlib.suppress(Exception):
        # Of a file only the first bytes are read. What cannot be opened here is found out when it is decoded.
        source = handle.source if isinstance(handle.source, Path) else io.BytesIO(read_bytes(handle))
        with Image.open(source, formats=_formats()) as image:
            size = image.size
        if handle.box is None:
            return size
        (left, top, right, bottom), _ = crop_of(handle, handle.box, *size)
        return right - left, bottom - top
    return 0, 0


def check_size(handle: ImageHandle, width: int, height: int) -> None:
    """Raise where an image has too many pixels to be decoded.

    Raises:
        UnreadableImage: It has more than ``MAX_PIXELS``.
    """
    if width * height > MAX_PIXELS:
        raise UnreadableImage(
            f"{handle.name}: {width} x {height} pixels are more than {MAX_PIXELS:,}; it was not decoded"
        )


def crop_of(handle: ImageHandle, box: Box, width: int, height: int) -> tuple[tuple[int, int, int, int], str]:
    """Return the whole pixels ``(left, top, right, bottom)`` of a box, and a remark where it was clipped.

    Edges are rounded as Pillow's ``crop`` does: halves to even.

    Raises:
        UnreadableImage: Nothing of the box lies in the image.
    """
    try:
        left, top, right, bottom = (round(edge) for edge in box)
    except (OverflowError, ValueError) as error:
        raise UnreadableImage(f"{handle.name}: its box is not made of finite numbers") from error
    if right <= left or bottom <= top:
        raise UnreadableImage(f"{handle.name}: its box has no area")
    inside = max(left, 0), max(top, 0), min(right, width), min(bottom, height)
    if inside[2] <= inside[0] or inside[3] <= inside[1]:
        raise UnreadableImage(f"{handle.name}: its box lies outside the image of {width} x {height} pixels")
    clipped = inside != (left, top, right, bottom)
    return inside, f"box clipped to the image of {width} x {height} pixels" if clipped else ""


@cache
def _formats() -> tuple[str, ...]:
    from PIL import Image

    Image.init()
    # Of sizes between its limit and twice that Pillow only warns; ours is the latter.
    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _remarks(image: Image.Image, cut: bool) -> tuple[str, ...]:
    remarks = [_CUT] if cut else []
    if (frames := getattr(image, "n_frames", 1)) > 1:
        remarks.append(f"first of {frames} frames")
    return (*remarks, *orientation_remarks(image))


def orientation_remarks(image: Image.Image | bytes) -> tuple[str, ...]:
    """Return a remark where the EXIF data of an image, encoded or not, says how to turn it; nothing is decoded."""
    from PIL import Image

    orientation = 1
    with contextlib.suppress(Exception):
        # Damaged EXIF data harms no pixel; what cannot be opened is found out when it is decoded.
        opened = Image.open(io.BytesIO(image), formats=_formats()) if isinstance(image, bytes) else image
        orientation = opened.getexif().get(_ORIENTATION, 1)
    return (f"{_TURN} {orientation} not applied",) if orientation in range(2, 9) else ()


def _with_known_range(read: ReadImage) -> ReadImage:
    """Return an image of which it is known what its levels mean, with a remark where Pillow will clip them.

    Grey levels of 16 bits are clipped at 255 as soon as RGB is made of them, not scaled: so do the released transforms.
    """
    mode = read.image.mode
    if mode == "F":
        raise ValueError("floating-point pixels have no known range")
    if not mode.startswith("I"):
        return read
    levels = np.asarray(read.image)
    if mode == "I" and levels.size and (levels.min() < 0 or levels.max() > 0xFFFF):
        raise ValueError("32-bit pixels have no known range")
    return replace(read, remarks=(*read.remarks, _CLIPPED)) if levels.max() > 0xFF else read


def _cause(error: Exception) -> str:
    from PIL import Image

    if isinstance(error, Image.DecompressionBombError):
        return f"has more than {MAX_PIXELS:,} pixels; it was not decoded"
    first = str(error).strip().partition("\n")[0]
    return f"cannot be decoded: {first or type(error).__name__}"


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
    return not np.array_equal(np.asarray(image), np.asarray(other))
