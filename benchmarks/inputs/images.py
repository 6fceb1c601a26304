"""Finds the image or video that a document names."""

import errno
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from ...adapters import Box, EncodedImage, FrameSource, ImageHandle, VideoHandle
from ...boundary import OUTSIDE, Boundary, OutsideFile
from ...errors import DataError
from ...paths import is_file
from ...rows import is_number
from ...tasks.schema import TaskConfig

_NAMES_AT_HAND = 1 << 16
_VIDEO_SUFFIXES = (".npy", ".pt", ".mp4", ".webm", ".mkv", ".avi", ".mov")
"""In order of preference: recorded features before video files."""


class ImageFinder:
    """Turns the value of ``doc_to_image`` into a handle.

    A name is searched in the task's ``image_folder`` or ``video_folder`` inside the data set's folder: unchanged,
    with a suffix, and without its leading folders.

    Args:
        task: The task.
        data: The data set's folder, or a file in it; None if it is not on this machine. Paths in
            documents are relative to it, or to the working directory.
        boundary: Which files may be read; other files become an ``OutsideFile``, which raises when it is read.
        late: Whether images are located only when they are read, where no metric looks at them.
    """

    def __init__(self, task: TaskConfig, data: Path | None, boundary: Boundary, late: bool = False) -> None:
        self._root = data if data is None or data.is_dir() else data.parent
        self._task = task.task
        self._boundary = boundary
        self._late = late
        root = self._root
        self._images = [] if root is None else [root / name for name in task.image_folder]
        self._videos = [] if root is None else [root / name for name in task.video_folder]
        self._of_text: dict[str, ImageHandle | VideoHandle | None] = {}
        self._outside: set[Path] = set()

    @property
    def outside(self) -> DataError | None:
        """The error about requested images that may not be read; None where all may."""
        if not self._outside:
            return None
        files = tuple(self._outside)  # pages ask for images from several threads
        count, folders = len(files), outermost(file.resolve().parent for file in files)
        subject = f"{count:,} {'video' if self._videos else 'image'}{'' if count == 1 else 's'}"
        lie = OUTSIDE if count == 1 else OUTSIDE.replace("lies", "lie", 1)
        return DataError(
            f"task '{self._task}': {subject} {lie}, in {', '.join(map(str, folders))}",
            f"{' '.join(f'--allow_outside {shlex.quote(str(folder))}' for folder in folders)} lets the task read them; "
            "use it only if you trust the task.",
        )

    def require(self) -> None:
        """Raise if the task names folders of images or videos, and none of them exists.

        Raises:
            DataError: None exists.
        """
        folders = [*self._images, *self._videos]
        if folders and not any(folder.is_dir() for folder in folders):
            kind = "videos" if self._videos else "images"
            raise DataError(
                f"task '{self._task}': its {kind} are not on this machine (looked in "
                f"{', '.join(str(folder.absolute()) for folder in folders)}).",
                f"'bench data {self._task}' prints the files expected in a folder of $CAPBENCH_DATA, or in one that "
                f"--data {self._task}=PATH names; metrics of texts need no {kind}.",
            )

    def __call__(self, image: Any, span: tuple[float, float, float] | None = None) -> ImageHandle | VideoHandle | None:
        """Return the handle of an image or video; None if the task does not locate its pixels.

        Args:
            image: Encoded bytes or a reader of them, a source of frames, a mapping with ``bytes`` or ``path`` (an
                undecoded image of datasets), a path, or a name in the task's folder.
            span: Start, end and duration in seconds, of a video.
        """
        if isinstance(image, str):
            # Many captions share an image; its file is located once.
            if image not in self._of_text:
                if len(self._of_text) == _NAMES_AT_HAND:
                    self._of_text.clear()
                self._of_text[image] = self._handle(image)
            handle = self._of_text[image]
        else:
            handle = self._handle(image)
        return replace(handle, span=span) if isinstance(handle, VideoHandle) else handle

    def _handle(self, image: Any) -> ImageHandle | VideoHandle | None:
        if self._late and not self._videos and isinstance(image, str) and _is_of_image(image):
            return ImageHandle(LateImage(self, image))
        handle = handle_of(image)
        if handle is None or not isinstance(path := handle.source, Path):
            return handle
        if self._late and isinstance(handle, ImageHandle) and not self._videos:
            return replace(handle, source=LateImage(self, str(path)))
        return self._within(self._located(handle, path))

    def look_for(self, path: Path) -> ImageHandle | VideoHandle | None:
        """Return the handle of the file that a path or name leads to, located now."""
        return self._within(self._located(ImageHandle(path), path))

    def _within(self, pixels: ImageHandle | VideoHandle | None) -> ImageHandle | VideoHandle | None:
        handle = _within(pixels, self._boundary)
        if handle is not None and isinstance(file := handle.source, OutsideFile):
            self._outside.add(file.path)
        return handle

    def _located(self, handle: ImageHandle | VideoHandle, path: Path) -> ImageHandle | VideoHandle | None:
        """Return the handle of the file that a path or name leads to; None if it is missing and optional."""
        name = str(path)
        if self._videos:
            return VideoHandle(_first_file(self._videos, [name, *(name + s for s in _VIDEO_SUFFIXES)]))
        if self._images:
            return ImageHandle(_first_file(self._images, [name, name + ".jpg", path.name, path.name + ".jpg"]))
        if self._root is not None and is_file(self._root / name):
            return replace(handle, source=self._root / name)
        return handle if is_file(path) else None


