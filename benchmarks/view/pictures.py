"""The image of a sample: the picture that the run kept of it, or what the data of its task say."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ...adapters import EncodedImage, ImageHandle
from ...errors import BenchError, DataError
from ...tasks.boundary import Boundary
from ...tasks.documents import load_documents
from ...tasks.index import TaskIndex, build_index
from ...tasks.locate import DataLocations
from ...tasks.schema import TaskConfig, load_task
from ...tasks.sources import load_source
from ...tasks.templates import DocumentError, compile_template
from ..inputs.items import printable
from ..inputs.pixels import PixelFinder, handle_of, pixels_value
from ..records.files import read_file
from .finding import ShownRun

_TYPES: Mapping[str, tuple[bytes, bytes]] = {
    "image/jpeg": (b"\xff\xd8\xff", b""),
    "image/png": (b"\x89PNG\r\n\x1a\n", b""),
    "image/gif": (b"GIF8", b""),
    "image/webp": (b"RIFF", b"WEBP"),
    "image/bmp": (b"BM", b""),
}
"""How files begin that every browser shows, and what stands at the ninth byte."""
_LARGEST = 64 << 20


@dataclass(frozen=True)
class Picture:
    """An image as a browser is given it.

    Attributes:
        content: Its file.
        media_type: What that is.
    """

    content: bytes
    media_type: str


NOTHING = Picture(
    b'<svg xmlns="http://www.w3.org/2000/svg" width="220" height="120" viewBox="0 0 220 120"><rect width="220" '
    b'height="120" fill="#777" fill-opacity=".15"/><text x="110" y="65" text-anchor="middle" fill="#808080" '
    b'font-family="sans-serif" font-size="14">No image here</text></svg>',
    "image/svg+xml",
)
"""What stands for an image that is not on this machine."""


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
        self._folders = [one for one in folders if one.is_dir() and known.holds(one)]
        self._within = Boundary.of(*self._folders)
        self._finder = PixelFinder(task, data, self._within)
        self.may_have = bool(self._folders) or (source is not None and source.generated)

    def read(self, sample: str, image: str | None) -> bytes | None:
        """Return the encoded image of a sample; None where there is none.

        Args:
            sample: Its id.
            image: What it calls its image.
        """
        found = self._file(image)
        if found is None:
            named = self._named.get(sample, self._named.get(image or ""))
            found = self._file(named) if isinstance(named, str) else named
        try:
            if isinstance(found, Path) and found.stat().st_size > _LARGEST:
                return None
            return found.read_bytes() if found is not None else None
        except OSError:
            return None

    def _file(self, image: str | None) -> Path | None:
        """Return the file in the folders of images that a name leads to, its links followed."""
        if not image:
            return None
        try:
            handle = self._finder(image)
            if not isinstance(handle, ImageHandle) or not isinstance(path := handle.source, Path):
                return None
            # What the program finds from where it runs is not of the data.
            return path.resolve() if self._within.holds(path) and path.is_file() else None
        except (OSError, ValueError):
            return None

    @property
    def _named(self) -> Mapping[str, str | EncodedImage]:
        # Requests for a page of images come together: one reads the documents.
        with self._lock:
            return self._documents

    @cached_property
    def _documents(self) -> Mapping[str, str | EncodedImage]:
        """By the id of a document, and by what it calls its image: the name of the file, or what gives the image."""
        found: dict[str, str | EncodedImage] = {}
        try:
            documents = load_documents(self._task, self._path, self._locations)
            keys = [
                key for key in ("doc_to_id", "doc_to_image", "doc_to_pixels") if key in self._task.templates
            ]
            getters = {key: compile_template(self._task, key, documents.columns) for key in keys}
        except (BenchError, OSError):
            return found
        if "doc_to_image" not in getters:
            return found
        for number, document in enumerate(documents.rows):
            try:
                values: dict[str, Any] = {key: get(document) for key, get in getters.items()}
            except DocumentError:
                continue
            pixels = pixels_value(values)
            if not isinstance(pixels, str):
                handle = handle_of(pixels)
                # What lies in the rows themselves is not held: a large data set may be of images alone.
                if not isinstance(handle, ImageHandle) or isinstance(handle.source, bytes | Path):
                    continue
                pixels = handle.source
            found.setdefault(printable(str(values.get("doc_to_id", number))), pixels)
            if isinstance(name := values["doc_to_image"], str):
                found.setdefault(printable(name), pixels)
        return found


@dataclass
class Pictures:
    """Finds the images of samples. Threads may share it.

    Attributes:
        locations: Where data sets are.
        include_path: Folders with task files besides those that ship.
    """

    locations: DataLocations
    include_path: Sequence[str | Path] = ()
    _tasks: dict[str, TaskImages | None] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @cached_property
    def _index(self) -> TaskIndex:
        return build_index(self.include_path)

    @property
    def index(self) -> TaskIndex:
        """The tasks that are installed."""
        with self._lock:
            return self._index

    def may_have(self, run: ShownRun, sample: str) -> bool:
        """Tell whether a sample may have an image here; nothing of it is looked for."""
        images = self._of_task(run.record.task)
        return sample in run.record.pictures or (images is not None and images.may_have)

    def read(self, run: ShownRun, sample: str, image: str | None) -> Picture:
        """Return the image of a sample; a drawing that says so where there is none, or none that a browser shows.

        No path of a record, a sample or a task leads out of the run's folder and those of the data's images.

        Args:
            run: The run.
            sample: Its id.
            image: What the sample calls its image.
        """
        images = self._of_task(run.record.task)
        content = images.read(sample, image) if images is not None and images.may_have else None
        if content is None:
            content = _kept(run, sample)
        for media_type, (start, ninth) in _TYPES.items():
            if content and content.startswith(start) and content[8:].startswith(ninth):
                return Picture(content, media_type)
        return NOTHING

    def _of_task(self, task: str) -> TaskImages | None:
        """Return the images of a task; None where it is not installed, or its data are nowhere."""
        with self._lock:
            if task not in self._tasks:
                entry = self._index.entries.get(task)
                try:
                    self._tasks[task] = (
                        TaskImages(load_task(entry.path)[0], entry.path, self.locations) if entry else None
                    )
                except (BenchError, OSError):
                    self._tasks[task] = None
            return self._tasks[task]


def _kept(run: ShownRun, sample: str) -> bytes | None:
    """Return the small picture that a run kept of a sample."""
    name = run.record.pictures.get(sample)
    if name is None:
        return None
    try:
        if not (run.folder / name).resolve().is_relative_to(run.folder.resolve()):
            return None
        return read_file(run.folder, run.record, name)
    except (DataError, OSError, ValueError, RuntimeError):
        return None
