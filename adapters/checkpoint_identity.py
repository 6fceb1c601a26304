"""Which checkpoint a name stands for, so that two that differ are never taken for one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import AdapterError
from .checkpoints import digest_of_files

_SUFFIXES = (".bin", ".jinja", ".json", ".model", ".safetensors", ".txt")


def checkpoint_identity(pretrained: str, revision: str | None) -> dict[str, Any]:
    """Return the hash of a local checkpoint's files, or the name and commit of one on the hub.

    Args:
        pretrained: A folder, or a name on the hub.
        revision: Branch, tag or commit on the hub.

    Raises:
        AdapterError: It is neither a folder nor to be had from the hub or its cache.
    """
    folder = Path(pretrained).expanduser()
    if folder.is_dir():
        files = [file for file in folder.iterdir() if file.suffix in _SUFFIXES]
        return {"checkpoint": f"sha256 {digest_of_files(files)}"}
    from huggingface_hub import hf_hub_download

    try:
        # In the hub's cache a file lies in a folder that is named for its commit.
        config = Path(hf_hub_download(pretrained, "config.json", revision=revision))
    except Exception as error:
        # Libraries raise whatever they like here: for no network, no such model, no right to it.
        raise AdapterError(
            f"model '{pretrained}': {str(error).strip().partition(chr(10))[0]}",
            f"Name a local folder, or fetch it where the hub can be reached: hf download {pretrained}",
        ) from error
    return {"checkpoint": pretrained, "commit": config.parent.name}
