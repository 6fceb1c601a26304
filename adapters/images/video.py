"""Reads the frames of a video, or recorded features of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ...errors import AdapterError, extra
from ...paths import is_file
from .handles import VideoHandle

if TYPE_CHECKING:
    from PIL import Image

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
    """Return the length of a list of AVI; 0 of anything else, and where the writer did not know it."""
    length = int.from_bytes(head[4:8], "little")
    return 8 + length if head.startswith(b"RIFF") and 0 < length < 0xFFFFFFFF else 0


def _element(head: bytes) -> int:
    """Return the length of an element of Matroska or WebM; 0 where the writer did not know it."""
    if not head.startswith((_EBML, _SEGMENT)):
        return 0
    width = 9 - head[4].bit_length()
    length = int.from_bytes(head[4 : 4 + width], "big") & ((1 << 7 * width) - 1)
    return 0 if length == (1 << 7 * width) - 1 else 4 + width + length


RECORDED = (".npy", ".pt")
"""Suffixes of files that hold features of frames, not the video itself."""

_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"
"""Formats that hold the video itself. FFmpeg knows others that name additional files or addresses to open."""


class UnreadableVideo(Exception):  # noqa: N818 - callers handle it as a reason, not as an error
    """A video that cannot be read; its text names the file and the cause."""


def is_recorded(handle: VideoHandle) -> bool:
    """Return whether a handle is of recorded features, not of the video itself."""
    return isinstance(handle.source, Path) and handle.source.suffix in RECORDED


def read_frames(handle: VideoHandle) -> Iterator[Image.Image] | np.ndarray:
    """Return every frame of a video, or its recorded features.

    All frames are decoded, in order, as in the released EMScore code (``extract_video_embeddings.py``), and
    turned upright according to the video's metadata. Few of them are in memory at a time.

    Args:
        handle: The video. Its span is not looked at.

    Returns:
        Images in RGB, decoded on demand; or float32 ``[frames, d]`` of a ``.npy`` or ``.pt`` file.

    Raises:
        UnreadableVideo: The file is missing, damaged or no video, or holds no array ``[frames, d]``. A
            damaged video may be detected only while its frames are read.
        AdapterError: The package that decodes videos is not installed.
    """
    if not isinstance(handle.source, Path):
        try:
            return handle.source.read_frames()
        except OSError as error:
            raise UnreadableVideo(f"{handle.source}: {error.strerror or error}") from error
    if not is_file(handle.source):
        raise UnreadableVideo(f"{handle.name}: there is no such file")
    if is_recorded(handle):
        return _recorded(handle.source)
    return _decoded(handle.source)


def _recorded(path: Path) -> np.ndarray:
    try:
        features = _load_torch(path) if path.suffix == ".pt" else np.load(path, allow_pickle=False)
    except UnreadableVideo:
        raise
    except Exception as error:
        # Readers raise errors of any type: OSError, EOFError, ValueError, RuntimeError, UnpicklingError.
        raise UnreadableVideo(
            f"{path}: holds no plain array of features, or is damaged; nothing in it was executed "
            f"({type(error).__name__})"
        ) from error
    if not isinstance(features, np.ndarray) or features.ndim != 2 or features.dtype.kind not in "fiu":
        shape = getattr(features, "shape", type(features).__name__)
        raise UnreadableVideo(f"{path}: expected features [frames, d], found {shape}")
    return features.astype(np.float32)


def _load_torch(path: Path) -> np.ndarray:
    import torch

    # Tensors and plain containers alone are loaded: a pickle's code does not run.
    features: Any = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(features, torch.Tensor):
        raise UnreadableVideo(f"{path}: expected one tensor [frames, d], found {type(features).__name__}")
    return features.detach().float().numpy()


def _decoded(path: Path) -> Iterator[Image.Image]:
    with extra("video", f"{path}: decoding videos needs the package PyAV", AdapterError):
        import av
        from av.error import FFmpegError
    decoded = 0
    try:
        with av.open(str(path), options={"format_whitelist": _FORMATS, "protocol_whitelist": "file"}) as container:
            if not container.streams.video:
                raise UnreadableVideo(f"{path}: has no video stream")
            if missing := missing_bytes(path):
                raise UnreadableVideo(f"{path}: is truncated: {missing:,} bytes are missing")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            for frame in container.decode(stream):
                image = frame.to_image()
                yield image.rotate(frame.rotation, expand=True) if frame.rotation else image
                decoded += 1
    except FFmpegError as error:
        raise UnreadableVideo(
            f"{path}: no video in a known format, or damaged after {decoded} frames: {error.strerror}"
        ) from error
    if not decoded:
        raise UnreadableVideo(f"{path}: has no frame")
