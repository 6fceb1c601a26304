"""Which checkpoint it is, so that two that differ are never taken for one."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import AdapterError
from ..hub import commit_of, refusal
from .checkpoints import first_line
from .images.file_digests import file_digest


class PretrainedModel:
    """A model that ``pretrained`` and ``revision`` name."""

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if it is nowhere on this machine, and cannot be had from the hub; see ``Model.check``."""
        if not Path(pretrained := arguments["pretrained"]).expanduser().is_dir():
            hub_commit(pretrained, arguments.get("revision"))


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
    return {"checkpoint": pretrained, "commit": hub_commit(pretrained, revision)}


def hub_commit(name: str, revision: str | None) -> str:
    """Return the commit that a name on the hub stands for.

    Args:
        name: Owner and model.
        revision: Branch, tag or commit.

    Raises:
        AdapterError: The hub refuses, or does not answer, and its cache has no such model.
    """
    try:
        return commit_of(name, revision)
    except Exception as error:
        # Libraries raise errors of any type: no network, no such model, no right to it.
        remedy = f"Name a local folder, or fetch it while the hub is reachable: hf download {name}"
        message, hint = refusal(error) or (first_line(error), remedy)
        raise AdapterError(f"model '{name}': {message}", hint) from error


def checkpoint_digest(path: Path) -> str:
    """Return the SHA-256 of a checkpoint's bytes; a file that has not changed is read once.

    Raises:
        AdapterError: It cannot be read.
    """
    try:
        return file_digest(path)
    except OSError as error:
        raise AdapterError(f"checkpoint {path}: {error.strerror or error}") from error


def digest_of_files(paths: Iterable[Path]) -> str:
    """Return a SHA-256 that changes with the names and bytes of files.

    Raises:
        AdapterError: One cannot be read.
    """
    total = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.name):
        total.update(f"{path.name}:{checkpoint_digest(path)}\n".encode())
    return total.hexdigest()
