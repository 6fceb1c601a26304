"""Tells whether a path is on a file system of the network, where SQLite's write-ahead log is not safe."""

from __future__ import annotations

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
    of_point = {Path(_unescaped(line.split()[4])): line for line in lines}
    nearest = next((of_point[folder] for folder in (place, *place.parents) if folder in of_point), None)
    if nearest is None:
        return None
    kind = nearest.partition(" - ")[2].split()[0]
    return kind if kind in _KINDS or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE) else None


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)
