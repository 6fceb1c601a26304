"""A file of several parts, of which each is read without the others."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import numpy as np

_NUMBER = np.dtype("<i8")


def packed(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what a file holds: the parts, where each begins and ends, and how many numbers say so."""
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
        yield part
    yield np.array([*ends, len(ends)], _NUMBER).tobytes()


def unpacked(file: BinaryIO, number: int) -> bytes:
    """Return a part of a file that :func:`packed` made, counted from 0.

    Raises:
        ValueError: It has no such part, or is damaged.
    """
    size = _NUMBER.itemsize
    last = file.seek(0, io.SEEK_END) - size
    (count,) = _numbers(file, last, 1)
    if not 0 <= number < count - 1:
        raise ValueError(f"has no part {number}")
    start, end = _numbers(file, last - size * (count - number), 2)
    return _read(file, start, end - start)


def _numbers(file: BinaryIO, start: int, count: int) -> list[int]:
    return np.frombuffer(_read(file, start, count * _NUMBER.itemsize), _NUMBER).tolist()


def _read(file: BinaryIO, start: int, size: int) -> bytes:
    if start < 0:
        raise ValueError("does not say where its parts are")
    file.seek(start)
    content = file.read(size)
    if len(content) != size:
        raise ValueError("ends too early")
    return content
