"""The images of a task's documents on this machine, in formats that browsers show."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...adapters import EncodedImage, ImageHandle
from ...boundary import Boundary
from ...errors import BenchError, DataError
from ...tasks.documents import load_documents
from ...tasks.locate import DataLocations
from ...tasks.schema import TaskConfig
from ...tasks.sources import load_source
from ...tasks.templates import DocumentError, compile_template
from .images import ImageFinder, handle_of, pixels_value
from .items import printable

_TYPES: Mapping[str, tuple[bytes, bytes]] = {
    "image/jpeg": (b"\xff\xd8\xff", b""),
    "image/png": (b"\x89PNG\r\n\x1a\n", b""),
    "image/gif": (b"GIF8", b""),
    "image/webp": (b"RIFF", b"WEBP"),
    "image/bmp": (b"BM", b""),
}
"""The first bytes of files that every browser shows, and the bytes from the ninth on."""
_LARGEST = 64 << 20


@dataclass(frozen=True)
class Picture:
    """An image for a browser.

    Attributes:
        content: The bytes of its file.
        media_type: Its media type.
    """

    content: bytes
    media_type: str

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
    """The images of a task's documents on this machine. Threads may share it.

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
        folders = [] if root is None else [root / name for name in task.image_folder] or [root]
        known = Boundary.of(*filter(None, (root, locations.root, *locations.allowed)))
        self._folders = [folder for folder in folders if folder.is_dir() and known.holds(folder)]
        self._within = Boundary.of(*self._folders, *locations.allowed)
        self._finder = ImageFinder(task, data, self._within)
        self.may_have = bool(self._folders) or (source is not None and source.generated)

    @property
    def outside(self) -> DataError | None:
        """The error about requested images that may not be read; None where all may."""
        return self._finder.outside

    def read(self, sample: str, image: str | None) -> bytes | None:
        """Return the encoded image of a sample, or None.

        Args:
            sample: Its id.
            image: The name of its image.
        """
        file = self._file(image)
        if file is None:
            named = self._named.get(sample, self._named.get(image or ""))
            file = self._file(named) if isinstance(named, str) else named
        try:
            if isinstance(file, Path) and file.stat().st_size > _LARGEST:
                return None
            return file.read_bytes() if file is not None else None
        except OSError:
            return None

    def _file(self, image: str | None) -> Path | None:
        """Return the file in the image folders that a name leads to, with links resolved."""
        if not image:
            return None
        try:
            handle = self._finder(image)
            if not isinstance(handle, ImageHandle) or not isinstance(path := handle.source, Path):
                return None
            # A file found from the working directory is not part of the data.
            return path.resolve() if self._within.holds(path) and path.is_file() else None
        except (OSError, ValueError):
            return None

    @property
    def _named(self) -> Mapping[str, str | EncodedImage]:
        # Requests of a page arrive together: only one reads the documents.
        with self._lock:
            return self._documents

    @cached_property
    def _documents(self) -> Mapping[str, str | EncodedImage]:
        """File name or image by document id, and by the document's image name."""
        images: dict[str, str | EncodedImage] = {}
        try:
            documents = load_documents(self._task, self._path, self._locations)
            keys = [key for key in ("doc_to_id", "doc_to_image", "doc_to_pixels") if key in self._task.templates]
            getters = {key: compile_template(self._task, key, documents.columns) for key in keys}
        except (BenchError, OSError):
            return images
        if "doc_to_image" not in getters:
            return images
        for number, document in enumerate(documents.rows):
            try:
                values: dict[str, Any] = {key: get(document) for key, get in getters.items()}
            except DocumentError:
                continue
            pixels = pixels_value(values)
            if not isinstance(pixels, str):
                handle = handle_of(pixels)
                # Images inside rows are not kept: a large data set may consist of them.
                if not isinstance(handle, ImageHandle) or isinstance(handle.source, bytes | Path):
                    continue
                pixels = handle.source
            images.setdefault(printable(str(values.get("doc_to_id", number))), pixels)
            if isinstance(name := values["doc_to_image"], str):
                images.setdefault(printable(name), pixels)
        return images
