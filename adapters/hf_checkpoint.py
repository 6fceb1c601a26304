"""A checkpoint of transformers: a folder, or an id on the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..errors import AdapterError
from ..hub import asked_once, commit_of, keep_commit, refusal, unreachable
from ..paths import checkpoint_folder
from .checkpoint_identity import digest_of_files
from .checkpoints import first_of, mismatch, remedy_of_folder
from .contracts import Model
from .devices import torch_version

if TYPE_CHECKING:
    import torch

WEIGHTS = (".safetensors", ".bin")
_MODULES = {"Transformer", "Pooling", "Normalize"}
_FILES = (".json", ".jinja", ".txt", ".model", ".py", *WEIGHTS)


@dataclass(frozen=True)
class HfSource:
    """Where a model is.

    Attributes:
        path: A hub id, or a folder.
        revision: Commit of a hub id.
        config: Its configuration; None as long as it is not read.
        parts: The contents of a folder with such a model.
    """

    path: str
    revision: str | None
    config: Any = None
    parts: str = "model, tokenizer and image processor"

    @classmethod
    def named(cls, pretrained: str, revision: str | None, **more: str) -> HfSource:
        """Return where a model is that a user names; the hub is asked for the commit of a branch or tag.

        Raises:
            AdapterError: It is a folder without a configuration, or a hub id that is not to be had.
        """
        folder = Path(pretrained).expanduser()
        source = cls(str(folder) if folder.is_dir() else pretrained, revision, **more)
        if source.folder and not (folder / "config.json").is_file():
            raise AdapterError(f"{folder}: holds no config.json.", remedy_of_folder(folder) or source.remedy())
        if source.folder:
            return source
        try:
            return replace(source, revision=commit_of(source.path, revision))
        except Exception as error:
            raise source.fault(error) from error

    @property
    def folder(self) -> Path | None:
        """The folder; None for a hub id."""
        return Path(self.path) if Path(self.path).is_dir() else None

    def checkpoint(self) -> str:
        """Return which checkpoint it is: its id and commit, or a hash of the folder's files.

        Raises:
            AdapterError: A file cannot be read.
        """
        if self.folder is not None:
            return f"sha256:{digest_of_files(p for p in self.folder.iterdir() if p.suffix in _FILES)}"
        return f"{self.path}@{self.revision}"

    def load(self, kind: str, dtype: torch.dtype | str, **settings: Any) -> tuple[Any, Any]:
        """Return the model, and the library's report on missing, unexpected or mismatched weights.

        Args:
            kind: The name of a class of transformers.
            dtype: That of the weights.
            **settings: Any more of ``from_pretrained``.

        Raises:
            AdapterError: It cannot be loaded.
        """
        import transformers

        own = {"revision": self.revision, "config": self.config, "dtype": dtype}
        with self.reading():
            # Pickled weights are read as tensors alone (weights_only is the library's default).
            model = getattr(transformers, kind).from_pretrained(self.path, output_loading_info=True, **own, **settings)
        if self.revision:
            keep_commit(self.path, self.revision)
        return model

    def load_whole(self, kind: str, dtype: torch.dtype | str, used: tuple[str, ...] = ("",), **settings: Any) -> Any:
        """Return a model, to be asked only, of which the weights that are used are all from the checkpoint.

        Args:
            kind: The name of its class in transformers.
            dtype: That of the weights.
            used: How the names of weights begin that are used; all by default.
            **settings: Any more of ``from_pretrained``.

        Raises:
            AdapterError: It cannot be loaded, or lacks such a weight.
        """
        # Weights that do not fit are looked for below, where they can be named.
        model, info = self.load(kind, dtype, ignore_mismatched_sizes=True, **settings)
        needed = {
            "missing_keys": [name for name in info["missing_keys"] if name.startswith(used)],
            "mismatched_keys": [key for key in info["mismatched_keys"] if key[0].startswith(used)],
        }
        require_fit(self, needed)
        return model.eval().requires_grad_(False)

    def part(self, kind: str, label: str, **settings: Any) -> Any:
        """Return a tokenizer or processor of a checkpoint.

        Args:
            kind: The name of a class of transformers.
            label: The part's name.
            **settings: Any more of ``from_pretrained``.

        Raises:
            AdapterError: It cannot be loaded.
        """
        import transformers

        with self.reading(f"its {label}: "):
            return getattr(transformers, kind).from_pretrained(self.path, revision=self.revision, **settings)

    def folder_of(self, peft: str) -> str:
        """Return where adapter weights are that may be a folder of the checkpoint's own repository, by its name.

        Raises:
            AdapterError: They cannot be downloaded.
        """
        if Path(peft).name != peft or Path(peft).exists() or (checkpoint_folder() / peft).exists():
            return peft
        from huggingface_hub import snapshot_download

        repository = self.folder
        if repository is None:
            with self.reading(f"peft={peft}: "):
                repository = Path(snapshot_download(self.path, revision=self.revision, allow_patterns=f"{peft}/*"))
        return str(repository / peft) if (repository / peft).is_dir() else peft

    @contextmanager
    def reading(self, label: str = "") -> Iterator[None]:
        """Read something of the checkpoint.

        Args:
            label: The part's name, for the message.

        Raises:
            AdapterError: It cannot be read.
        """
        try:
            with loading(self.path):
                yield
        except Exception as error:
            raise self.fault(error, label) from error

    def fault(self, error: Exception, label: str = "") -> AdapterError:
        """Return an error of a library, of any type, with the place: no network, no such model, a damaged file."""
        refused = None if self.folder else refusal(error)
        why, remedy = refused or (mismatch(str(error)) or type(error).__name__, self.remedy())
        return AdapterError(f"{self.path}: {label}{why}", remedy)

    def remedy(self) -> str:
        """Return what to do where it cannot be loaded."""
        if self.folder is not None:
            return f"Name a folder that save_pretrained of transformers wrote: {self.parts}."
        return (
            f"Where the hub can be reached, 'hf download {self.path}' fetches it into the cache (HF_HOME); or set "
            "'pretrained' to a folder that save_pretrained of transformers wrote."
        )


class HfModel(Model):
    """A model of transformers, named by ``pretrained`` and ``revision``."""

    adapter: ClassVar[str]
    """Name of the adapter."""
    kinds: ClassVar[tuple[str, ...]] = ()
    """Kinds of checkpoints that it takes, as their configurations call them (``model_type``); none for any."""
    _source: HfSource

    def _find(self, pretrained: str, revision: str | None) -> None:
        """Find the checkpoint, after which it is named if it has no name.

        Raises:
            AdapterError: There is none, or it is of another kind.
        """
        self.name = self.name or str(pretrained)
        self._source = find_source(str(pretrained), revision)
        kind = self._source.config.model_type
        if self.kinds and kind not in self.kinds:
            raise AdapterError(
                f"{pretrained}: model_type is '{kind}'; adapter '{self.adapter}' takes {' or '.join(self.kinds)}.",
                "'bench ls models' lists the models of each adapter.",
            )

    def _identity(self, model: Any, **used: Any) -> dict[str, Any]:
        """Return the fingerprint of a loaded model and of what is used with it."""
        checkpoint = {"adapter": self.adapter, "checkpoint": self._source.checkpoint()}
        return {**checkpoint, "model": type(model).__name__, **used, **versions()}

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if it is nowhere on this machine, and cannot be had from the hub; see ``Model.check``."""
        pretrained, revision = str(arguments["pretrained"]), arguments.get("revision")
        if unreachable(HfSource.named(pretrained, revision).path):
            find_source(pretrained, revision)


