"""Where the user's cache is, and whether a path leads to a file."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the user's cache folder: ``BENCH_CACHE``, or ``capbench`` in the system's."""
    if named := os.environ.get("BENCH_CACHE"):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "capbench"


def checkpoint_folder() -> Path:
    """Return where a checkpoint is looked for that is named without a folder."""
    return cache_folder() / "checkpoints"


def is_file(path: Path) -> bool:
    """Tell whether a path leads to a file; one that no file system takes leads to none."""
    return os.path.isfile(path)  # noqa: PTH113 - a name that is too long, or holds a null, is no error here
