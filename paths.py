"""Where the user's cache is, whether a path leads to a file, and on what file system."""

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TypeVar, cast

# Linux' table of mounts: proc_pid_mountinfo(5).
_MOUNTS = Path("/proc/self/mountinfo")
_KINDS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"}
)
# What else runs in user space fetches from somewhere: sshfs, s3fs, gcsfuse, rclone, juicefs, ...
_LOCAL_FUSE = frozenset(
    f"fuse.{name}"
    for name in ("bindfs", "encfs", "exfat", "fuse-overlayfs", "gocryptfs", "mergerfs", "ntfs", "ntfs-3g")
)
_ABSOLUTE = re.compile(r"(?<![\w./\\~<-])(?:~/|/(?!/)[^\s\"'`,;:()\[\]{}<>|/]+/|[A-Za-z]:\\)[^\s\"'`,;:()\[\]{}<>|]+")
"""Absolute paths in a text, of at least a folder and what is in it; addresses are none."""
_V = TypeVar("_V")


def absolute_paths(text: str) -> list[str]:
    """Return the absolute paths, of this machine or another, that a text names."""
    return _ABSOLUTE.findall(text)


def without_folders(value: _V) -> _V:
    """Return a value of JSON, or a text, in which of each absolute path only the last part is left.

    Files that are passed on hold these: the folders say something of a machine, and nothing to others.
    """
    if isinstance(value, Mapping):
        return cast(_V, {key: without_folders(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return cast(_V, [without_folders(inner) for inner in value])
    if not isinstance(value, str):
        return value
    # A path may have blanks, of which the pattern knows nothing.
    whole = os.path.isabs(value) and os.path.exists(value)  # noqa: PTH110, PTH117 - Path.exists raises for long texts
    return cast(_V, PurePath(value).name if whole else _ABSOLUTE.sub(lambda match: PurePath(match[0]).name, value))


def cache_folder() -> Path:
    """Return the user's cache folder: ``BENCH_CACHE``, or ``capbench`` in the system's."""
    if named := os.environ.get("BENCH_CACHE"):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "capbench"


def checkpoint_folder() -> Path:
    """Return the folder of checkpoints that are named without one."""
    return cache_folder() / "checkpoints"


def is_file(path: Path) -> bool:
    """Tell whether a path leads to a file; one that no file system takes leads to none."""
    return os.path.isfile(path)  # noqa: PTH113 - a name that is too long, or holds a null, is no error here


def network_file_system(path: Path) -> str | None:
    """Return the kind of network file system that a path is on (``"nfs4"``), None where it is on none.

    Where a system has no table of mounts, nothing is known.

    Args:
        path: It need not exist.
    """
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    place = path.resolve()
    # A later mount hides an earlier one at the same point.
    points = (re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4]) for line in lines)
    of_point = dict(zip(map(Path, points), lines, strict=True))
    nearest = next((of_point[folder] for folder in (place, *place.parents) if folder in of_point), None)
    if nearest is None:
        return None
    kind = nearest.partition(" - ")[2].split()[0]
    return kind if kind in _KINDS or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE) else None