def versions() -> dict[str, str]:
    """Return the versions of the libraries that can change a model's output."""
    import transformers

    return {"transformers": transformers.__version__, "torch": torch_version()}


def find_source(pretrained: str, revision: str | None, trust_remote_code: bool = False) -> HfSource:
    """Return where a model is.

    Raises:
        AdapterError: There is no such folder or hub id.
    """
    source = HfSource.named(pretrained, revision)
    with source.reading():
        from transformers import AutoConfig

        trusted = {"trust_remote_code": trust_remote_code}
        config: Any = AutoConfig.from_pretrained(source.path, revision=source.revision, **trusted)
    return replace(source, config=config)


def require_fit(source: HfSource, info: Mapping[str, Any], more: Iterable[str] = ()) -> None:
    """Raise if the weights of a checkpoint are not those of its model.

    Args:
        source: Where the model is.
        info: The library's loading report: keys that are missing, or of another shape.
        more: Messages of additional faults.

    Raises:
        AdapterError: Weights are missing, or of another shape, or there are additional faults.
    """
    # The library fills what is missing with random numbers, and leaves out what does not fit.
    wrong = [f"{name}: not in the checkpoint" for name in sorted(info["missing_keys"])]
    wrong += [
        f"{name}: {list(stored)} in the checkpoint, {list(expected)} in the architecture"
        for name, stored, expected in sorted(info["mismatched_keys"])
    ]
    wrong += more
    if wrong:
        raise AdapterError(
            f"{source.path}: the weights do not fit config.json: {first_of(wrong)}",
            "The configuration and the weights are of different models.",
        )


def file_of(path: str, name: str, revision: str | None) -> Path | None:
    """Return where a file of a checkpoint is, which is a folder or on the hub; None if it has no such file."""
    from transformers.utils.hub import cached_file

    with asked_once(path):
        file = cached_file(
            path,
            name,
            revision=revision,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    return Path(file) if file else None


def stated_pooling(read: Callable[[str], Any]) -> Literal["mean", "cls", ""]:
    """Return how a checkpoint of sentence-transformers makes a text's vector: ``mean``, ``cls``, or "" in another way.

    Args:
        read: Returns what a JSON file of the checkpoint holds; None if it has no such file.
    """
    kinds = {str(module.get("type", "")).rpartition(".")[2] for module in read("modules.json") or ()}
    said = read("1_Pooling/config.json") or {"pooling_mode": "mean"}
    flags = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    marked = [flags.get(key, key) for key, is_set in said.items() if key.startswith("pooling_mode_") and is_set]
    match [said["pooling_mode"]] if "pooling_mode" in said else marked:
        case [("mean" | "cls") as mode] if kinds <= _MODULES:
            return mode
    return ""


def ask_nobody_about_code() -> None:
    """Keep transformers from asking at the terminal whether a checkpoint's code may run: an option decides that."""
    from transformers import dynamic_module_utils

    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0  # pyrefly: ignore[bad-assignment]


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Keep transformers quiet while it loads, as errors are checked here, and from asking a dead hub again.

    Args:
        name: A hub id, or a folder.

    Raises:
        NotInCache: The hub does not answer, and its cache lacks the model.
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
