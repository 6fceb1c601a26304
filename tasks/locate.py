"""Finds where the local copy of a task's data is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DataError, UsageError
from .sources import DataSource


def cache_folder() -> Path:
    """Return the user's cache folder: ``BENCH_CACHE``, or ``capbench`` in the system's."""
    if named := os.environ.get("BENCH_CACHE"):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "capbench"


@dataclass(frozen=True)
class DataLocations:
    """Where local copies of data sets may be.

    Attributes:
        named: Task name to the path given by ``--data TASK=PATH``.
        root: Folder with one folder a data set (``CAPBENCH_DATA``).
    """

    named: Mapping[str, Path] = field(default_factory=dict)
    root: Path | None = None

    @classmethod
    def from_environment(cls, named: Mapping[str, Path] | None = None) -> DataLocations:
        """Return the locations that the environment and ``--data`` give."""
        root = os.environ.get("CAPBENCH_DATA")
        return cls(named or {}, Path(root).expanduser() if root else None)

    def find(self, task: str, source: DataSource | None) -> Path | None:
        """Return the file or folder of a task's data, or None if there is no local copy, or can be none.

        Raises:
            DataError: ``--data`` names a path that does not exist.
        """
        if (path := self.named.get(task)) is not None:
            if not path.exists():
                raise DataError(f"--data {task}={path}: there is no such file or folder")
            return path
        if source is None or source.generated:
            return None
        return next((folder for folder in self.candidates(source) if _holds_data(folder)), None)

    def candidates(self, source: DataSource) -> list[Path]:
        """Return the folders that are searched for a data set, first one first."""
        roots = [self.root] if self.root else []
        return [root / source.folder for root in (*roots, cache_folder() / "data")]


def _holds_data(folder: Path) -> bool:
    """Tell whether a folder holds more than what a download that broke off leaves behind."""
    return folder.is_dir() and any(
        not path.name.startswith(".") and path.suffix != ".part" for path in folder.iterdir()
    )


def parse_data_options(options: list[str]) -> dict[str, Path]:
    """Return what ``--data TASK=PATH`` options say.

    Raises:
        UsageError: An option is not of that form.
    """
    named = {}
    for option in options:
        task, equals, path = option.partition("=")
        if not (task and equals and path):
            raise UsageError(f"--data {option}: expected TASK=PATH")
        named[task] = Path(path).expanduser()
    return named
