"""The pictures of a task's documents on this machine, in formats that browsers show."""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...adapters import FrameSampling, ImageHandle, VideoHandle
from ...boundary import OUTSIDE, Boundary, OutsideFile
from ...errors import BenchError, DataError
from ...tasks.documents import load_documents
from ...tasks.locate import DataLocations
from ...tasks.schema import TaskConfig
from ...tasks.sources import load_source
from ...tasks.templates import DocumentError, Getter, compile_template
from .images import ImageFinder, boxes_of, pixels_value, span_of
from .items import printable

if TYPE_CHECKING:
    from PIL import Image

_TYPES: Mapping[str, tuple[bytes, bytes]] = {
    "image/jpeg": (b"\xff\xd8\xff", b""),
    "image/png": (b"\x89PNG\r\n\x1a\n", b""),
    "image/gif": (b"GIF8", b""),
    "image/webp": (b"RIFF", b"WEBP"),
    "image/bmp": (b"BM", b""),
}
"""The first bytes of files that every browser shows, and the bytes from the ninth on."""
_LARGEST = 64 << 20
_FRAMES = FrameSampling(16)
_EDGE = 768
"""Greatest width and height of an image that is encoded here."""
_GAP = 8


@dataclass(frozen=True)
class NoPicture:
    """Why there is no picture.

    Attributes:
        reason: What is wrong with the image, as a verb and what follows.
        remedy: What to do, or the detail.
    """

    reason: str
    remedy: str


@dataclass(frozen=True)
class Picture:
    """An image for a browser.

    Attributes:
        content: The bytes of its file.
        media_type: Its media type.
        of_video: Whether it is of some frames of a video.
    """

    content: bytes
    media_type: str
    of_video: bool = False

    @property
    def ending(self) -> str:
        """The suffix of its file, without the dot."""
        return self.media_type.removeprefix("image/").replace("jpeg", "jpg")


def picture_of(content: bytes | None) -> Picture | None:
    """Return an image for a browser; None where its format is not one that every browser shows."""
    for media_type, (start, ninth) in _TYPES.items():
        if content and content.startswith(start) and content[8:].startswith(ninth):
            return Picture(content, media_type)
    return None


