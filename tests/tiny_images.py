"""Small images: of noise, each with a size of its own; of smooth colours; encoded as any kind of file; and videos."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from capbench.adapters import ImageHandle

SIZES = [(40, 60), (90, 50), (64, 64), (120, 30), (33, 128), (70, 70), (50, 90), (100, 40)]
_Y, _X = np.mgrid[0:40, 0:60]
COLOURS = Image.fromarray(np.stack([4 * _X, 6 * _Y, 120 + _X - _Y], axis=-1).astype(np.uint8))
"""A picture of smooth colours, 60 by 40."""


def noise_image(number: int) -> Image.Image:
    """Return the image of a number, in RGB."""
    height, width = SIZES[number % len(SIZES)]
    pixels = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def noise_png(number: int) -> bytes:
    """Return it encoded."""
    return encoded(noise_image(number))


def noise_video(path: Path, number: int, frames: int) -> Path:
    """Write a video of coarse noise, 64 by 48, 5 frames a second, and return where it is."""
    import av

    noise = np.random.default_rng(number).integers(0, 256, (frames, 6, 8, 3), dtype=np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for coarse in noise:
            pixels = coarse.repeat(8, axis=0).repeat(8, axis=1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path


def plain_png(colour: str) -> bytes:
    """Return an image of 8 by 8 pixels of one colour, encoded."""
    return encoded(Image.new("RGB", (8, 8), colour))


def smooth_pictures(folder: Path, count: int) -> list[ImageHandle]:
    """Write pictures of coarse colours, 90 wide and of different heights, and return their handles."""
    handles = [ImageHandle(folder / f"{number}.png") for number in range(count)]
    for number, handle in enumerate(handles):
        noise = np.random.default_rng(number).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((90, 60 + number)).save(str(handle.source))
    return handles


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """Return an image as a file of some kind."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def turned(orientation: int) -> Image.Exif:
    """Return EXIF data that say how to turn an image."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def png_of(
    rows: bytes, size: tuple[int, int] = (64, 48), depth: int = 8, interlaced: bool = False, ends: bool = True
) -> bytes:
    """Return a PNG file of RGB by hand, with any claims about its size and depth, whose stream ends with the rows."""
    header = struct.pack(">IIBBBBB", *size, depth, 2, 0, 0, int(interlaced))
    parts = [png_chunk(b"IHDR", header), png_chunk(b"IDAT", zlib.compress(rows)), png_chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts if ends else parts[:2])


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """Return a part of a PNG file."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
