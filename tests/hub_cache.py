"""What the hub's cache holds of a model after a download."""

import shutil
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def arrive(cache: Path, name: str, folder: Path, commit: str = COMMIT) -> Path:
    """Put a folder's files into the cache as a model on the hub, and return where they are."""
    model = cache / f"models--{name.replace('/', '--')}"
    snapshot = model / "snapshots" / commit
    shutil.copytree(folder, snapshot, dirs_exist_ok=True)
    (model / "refs").mkdir(exist_ok=True)
    (model / "refs" / "main").write_text(commit)
    return snapshot
