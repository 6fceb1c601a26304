"""Checkpoints of transformers that a metric loads for itself: a folder, or a name on the hub."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...adapters.checkpoint_identity import checkpoint_digest
from ...adapters.checkpoints import first_line
from ...adapters.devices import TOO_LARGE, BatchSize
from ...adapters.hf_checkpoint import file_of, loading
from ...downloads import Repository
from ...errors import AdapterError, MetricError
from ...hub import NotInCache, commit_of, keep_commit, refusal, unreachable

PINNED = {
    "FacebookAI/roberta-large": "722cf37b1afa9454edce342e7895e588b6ff1d59",
    "roberta-large": "722cf37b1afa9454edce342e7895e588b6ff1d59",
    "sentence-transformers/all-mpnet-base-v2": "e8c3b32edf5434bc2275fc9bab85f82640a19130",
}
"""Name on the hub to the commit that is loaded unless a revision is named; other names stand for their branch main."""
_KEPT = (".json", ".txt", ".model", ".safetensors", ".bin")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is not loaded.

    Attributes:
        role: Its name in messages ("CAPTURE's text encoder").
        setting: The metric's setting that names it.
        name: A folder that ``save_pretrained`` wrote, or a name on the hub.
        revision: Branch, tag or commit on the hub; that of :data:`PINNED` unless one is named.
    """

    role: str
    setting: str
    name: str
    revision: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "revision", self.revision or PINNED.get(self.name))

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
                    f"{self.role}: the folder {self.folder} has no config.json.",
                    "Name a folder that save_pretrained of transformers wrote.",
                )
            return
        try:
            if not self.is_here():
                self._commit()
        except NotInCache as error:
            raise MetricError(
                f"{self.role} '{self.name}' is neither a folder nor in the hub's cache, and {unreachable(self.name)}.",
                self.remedy,
            ) from error

    def is_here(self) -> bool:
        """Tell whether it is a folder, or in the hub's cache.

        Raises:
            MetricError: It is neither a folder nor a hub name.
        """
        if self.folder is not None:
            return True
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            cached = try_to_load_from_cache(self.name, "config.json", revision=self.revision)
        except HFValidationError as error:
            raise MetricError(f"{self.role} '{self.name}' is neither a folder nor a hub name.", self.remedy) from error
        return isinstance(cached, str)

    def resources(self) -> list[Repository]:
        """Return its repository on the hub; none for a folder."""
        return [Repository(self.name, self.revision)] if self.folder is None else []

    def identity(self) -> str:
        """Return which checkpoint it is: the commit on the hub, or the hash of its files.

        Raises:
            MetricError: A file of the folder cannot be read.
        """
        if self.folder is not None:
            return f"sha256 {self._digest(self.folder)}"
        try:
            if not self.is_here():
                # So that it is noted in the cache, even where nothing is left to be done with it.
                self.load("AutoConfig")
            return f"commit {self._commit()}"
        except (MetricError, NotInCache):
            # It could not be had, so nothing was made with it.
            return "not loaded"

    def _commit(self) -> str | None:
        """Return the commit to load; None of a folder.

        Raises:
            MetricError: The hub refuses.
            NotInCache: It does not answer, and its cache lacks the checkpoint.
        """
        if self.folder is not None:
            return None
        try:
            return commit_of(self.name, self.revision)
        except NotInCache:
            raise
        except Exception as error:
            raise self._fault(error) from error

    def _fault(self, error: Exception) -> MetricError:
        refused = None if self.folder else refusal(error)
        message, hint = refused or (first_line(error), self.remedy)
        return MetricError(f"{self.role} '{self.name}': {message}", hint)

    def _digest(self, folder: Path) -> str:
        digest = hashlib.sha256()
        try:
            for file in sorted(folder.iterdir()):
                if file.suffix in _KEPT:
                    digest.update(f"{file.name}:{file.stat().st_size}:".encode())
                    digest.update(bytes.fromhex(checkpoint_digest(file)))
        except AdapterError as error:
            raise MetricError(f"{self.role}: {error.message}") from error
        return digest.hexdigest()

    def load(self, class_name: str, **arguments: Any) -> Any:
        """Load a part of it by a class of transformers (``"AutoConfig"``, ``"AutoTokenizer"``, ...).

        Raises:
            MetricError: It cannot be loaded.
        """
        import transformers

        try:
            revision = self._commit()
            with loading(self.path):
                # Pickled weights are read as tensors alone (weights_only is the library's default).
                part = getattr(transformers, class_name).from_pretrained(self.path, revision=revision, **arguments)
        except MetricError:
            raise
        except Exception as error:
            # Libraries raise errors of any type: no network, no such model, a damaged file.
            raise self._fault(error) from error
        if revision:
            keep_commit(self.name, revision, is_whole=class_name.startswith("AutoModel"))
        return part

    def file(self, name: str) -> Path | None:
        """Return where one of its files is, or None if it has no such file."""
        return file_of(self.path, name, self._commit())

    @property
    def remedy(self) -> str:
        """How to get it."""
        return (
            f"Where the hub can be reached, 'hf download {self.name}' fetches it into the cache (HF_HOME); or set "
            f"the metric's '{self.setting}' to a folder with config.json, the tokenizer's files and "
            "model.safetensors."
        )


_One = TypeVar("_One")
_Made = TypeVar("_Made")


def batches_that_fit(
    component: str,
    size: BatchSize,
    things: Sequence[_One],
    work: Callable[[Sequence[_One]], _Made],
    length: Callable[[_One], int] = lambda thing: 1,
) -> Iterator[tuple[Sequence[_One], _Made]]:
    """Yield each batch and its result; see ``BatchSize.batches``.

    Args:
        component: The component's name in messages ("CAPTURE's parser").
        size: How much goes through at once.
        things: What to process.
        work: Makes something of a batch.
        length: Of a thing.

    Raises:
        MetricError: One thing alone does not fit.
    """
    for batch, result in size.batches(things, work, length):
        if result is None:
            raise MetricError(
                f"{component}: a single input {TOO_LARGE}.", "Set the metric's 'device' to another one, such as cpu."
            )
        yield batch, result
