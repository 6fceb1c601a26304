"""Checkpoints of transformers that a metric loads for itself: a folder, or a name on the hub."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import MetricError

_KEPT = (".json", ".txt", ".model", ".safetensors", ".bin")
_REFUSALS: dict[tuple[str, str | None], str] = {}
"""Checkpoint to why it could not be had: the library waits half a minute for a hub that does not answer."""

_COMMITS: dict[tuple[str, str | None], str] = {}
"""Checkpoint on the hub to the commit that it is."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is not loaded.

    Attributes:
        what: What it is, in messages ("CAPTURE's text encoder").
        setting: The metric's setting that names it.
        name: A folder that ``save_pretrained`` wrote, or a name on the hub.
        revision: Branch, tag or commit on the hub.
    """

    what: str
    setting: str
    name: str
    revision: str | None = None

    @property
    def folder(self) -> Path | None:
        """The folder that the name is of; None for a name on the hub."""
        folder = Path(self.name).expanduser()
        return folder if folder.is_dir() else None

    @property
    def path(self) -> str:
        """What transformers loads it by."""
        return str(self.folder or self.name)

    def check(self) -> None:
        """Raise if it is not here and cannot be asked for.

        Raises:
            MetricError: The hint says how to get it.
        """
        if self.folder is not None:
            if not (self.folder / "config.json").is_file():
                raise MetricError(
                    f"{self.what}: the folder {self.folder} has no config.json.",
                    "Name a folder that save_pretrained of transformers wrote.",
                )
            return
        from huggingface_hub import constants, try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            cached = try_to_load_from_cache(self.name, "config.json", revision=self.revision)
        except HFValidationError as error:
            raise MetricError(
                f"{self.what} '{self.name}' is no folder and no name on the hub.", self.remedy
            ) from error
        if constants.HF_HUB_OFFLINE and not isinstance(cached, str):
            raise MetricError(
                f"{self.what} '{self.name}' is no folder and not in the hub's cache, and HF_HUB_OFFLINE is set.",
                self.remedy,
            )

    def identity(self) -> str:
        """Return which checkpoint it is: the commit on the hub, or the hash of its files."""
        if self.folder is not None:
            stamps = tuple(
                (file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in _files(self.folder)
            )
            return f"sha256 {_digest(self.folder, stamps)}"
        key = (self.path, self.revision)
        if key not in _COMMITS:
            try:
                # Asked once: the hub's library may go to the network for it.
                _COMMITS[key] = f"commit {self.load('AutoConfig')._commit_hash}"
            except MetricError:
                # It could not be had, so nothing was made with it.
                return "not loaded"
        return _COMMITS[key]

    def load(self, class_name: str, **arguments: Any) -> Any:
        """Load a part of it by a class of transformers (``"AutoConfig"``, ``"AutoTokenizer"``, ...).

        Raises:
            MetricError: It cannot be loaded.
        """
        import transformers

        if (refusal := _REFUSALS.get((self.path, self.revision))) is not None:
            raise MetricError(refusal, self.remedy)
        try:
            with quiet_transformers():
                # Pickled weights are read as tensors alone (weights_only is the library's default).
                return getattr(transformers, class_name).from_pretrained(
                    self.path, revision=self.revision, **arguments
                )
        except Exception as error:
            # Libraries raise whatever they like here: for no network, no such model, a damaged file.
            refusal = f"{self.what} '{self.name}': {str(error).strip().partition(chr(10))[0]}"
            if self.folder is None:
                _REFUSALS[self.path, self.revision] = refusal
            raise MetricError(refusal, self.remedy) from error

    def file(self, name: str) -> Path | None:
        """Return where one of its files is, or None if it has no such file."""
        if self.folder is not None:
            file = self.folder / name
            return file if file.is_file() else None
        from transformers.utils.hub import cached_file

        found = cached_file(
            self.name,
            name,
            revision=self.revision,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        return Path(found) if found else None

    @property
    def remedy(self) -> str:
        """How to get it."""
        return (
            f"Where the hub can be reached, 'hf download {self.name}' fetches it into the cache (HF_HOME); or set "
            f"the metric's '{self.setting}' to a folder with config.json, the tokenizer's files and "
            "model.safetensors."
        )


def _files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.iterdir()) if file.suffix in _KEPT]


@lru_cache(maxsize=16)
def _digest(folder: Path, stamps: tuple[tuple[str, int, int], ...]) -> str:
    """Return the hash of the files of a folder; ``stamps`` tell whether they are still those."""
    digest = hashlib.sha256()
    for name, size, _ in stamps:
        digest.update(f"{name}:{size}:".encode())
        with (folder / name).open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


class quiet_transformers:  # noqa: N801 - used as a function
    """Keeps transformers from warning and from drawing a bar while it loads."""

    def __enter__(self) -> None:
        from transformers.utils import logging

        self._level = logging.get_verbosity()
        self._bar = logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def __exit__(self, *exception: object) -> None:
        from transformers.utils import logging

        logging.set_verbosity(self._level)
        if self._bar:
            logging.enable_progress_bar()