class TaskImages:
    """The pictures of a task's documents on this machine. Threads may share it.

    Args:
        task: The task.
        path: Its file.
        locations: Where data sets are.
    """

    def __init__(self, task: TaskConfig, path: Path, locations: DataLocations) -> None:
        self._task, self._path, self._locations = task, path, locations
        self._lock = threading.Lock()
        source = load_source(task, path)
        data = locations.find(task, path, source)
        if data is None and task.is_local:
            data = path.parent
        root = data.parent if data is not None and not data.is_dir() else data
        folders = [] if root is None else [root / name for name in task.image_folder or task.video_folder] or [root]
        known = Boundary.of(*filter(None, (root, locations.root, *locations.allowed)))
        folders = [folder for folder in folders if folder.is_dir() and known.holds(folder)]
        self._finder = ImageFinder(task, data, Boundary.of(*folders, *locations.allowed))
        self.may_have = bool(folders) or (source is not None and source.generated)

    @property
    def outside(self) -> DataError | None:
        """The error about requested images that may not be read; None where all may."""
        return self._finder.outside

    def read(self, sample: str, image: str | None) -> Picture | NoPicture:
        """Return the image of a sample, its crop, its images side by side, or frames of its video, which move.

        Args:
            sample: Its id.
            image: The name of its image.
        """
        from ...adapters.images.reading import UnreadableImage

        try:
            handles = self._handles(sample, image)
            sources = [handle.source for handle in handles]
            if any(isinstance(source, OutsideFile) for source in sources) and self.outside:
                return NoPicture(OUTSIDE, self.outside.hint)
            if any(isinstance(source, Path) and source.stat().st_size > _LARGEST for source in sources):
                return NoPicture("is too large", f"Browsers are shown files of up to {_LARGEST >> 20} MB.")
            if handles:
                return _shown(handles)
        except FileNotFoundError:
            pass
        except (UnreadableImage, DocumentError, BenchError, OSError, ValueError) as error:
            return NoPicture("cannot be read", str(error))
        return NoPicture("is not on this machine", f"'bench data {self._task.task}' shows where it belongs.")

    def _handles(self, sample: str, image: str | None) -> list[ImageHandle | VideoHandle]:
        handle = self._finder(image) if image else None
        is_whole = self._task.templates.keys().isdisjoint(_PARTS)
        if handle is not None and is_whole and isinstance(file := handle.source, Path) and file.is_file():
            return [handle]
        # Requests of a page arrive together: only one reads the documents.
        with self._lock:
            rows, getters, numbers = self._documents
        document, _, entry = sample.rpartition("|")
        number = next((numbers[name] for name in (sample, document, image) if name in numbers), None)
        if number is None:
            return [handle] if handle is not None and isinstance(handle.source, OutsideFile) else []
        values = {key: get(rows[number]) for key, get in getters.items()}
        images = values["doc_to_images"] if "doc_to_images" in values else [pixels_value(values)]
        handles = [self._finder(pixels, span_of(values.get("doc_to_span"))) for pixels in images]
        boxes = {str(part.get("key", at)): part.get("box") for at, part in enumerate(values.get("doc_to_entries", ()))}
        box = boxes_of([box] if (box := boxes.get(entry, values.get("doc_to_box"))) else None)
        cropped = (replace(it, box=box[0]) if box and isinstance(it, ImageHandle) else it for it in handles)
        return [it for it in cropped if it is not None]

    @cached_property
    def _documents(self) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Getter], Mapping[str | None, int]]:
        """The rows, their templates, and the number of a row by its id and by the name of its image."""
        numbers: dict[str | None, int] = {}
        try:
            documents = load_documents(self._task, self._path, self._locations)
            keys = [key for key in _KEYS if key in self._task.templates]
            getters = {key: compile_template(self._task, key, documents.columns) for key in keys}
        except (BenchError, OSError):
            return (), {}, numbers
        names = {key: getters[key] for key in ("doc_to_id", "doc_to_image") if key in getters}
        for number, document in enumerate(documents.rows):
            try:
                values = {key: get(document) for key, get in names.items()}
            except DocumentError:
                continue
            numbers.setdefault(printable(str(values.get("doc_to_id", number))), number)
            if isinstance(name := values.get("doc_to_image"), str):
                numbers.setdefault(printable(name), number)
        return documents.rows, getters, numbers


_PARTS = ("doc_to_box", "doc_to_entries", "doc_to_images", "doc_to_span")
_KEYS = ("doc_to_id", "doc_to_image", "doc_to_pixels", *_PARTS)


def _shown(handles: Sequence[ImageHandle | VideoHandle]) -> Picture:
    from PIL import Image

    from ...adapters.images.reading import read_bytes, read_image
    from ...adapters.images.video import sample_frames

    first, seconds = handles[0], 2.0
    if isinstance(first, VideoHandle):
        video = sample_frames(first, _FRAMES)
        frames, seconds = video.frames, video.total / video.rate if video.rate else seconds
    else:
        if len(handles) == 1 and first.box is None and (picture := picture_of(read_bytes(first))):
            return picture
        images = [read_image(handle).image for handle in handles if isinstance(handle, ImageHandle)]
        frames = [images[0] if len(images) == 1 else _side_by_side(images)]
    for frame in frames:
        frame.thumbnail((_EDGE * len(handles), _EDGE))
    content = io.BytesIO()
    last, each = frames[1:], int(1000 * seconds / len(frames))
    Image.Image.save(
        frames[0].convert("RGB"), content, "WEBP", save_all=True, append_images=last, duration=each, loop=0
    )
    return Picture(content.getvalue(), "image/webp", isinstance(first, VideoHandle))


def _side_by_side(images: Sequence[Image.Image]) -> Image.Image:
    from PIL import Image

    ends = list(accumulate(image.width + _GAP for image in images))
    whole = Image.new("RGB", (ends[-1] - _GAP, max(image.height for image in images)), "white")
    for image, end in zip(images, ends, strict=True):
        whole.paste(image, (end - _GAP - image.width, 0))
    return whole
