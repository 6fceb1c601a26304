"""The hub of models, and its cache on this machine."""

from __future__ import annotations

from pathlib import Path

from ..errors import AdapterError
from ..hub import asked_once
from .checkpoints import first_line


def hub_commit(name: str, revision: str | None) -> str:
    """Return the commit that a name on the hub stands for.

    Args:
        name: Owner and model.
        revision: Branch, tag or commit.

    Raises:
        AdapterError: The hub does not answer, or has no such model, and its cache has neither.
    """
    from huggingface_hub import hf_hub_download

    try:
        with asked_once(name):
            # In the hub's cache a file lies in a folder that is named for its commit.
            return Path(hf_hub_download(name, "config.json", revision=revision)).parent.name
    except Exception as error:
        # Libraries raise whatever they like here: for no network, no such model, no right to it.
        raise AdapterError(
            f"model '{name}': {first_line(error)}",
            f"Name a local folder, or fetch it where the hub can be reached: hf download {name}",
        ) from error


def cached_files(name: str) -> frozenset[tuple[str, int, int]]:
    """Return what the hub's cache holds of a model: path, size and time of change of each file."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    folder = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=name, repo_type="model"), "snapshots")
    files = ((path, path.stat()) for path in folder.rglob("*") if path.is_file())
    return frozenset((str(path), status.st_size, status.st_mtime_ns) for path, status in files)
