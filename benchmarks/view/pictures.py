"""The image of a sample: the picture that the run kept of it, or what the data of its task say."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ...errors import BenchError, DataError
from ...tasks.index import TaskIndex, build_index
from ...tasks.locate import DataLocations
from ...tasks.schema import load_task
from ..inputs.task_images import Picture, TaskImages, picture_of
from ..records.files import read_file
from .finding import ShownRun

NOTHING = Picture(
    b'<svg xmlns="http://www.w3.org/2000/svg" width="220" height="120" viewBox="0 0 220 120"><rect width="220" '
    b'height="120" fill="#777" fill-opacity=".15"/><text x="110" y="65" text-anchor="middle" fill="#808080" '
    b'font-family="sans-serif" font-size="14">No image here</text></svg>',
    "image/svg+xml",
)
"""What stands for an image that is not on this machine."""


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
        return picture_of(content) or NOTHING

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
