"""Looks into a JPEG file without decoding it, at a fraction of the cost of opening it."""

from __future__ import annotations

from dataclasses import dataclass

_START, _END = b"\xff\xd8", b"\xff\xd9"
_FRAMES = (0xC0, 0xC1, 0xC2)
"""Baseline, extended and progressive; others (lossless, arithmetic) are rare and not for every decoder."""
_WITHOUT_LENGTH = (0x01, *range(0xD0, 0xD9))


@dataclass(frozen=True)
class JpegHeader:
    """What the header says.

    Attributes:
        width: In pixels, as stored.
        height: The same.
        has_exif: Whether there is EXIF data, which may say how to turn the image.
    """

    width: int
    height: int
    has_exif: bool


def plain_jpeg(encoded: bytes) -> JpegHeader | None:
    """Return the header of a whole JPEG file in greys or YCbCr with 8 bits; None for anything else.

    Args:
        encoded: The file's bytes.
    """
    if not encoded.startswith(_START) or not encoded.endswith(_END):
        return None
    has_exif = False
    at = len(_START)
    while at + 4 <= len(encoded) and encoded[at] == 0xFF:
        marker = encoded[at + 1]
        if marker == 0xFF or marker in _WITHOUT_LENGTH:
            at += 1 if marker == 0xFF else 2
            continue
        body = encoded[at + 4 : at + 20]
        if marker in _FRAMES:
            return _header(body, has_exif)
        if marker == 0xE1 and body.startswith(b"Exif\0"):
            has_exif = True
        elif marker == 0xE2 and body.startswith(b"MPF\0"):
            return None  # several images in one file
        elif marker == 0xEE and body.startswith(b"Adobe") and body[11:12] != b"\x01":
            return None  # RGB or CMYK, stored as they are
        at += 2 + int.from_bytes(encoded[at + 2 : at + 4], "big")
    return None


def _header(body: bytes, has_exif: bool) -> JpegHeader | None:
    if len(body) < 6 or body[0] != 8 or body[5] not in (1, 3):
        return None
    height, width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
    return JpegHeader(width, height, has_exif) if width and height else None
