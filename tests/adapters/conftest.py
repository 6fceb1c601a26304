"""Encoded images of every kind, and what an encoder makes of inputs as one array."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from capbench.adapters import Encoded, ImageHandle


@pytest.fixture
def stacked() -> Callable[[Iterator[Encoded]], np.ndarray]:
    """Return a function that gives all features as one array, where no input failed."""

    def stack(batches: Iterator[Encoded]) -> np.ndarray:
        found: dict[int, np.ndarray] = {}
        for batch in batches:
            assert not batch.failures
            assert not found.keys() & batch.vectors.keys()
            found |= batch.vectors
        assert sorted(found) == list(range(len(found)))
        return np.stack([found[position] for position in range(len(found))])

    return stack


@pytest.fixture
def encoded() -> Callable[..., bytes]:
    """Return a function that encodes an image."""

    def encode(image: Image.Image, kind: str, **options: Any) -> bytes:
        buffer = io.BytesIO()
        image.save(buffer, kind, **options)
        return buffer.getvalue()

    return encode


@pytest.fixture
def png() -> Callable[..., bytes]:
    """Return a function that writes a PNG of RGB by hand, with any claims about its size and depth."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    def write(width: int, height: int, depth: int, rows: bytes) -> bytes:
        header = struct.pack(">IIBBBBB", width, height, depth, 2, 0, 0, 0)
        parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(parts)

    return write


@pytest.fixture
def colours() -> Image.Image:
    """A picture of smooth colours, 60 by 40."""
    y, x = np.mgrid[0:40, 0:60]
    return Image.fromarray(np.stack([4 * x, 6 * y, 120 + x - y], axis=-1).astype(np.uint8))


@pytest.fixture
def photographs(data_folder: Callable[[str], Path]) -> list[ImageHandle]:
    """Photographs of two data sets."""
    flickr = sorted((data_folder("flickr8k") / "images").glob("*.jpg"))[:12]
    coco = sorted((data_folder("coco_mini")).rglob("*.jpg"))[:12]
    assert len(flickr) == len(coco) == 12
    return [ImageHandle(path) for path in (*flickr, *coco)]
