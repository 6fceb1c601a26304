"""Where the user's cache is, whether a path leads to a file, and on what file system."""

from __future__ import annotations

import os
import re
from pathlib import Path

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
