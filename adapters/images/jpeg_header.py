"""Looks into a JPEG file without decoding it, at a fraction of the cost of opening it."""

from collections.abc import Iterator
from dataclasses import dataclass

_START, END_OF_IMAGE = b"\xff\xd8", b"\xff\xd9"
_FRAMES = (0xC0, 0xC1, 0xC2)
"""Baseline, extended and progressive; others (lossless, arithmetic) are rare and not for every decoder."""
_SCAN = 0xDA
_APPLICATION_1 = b"\xff\xe1"
_WITHOUT_LENGTH = (0x01, *range(0xD0, 0xD9))


@dataclass(frozen=True)
class PlainJpeg:
    """A JPEG file of the usual kind.

    Attributes:
        width: In pixels, as stored.
        height: The same.
        has_exif: Whether there is EXIF data, which may say how to turn the image.
        unturned: The file without that data: every decoder returns the stored pixels, whether or not it applies
            orientations.
    """

    width: int
    height: int
    has_exif: bool
    unturned: bytes


def plain_jpeg(encoded: bytes) -> PlainJpeg | None:
    """Return the properties of a whole JPEG file in greys or YCbCr with 8 bits; None for anything else.

    Args:
        encoded: The file's bytes.
    """
    if not encoded.startswith(_START) or not encoded.endswith(END_OF_IMAGE):
        return None
    size: tuple[int, int] | None = None
    has_exif = False
    kept = [_START]
    for marker, at, end in _segments(encoded):
        body = encoded[at + 4 : min(at + 20, end)]
        if marker == _SCAN:
            # More segments are allowed between the scans, but no encoder writes them.
            if size is None or encoded.find(_APPLICATION_1, at) >= 0:
                return None
            return PlainJpeg(*size, has_exif, b"".join([*kept, encoded[at:]]))
        if marker in _FRAMES:
            if (size := _size(body)) is None:
                return None
        elif marker == 0xE1:
            has_exif = has_exif or body.startswith(b"Exif\0")
        elif marker == 0xE2 and body.startswith(b"MPF\0"):
            return None  # several images in one file
        elif marker == 0xEE and body.startswith(b"Adobe") and body[11:12] != b"\x01":
            return None  # RGB or CMYK, stored as they are
        if marker != 0xE1:
            kept.append(encoded[at:end])
    return None


def end_of_scans(encoded: bytes) -> int | None:
    """Return where the end mark after a JPEG file's first scan is; None where there is none.

    Thumbnails, which lie before the first scan, have separate end marks.
    """
    for marker, at, _ in _segments(encoded):
        if marker == _SCAN:
            end = encoded.find(END_OF_IMAGE, at)
            return None if end < 0 else end
    return None


def _segments(encoded: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield marker, start and end of each segment up to the first scan."""
    at = len(_START)
    while at + 4 <= len(encoded) and encoded[at] == 0xFF:
        marker = encoded[at + 1]
        if marker == 0xFF:
            end = at + 1
        elif marker in _WITHOUT_LENGTH:
            end = at + 2
        else:
            end = at + 2 + int.from_bytes(encoded[at + 2 : at + 4], "big")
        yield marker, at, end
        at = end


def _size(frame: bytes) -> tuple[int, int] | None:
    """Return width and height of a frame with 8 bits in greys or three colours."""
    if len(frame) < 6 or frame[0] != 8 or frame[5] not in (1, 3):
        return None
    height, width = int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big")
    return (width, height) if width and height else None
