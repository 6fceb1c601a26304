"""Handles of images and videos before anything is decoded."""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from ...errors import UsageError
from .file_digests import digests_of, file_digest

if TYPE_CHECKING:
    from PIL import Image

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in pixels of the image as it is stored."""


@runtime_checkable
class EncodedImage(Protocol):
    """An encoded image that is read when it is needed, such as one in a row of a data set.

    It has a hash, and is equal to others of the same image; ``str`` gives what messages call it.
    """

    def read_bytes(self) -> bytes:
        """Return the encoded bytes.

        Raises:
            OSError: There are none, or they cannot be read.
        """
        ...


@runtime_checkable
class FrameSource(Protocol):
    """A video that gives its frames itself, such as one that is drawn.

    It has a hash, and is equal to others of the same video; ``str`` gives what messages call it.
    """

    def read_frames(self) -> Iterator[Image.Image]:
        """Return every frame in RGB, in order."""
        ...

    def digest(self) -> str:
        """Return a text that changes with the frames."""
        ...


@dataclass(frozen=True)
class FrameSampling:
    """Which frames of a video a captioner sees: some at equal distances, from the first to the last.

    Attributes:
        count: Their number; with ``fps`` the most that there may be.
        fps: How many of a second; None for ``count`` of any video.
    """

    count: int = 8
    fps: float | None = None


@dataclass(frozen=True)
class ImageHandle:
    """An image, or a crop of one.

    Attributes:
        source: Its file, its encoded bytes, or what gives them.
        box: The crop; None for the whole image.
    """

    source: Path | bytes | EncodedImage
    box: Box | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        name = f"{len(self.source)} bytes" if isinstance(self.source, bytes) else _printable(self.source)
        return name if self.box is None else f"{name} at {','.join(f'{edge:g}' for edge in self.box)}"

    def digest(self) -> str:
        """Return a text that changes with the encoded bytes and the box.

        Raises:
            OSError: The file cannot be read.
        """
        content = file_digest(self.source) if isinstance(self.source, Path) else self._content
        crop = "" if self.box is None else ",".join(map(_exact, self.box))
        return f"sha256:{content}:{crop}"

    def encoded(self) -> bytes:
        """Return the encoded bytes of the whole image.

        Raises:
            OSError: They cannot be read.
        """
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()

    @cached_property
    def _content(self) -> str:
        """The hash of what lies in memory or in a row, which does not change."""
        return hashlib.sha256(self.encoded()).hexdigest()


@dataclass(frozen=True)
class VideoHandle:
    """A video, or recorded features of its frames.

    Attributes:
        source: A video file, a ``.npy`` or ``.pt`` file with features ``[frames, d]``, or what gives the frames.
        span: Start, end and duration of the whole, in seconds; None for all of it.
    """

    source: Path | FrameSource
    span: tuple[float, float, float] | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return _printable(self.source)

    def digest(self) -> str:
        """Return a text that changes with the file's bytes, or the frames, not with the span.

        Raises:
            OSError: The file cannot be read.
        """
        if not isinstance(self.source, Path):
            return f"frames:{self.source.digest()}"
        return f"sha256:{file_digest(self.source)}"


def digests(handles: Sequence[ImageHandle | VideoHandle]) -> list[str | OSError]:
    """Return the digest of each handle, or why its file cannot be read; quicker for many than one by one."""
    return digests_of(handles, lambda handle: handle.digest())


def image_suffix(encoded: bytes) -> str:
    """Return how the file of an encoded image ends."""
    return ".png" if encoded.startswith(b"\x89PNG") else ".jpg" if encoded.startswith(b"\xff\xd8") else ".img"


def _exact(edge: float) -> str:
    """Return a number as a text that no other number has; ``0`` and ``-0``, which are equal, have one."""
    edge = float(edge) + 0.0
    short = f"{edge:g}"
    return short if float(short) == edge else repr(edge)


def _printable(source: Path | EncodedImage | FrameSource) -> str:
    return str(source).encode("utf-8", "backslashreplace").decode()


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


def as_png(image: Image.Image | np.ndarray) -> bytes:
    """Return an image as PNG, which keeps its pixels as they are.

    Args:
        image: An image of Pillow; or uint8 values of 0 to 255, ``[h, w]`` grey, ``[h, w, 3]`` RGB or ``[h, w, 4]``
            RGBA.

    Raises:
        UsageError: An array of other values or another shape, or an image whose value range is unknown.
    """
    from PIL import Image

    if isinstance(image, np.ndarray):
        is_grey = image.ndim == 2
        if image.dtype != np.uint8 or not (is_grey or (image.ndim == 3 and image.shape[2] in (3, 4))):
            raise UsageError(
                f"unsupported image array: dtype {image.dtype}, shape {list(image.shape)}",
                "Use uint8, 0 to 255, of shape [h, w], [h, w, 3] or [h, w, 4].",
            )
        image = Image.fromarray(image)
    if image.mode in _NUMBERS:
        raise UsageError(
            f"the value range of a Pillow image of mode {image.mode} is unknown", "Convert it: image.convert('RGB')."
        )
    bare = image.copy() if image.mode in _AS_IT_IS else image.convert("RGB")
    # Other metadata of the file (orientation, colour profile) is not part of the pixels.
    bare.info = {key: value for key, value in bare.info.items() if key == "transparency"}
    buffer = io.BytesIO()
    Image.Image.save(bare, buffer, "png", compress_level=1)
    return buffer.getvalue()
