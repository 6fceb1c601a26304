"""Reads the frames of a video, all or some at equal distances, or recorded features of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ...errors import AdapterError, extra, require_counts
from ...paths import is_file
from .handles import FrameSampling, VideoHandle
from .reading import UnreadableImage

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


class UnreadableVideo(UnreadableImage):
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
    if isinstance(handle.source, Path) and is_recorded(handle):
        _require_file(handle)
        return _recorded(handle.source)
    return (_upright(frame) for frame, _ in _frames(handle))


def _require_file(handle: VideoHandle) -> None:
    if isinstance(handle.source, Path) and not is_file(handle.source):
        raise UnreadableVideo(f"{handle.name}: there is no such file")


@dataclass(frozen=True)
class SampledVideo:
    """Some frames of a video, or of its span, which counts as a video by itself.

    Attributes:
        frames: Images in RGB, in order.
        places: The number of each, from 0.
        total: Frames of the video.
        rate: Frames a second; None where the video does not tell.
    """

    frames: list[Image.Image]
    places: list[int]
    total: int
    rate: float | None


def own_sampling(frames: int | None, fps: float | None) -> FrameSampling | None:
    """Return which frames a captioner shows by its own arguments; None where it has none.

    Raises:
        AdapterError: A number is not above 0, or there is no most to ``fps``.
    """
    require_counts(AdapterError, frames=frames)
    if frames is None and fps is None:
        return None
    if frames is None or not (fps is None or (isinstance(fps, int | float) and fps > 0)):
        raise AdapterError(f"fps={fps}, frames={frames}: 'fps' is above 0, and 'frames' the most that there may be.")
    return FrameSampling(frames, fps)


def sample_frames(handle: VideoHandle, sampling: FrameSampling) -> SampledVideo:
    """Return frames of a video's span at equal distances, the first and the last among them.

    A file is decoded from its start, as seeking misses frames: once, and again where its header has no number of
    frames, or a wrong one.

    Args:
        handle: The video.
        sampling: How many frames. A video with fewer gives each once.

    Raises:
        UnreadableVideo: As of :func:`read_frames`; or only features were recorded, no frame lies in the span, or there
            is no frame rate to sample by.
        AdapterError: The package that decodes videos is not installed.
    """
    if is_recorded(handle):
        raise UnreadableVideo(f"{handle.name}: holds features of frames, not the video itself")
    _, (total, rate) = next(_frames(handle), (None, (0, None)))
    count = sampling.count
    while True:
        first, length = _span(handle, total)
        if sampling.fps is not None:
            if rate is None:
                raise UnreadableVideo(f"{handle.name}: has no frame rate; sample a number of frames, without fps")
            count = min(sampling.count, max(1, round(sampling.fps * length / rate)))
        places = np.linspace(0, length - 1, min(count, length)).astype(int).tolist()
        wanted, kept, decoded = {first + place for place in places}, [], 0
        for frame, _ in _frames(handle):
            if decoded in wanted:
                kept.append(_upright(frame))
            decoded += 1
        if decoded == total:
            break
        total = decoded
    if not kept:
        raise UnreadableVideo(f"{handle.name}: no frame of {total} lies in {handle.span}")
    return SampledVideo(kept, places, length, rate)


def _span(handle: VideoHandle, total: int) -> tuple[int, int]:
    """Return the first frame of a video's span, and how many frames it has; the video's frames are ``total``."""
    if handle.span is None:
        return 0, total
    start, end, duration = handle.span
    first = int(start * total // duration)
    return first, max(min(int(end * total // duration), total) - first, 0)


def _frames(handle: VideoHandle) -> Iterator[tuple[Any, tuple[int, float | None]]]:
    """Return each frame, of Pillow or PyAV, with the number (0: unknown) and the rate of frames that the header has.

    Raises:
        UnreadableVideo: There is no such file, or nothing that gives frames.
    """
    if isinstance(handle.source, Path):
        _require_file(handle)
        return _decoded(handle.source)
    try:
        return ((frame, (0, None)) for frame in handle.source.read_frames())
    except OSError as error:
        raise UnreadableVideo(f"{handle.source}: {error.strerror or error}") from error


def _upright(frame: Any) -> Image.Image:
    """Return a frame as an image, turned as its video says."""
    if not hasattr(frame, "to_image"):
        return frame
    image = frame.to_image()
    return image.rotate(frame.rotation, expand=True) if frame.rotation else image


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


def _decoded(path: Path) -> Iterator[tuple[Any, tuple[int, float | None]]]:
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
            rate = float(stream.average_rate) if stream.average_rate else None
            for frame in container.decode(stream):
                yield frame, (stream.frames, rate)
                decoded += 1
    except FFmpegError as error:
        raise UnreadableVideo(
            f"{path}: no video in a known format, or damaged after {decoded} frames: {error.strerror}"
        ) from error
    if not decoded:
        raise UnreadableVideo(f"{path}: has no frame")