@dataclass(frozen=True)
class LateImage:
    """An image that is located when it is read.

    Attributes:
        finder: The finder that locates it.
        name: The path or name in the document.
    """

    finder: ImageFinder
    name: str

    def read_bytes(self) -> bytes:
        """Return the encoded bytes.

        Raises:
            OSError: The file does not exist, or lies outside the allowed folders.
        """
        handle = self.finder.look_for(Path(self.name))
        if handle is None or not isinstance(handle.source, Path | EncodedImage):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.name)
        return handle.source.read_bytes()

    def __str__(self) -> str:
        return self.name


def _is_of_image(name: str) -> bool:
    """Return whether a name is clearly not of a video; one with a video's suffix in it is decided by its path."""
    return bool(name) and not any(suffix in name.lower() for suffix in _VIDEO_SUFFIXES)


def handle_of(image: Any) -> ImageHandle | VideoHandle | None:
    """Return the handle of an encoded image, of a path, or of a mapping with either; None for anything else.

    A source of frames is a video, and so is a path with the suffix of a video or of features of frames.
    """
    if image is None:
        return None
    if isinstance(image, Mapping):
        image = image.get("bytes") or image.get("path")
    # Paths first: a path has read_bytes, too, and checking the other types' methods takes longer.
    if isinstance(image, str | Path):
        path = Path(image)
        handle = VideoHandle(path) if path.suffix.lower() in _VIDEO_SUFFIXES else ImageHandle(path)
        return handle if str(image) else None
    if isinstance(image, FrameSource):
        return VideoHandle(image)
    return ImageHandle(image) if isinstance(image, bytes | EncodedImage) else None


def handle_within(image: Any, boundary: Boundary) -> ImageHandle | VideoHandle | None:
    """Return the handle of a row's image; for a text that leads outside, one that raises when it is read."""
    # Data sets hold texts: a path object comes from the calling program.
    return handle_of(image) if isinstance(image, Path) else _within(handle_of(image), boundary)


def _within(handle: ImageHandle | VideoHandle | None, boundary: Boundary) -> ImageHandle | VideoHandle | None:
    if handle is None or not isinstance(path := handle.source, Path) or boundary.holds(path):
        return handle
    return replace(handle, source=OutsideFile(path))


def outermost(folders: Iterable[Path]) -> list[Path]:
    """Return the folders in order, without subfolders of others."""
    distinct = set(folders)
    return sorted(folder for folder in distinct if not distinct.intersection(folder.parents))


def _first_file(folders: Sequence[Path], names: Sequence[str]) -> Path:
    """Return the first file that exists, or the first name in the first folder."""
    paths = (folder / name for folder in folders for name in dict.fromkeys(names))
    return next(filter(is_file, paths), folders[0] / names[0])


def pixels_value(values: Mapping[str, Any]) -> Any:
    """Return the location of a document's image: ``doc_to_pixels``, or else ``doc_to_image``."""
    pixels = values.get("doc_to_pixels")
    return values["doc_to_image"] if pixels is None else pixels


def view_fault(task: TaskConfig, values: Mapping[str, Any]) -> str | None:
    """Return why a document's span or boxes cannot be used, or None if they can.

    Args:
        task: The task.
        values: The document's value for each ``doc_to_*`` key.
    """
    span: Any = values.get("doc_to_span")
    if "doc_to_span" in task.templates:
        if not _numbers(span, 3):
            return f"has no span of start, end and duration in seconds: {span!r:.80}"
        start, end, duration = span
        if not 0 <= start <= end or duration <= 0:
            return f"has a span from {start:g} to {end:g} s of {duration:g} s"
    return boxes_fault(values.get("doc_to_boxes")) if "doc_to_boxes" in task.templates else None


def boxes_fault(boxes: Any) -> str | None:
    """Return why a value is not a list of boxes, or None if it is."""
    if not isinstance(boxes, Sequence) or isinstance(boxes, str):
        return f"has no list of boxes but {type(boxes).__name__}"
    faulty = (n for n, box in enumerate(boxes, 1) if not _numbers(box, 4))
    return next((f"has a box {n} that is not four numbers: {boxes[n - 1]!r:.80}" for n in faulty), None)


def span_of(span: Any) -> tuple[float, float, float] | None:
    """Return a document's span, already checked; None if it has none."""
    return None if span is None else (float(span[0]), float(span[1]), float(span[2]))


def boxes_of(boxes: Any) -> tuple[Box, ...] | None:
    """Return a document's boxes, already checked; None if it has none."""
    if boxes is None:
        return None
    return tuple((float(left), float(top), float(right), float(bottom)) for left, top, right, bottom in boxes)


def _numbers(values: Any, count: int) -> TypeGuard[Sequence[float]]:
    return (
        isinstance(values, Sequence)
        and not isinstance(values, str)
        and len(values) == count
        and all(map(is_number, values))
    )
