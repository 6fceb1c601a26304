"""Whether a video file is as long as it says: where one breaks off FFmpeg gives the frames before, and no error."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"


def missing_bytes(path: Path) -> int:
    """Return how many bytes a video file lacks of what its parts claim; 0 where they claim no length.

    Args:
        path: A file in MP4, QuickTime, AVI, Matroska or WebM.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        head = _read(file, 0)
        part = _chunk if head.startswith(b"RIFF") else _element if head.startswith(_EBML) else _box
        end = 0
        while end < size and (length := part(_read(file, end))):
            end += length
    return max(end - size, 0)


def _read(file: BinaryIO, at: int) -> bytes:
    file.seek(at)
    return file.read(16)


def _box(head: bytes) -> int:
    """Return the length of a box of MP4 or QuickTime; 0 of anything else, and where it goes to the end of the file."""
    length = int.from_bytes(head[:4], "big")
    length = int.from_bytes(head[8:16], "big") if length == 1 else length
    return length if head[4:8].isalnum() and length >= 8 else 0


def _chunk(head: bytes) -> int:
    """Return the length of a list of AVI; 0 of anything else, and where whoever wrote it did not know it."""
    length = int.from_bytes(head[4:8], "little")
    return 8 + length if head.startswith(b"RIFF") and 0 < length < 0xFFFFFFFF else 0


def _element(head: bytes) -> int:
    """Return the length of an element of Matroska or WebM; 0 where whoever wrote it did not know it."""
    if not head.startswith((_EBML, _SEGMENT)):
        return 0
    width = 9 - head[4].bit_length()
    length = int.from_bytes(head[4 : 4 + width], "big") & ((1 << 7 * width) - 1)
    return 0 if length == (1 << 7 * width) - 1 else 4 + width + length
