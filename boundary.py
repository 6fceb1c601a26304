"""Which files and servers a file may name: an untrusted file must not reach the rest of the machine."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from .errors import TaskError
from .permissions import permitted, require_server

OUTSIDE = "lies outside of the folders of the task and its data"
HINT = "--allow_outside DIR lets files name those of a folder; do so for tasks that you trust with it."
_LOCAL = ("file", "local")
_SETTING = re.compile(r"[\s=,:\[\]{}\"']+")
"""Between the parts of what names a metric or a model with its settings."""


@dataclass(frozen=True)
class Boundary:
    """Folders whose files a task may read.

    Attributes:
        folders: The task file's, that of its data, and additional ones that the user allows.
    """

    folders: tuple[Path, ...] = ()

    @classmethod
    def of(cls, *folders: Path) -> Boundary:
        """Return the boundary around some folders, or the folders of some files; links are followed."""
        resolved = ((folder if folder.is_dir() else folder.parent).expanduser().resolve() for folder in folders)
        return cls(tuple(dict.fromkeys(resolved)))

    @classmethod
    def around(cls, *folders: Path) -> Boundary:
        """Return the boundary around some folders, or the folders of some files, and the user's additional folders."""
        return cls.of(*folders, *permitted().folders)

    def holds(self, path: Path) -> bool:
        """Tell whether a path, its links followed, ends inside. One that no file system takes leads nowhere."""
        try:
            resolved = path.expanduser().resolve()
        except (OSError, ValueError, RuntimeError):
            return True
        return any(map(resolved.is_relative_to, self.folders))

    def require(self, value: Any, place: str, relative_to: Path) -> None:
        """Raise if a setting of a file names a file or folder outside, or a server that may not be called.

        A text is a path if it is absolute, climbs with ``..``, or names what is there; an address if it begins as one.

        Args:
            value: A text, or lists and mappings that hold some.
            place: What messages call the setting.
            relative_to: The folder in which paths that are not absolute begin.

        Raises:
            TaskError: One does; the hint is the option that allows it.
        """
        for text in _texts(value):
            for part in text.split("::"):
                require_server(part, place)
            for path in local_paths(text):
                if self.leads_outside(path, relative_to):
                    raise TaskError(f"{place}: {text} {OUTSIDE}", HINT)

    def leads_outside(self, path: Path, relative_to: Path) -> bool:
        """Return whether a value is a path (absolute, with ``..``, or existing) that ends outside.

        Args:
            path: The value.
            relative_to: The folder in which it begins, if it is not absolute.
        """
        is_path = path.is_absolute() or ".." in path.parts or exists(relative_to / path)
        return is_path and not self.holds(relative_to / path)


@dataclass(frozen=True)
class OutsideFile:
    """Stands for a file outside of a task's boundary, which is not read, as an image or a video.

    Attributes:
        path: The file.
    """

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def _refuse(self) -> NoReturn:
        raise PermissionError(errno.EACCES, f"{OUTSIDE}, and is not read without --allow_outside", str(self.path))

    read_bytes = read_frames = digest = _refuse


def links_outside(folder: Path) -> Iterator[Path]:
    """Yield the links below a folder that lead out of it, and not into a folder that the user allows."""
    boundary = Boundary.around(folder)
    yield from (path for path in sorted(folder.rglob("*")) if path.is_symlink() and not boundary.holds(path))


def unlinked(path: Path) -> Path:
    """Return the path of a file of a folder that capbench wrote, in which nothing leads elsewhere.

    Raises:
        PermissionError: It is a link that leads out of its folder.
    """
    if path.is_symlink() and not Boundary.around(path.parent).holds(path):
        raise PermissionError(errno.EACCES, "is a link that leads out of its folder, and is not read", str(path))
    return path


def exists(path: Path) -> bool:
    """Return whether there is a path; not if it is too long for one, as prompts are."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, Iterable) and not isinstance(value, bytes):
        for part in value:
            yield from _texts(part)


def local_paths(text: str) -> Iterator[Path]:
    """Yield the paths on this machine that a text leads through: an address of fsspec, or a name with settings."""
    for part in text.split("::"):
        protocol, separator, rest = part.partition("://")
        if not separator:
            yield Path(part).expanduser()
        elif protocol in _LOCAL:
            yield Path(rest).expanduser()
    if _SETTING.search(text):
        # Words in prompts are no paths, unless there is such a file.
        for part in _SETTING.split(text):
            path = Path(part).expanduser()
            if len(path.parts) > 1 and (path.is_absolute() or ".." in path.parts) and exists(path):
                yield path
