"""A checkpoint of transformers: a folder, or an id on the hub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import AdapterError
from ..hub import asked_once, require_repository
from .checkpoint_identity import digest_of_files
from .checkpoints import first_line, first_of, mismatch
from .hub import hub_commit

if TYPE_CHECKING:
    import torch

WEIGHTS = (".safetensors", ".bin")
_FILES = (".json", ".jinja", ".txt", ".model", ".py", *WEIGHTS)


@dataclass(frozen=True)
class HfSource:
    """Where a model is.

    Attributes:
        path: A hub id, or a folder.
        revision: Branch, tag or commit of a hub id.
        config: Its configuration.
    """

    path: str
    revision: str | None
    config: Any

    @property
    def folder(self) -> Path | None:
        """The folder; None for a hub id."""
        return Path(self.path) if Path(self.path).is_dir() else None

    def checkpoint(self) -> str:
        """Return which checkpoint it is: its id and commit, or a hash of the folder's files.

        Raises:
            AdapterError: A file cannot be read, or the hub's cache is gone.
        """
        if self.folder is not None:
            return f"sha256:{digest_of_files(p for p in self.folder.iterdir() if p.suffix in _FILES)}"
        return f"{self.path}@{self._commit}"

    @cached_property
    def _commit(self) -> str:
        # Kept, as a branch on the hub may move while the model that was loaded stays what it is.
        return hub_commit(self.path, self.revision)

    def load(self, model_class: Any, dtype: torch.dtype, remedy: str, **settings: Any) -> tuple[Any, Any]:
        """Return the model, and what the library says of weights that are missing, unexpected or of another shape.

        Args:
            model_class: A class of transformers.
            dtype: That of the weights.
            remedy: What to do where it cannot be loaded.
            **settings: Any more of ``from_pretrained``.

        Raises:
            AdapterError: It cannot be loaded.
        """
        try:
            with loading(self.path):
                # Pickled weights are read as tensors alone (weights_only is the library's default).
                return model_class.from_pretrained(
                    self.path,
                    revision=self.revision,
                    config=self.config,
                    dtype=dtype,
                    output_loading_info=True,
                    **settings,
                )
        except Exception as error:
            # The library raises whatever it likes: for no network, no such model, a damaged file.
            raise AdapterError(f"{self.path}: {mismatch(str(error))}", remedy) from error

    def remedy(self) -> str:
        """Return what to do where it cannot be loaded."""
        if self.folder is not None:
            return "Name a folder that save_pretrained of transformers wrote: model, tokenizer and image processor."
        return (
            f"Where the hub can be reached, 'hf download {self.path}' fetches it into the cache (HF_HOME); or set "
            "'pretrained' to a folder that save_pretrained of transformers wrote."
        )


def find_source(pretrained: str, revision: str | None) -> HfSource:
    """Return where a model is.

    Raises:
        AdapterError: There is no such folder or hub id.
    """
    folder = Path(pretrained).expanduser()
    source = HfSource(str(folder) if folder.is_dir() else pretrained, revision, None)
    if folder.is_dir() and not (folder / "config.json").is_file():
        hint = source.remedy()
        if (folder / "open_clip_config.json").is_file():
            hint = f"It looks like a folder of open_clip: --model open_clip --model_args pretrained={folder}"
        elif (folder / "adapter_config.json").is_file():
            hint = f"It looks like an adapter of peft: --model_args pretrained=ITS_MODEL,peft={folder}"
        raise AdapterError(f"{folder}: holds no config.json.", hint)
    try:
        require_repository(source.path)
        from transformers import AutoConfig

        with loading(source.path):
            config: Any = AutoConfig.from_pretrained(source.path, revision=revision)
    except Exception as error:
        # Libraries raise whatever they like here: for no network, no such model, a damaged file.
        raise AdapterError(f"{pretrained}: {first_line(error)}", source.remedy()) from error
    return HfSource(source.path, revision, config)


def require_fit(source: HfSource, found: Mapping[str, Any], more: Iterable[str] = ()) -> None:
    """Raise if the weights of a checkpoint are not those of its model.

    Args:
        source: Where the model is.
        found: What the library says of them beside the model: keys that are missing, or of another shape.
        more: Further faults, as they are told.

    Raises:
        AdapterError: Weights are missing, or of another shape, or there are further faults.
    """
    # The library fills what is missing with random numbers, and leaves out what does not fit.
    wrong = [f"{name}: not in the checkpoint" for name in sorted(found["missing_keys"])]
    wrong += [
        f"{name}: {list(theirs)} in the checkpoint, {list(ours)} in the architecture"
        for name, theirs, ours in sorted(found["mismatched_keys"])
    ]
    wrong += more
    if wrong:
        raise AdapterError(
            f"{source.path}: the weights do not fit config.json: {first_of(wrong)}",
            "The configuration and the weights are of different models.",
        )


def load_part(kind: Any, source: HfSource, what: str) -> Any:
    """Return a tokenizer or processor of a checkpoint.

    Args:
        kind: A class of transformers.
        source: Where the model is.
        what: What the part is called.

    Raises:
        AdapterError: It cannot be loaded.
    """
    try:
        with loading(source.path):
            return kind.from_pretrained(source.path, revision=source.revision)
    except Exception as error:
        # As above.
        raise AdapterError(f"{source.path}: its {what}: {first_line(error)}", source.remedy()) from error


def ask_nobody_about_code() -> None:
    """Keep transformers from asking at the terminal whether code of a checkpoint may run: the command line says so."""
    from transformers import dynamic_module_utils

    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Keep transformers quiet while it loads, as what is wrong is looked for, and from asking a dead hub again.

    Args:
        name: A hub id, or a folder.

    Raises:
        NotInCache: The hub does not answer, and its cache has not what is loaded.
    """
    from transformers.utils import logging

    ask_nobody_about_code()
    level, has_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with asked_once(name):
            yield
    finally:
        logging.set_verbosity(level)
        if has_bar:
            logging.enable_progress_bar()
