"""Finds a model of open_clip: a tag, a hub model, a folder, or a checkpoint file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...boundary import Boundary
from ...errors import AdapterError, did_you_mean
from ...hub import NotInCache, asked_once, require_repository
from ..checkpoints import first_line
from ..hf_checkpoint import ask_nobody_about_code

_ELSEWHERE = (
    "or name a checkpoint file, or a folder with open_clip_config.json and the weights, in 'pretrained'."
)
DOWNLOAD = f"Where the hub can be reached it is downloaded on first use; {_ELSEWHERE}"
_HUB = "hf-hub:"
_CONFIGURATION = "open_clip_config.json"


@dataclass(frozen=True)
class OpenClipSource:
    """Where a model is.

    Attributes:
        model_name: What open_clip is told to make.
        load: The tag or file that it is told to load; None where ``model_name`` says it all.
        name: Of the architecture, for messages.
        configuration: The architecture.
        checkpoint: The file with the weights.
        quick_gelu: Whether the weights were trained with QuickGELU, as far as is known.
        tag: The tag or hub id that it was known by; none for files.
    """

    model_name: str
    load: str | None
    name: str
    configuration: Mapping[str, Any]
    checkpoint: Path
    quick_gelu: bool
    tag: str = ""

    def loading(self) -> AbstractContextManager[None]:
        """Return what to load in: where a part of it is on a hub that does not answer, that is asked once."""
        ask_nobody_about_code()
        text = self.configuration.get("text_cfg", {})
        on_hub = self.tag or text.get("hf_model_name") or text.get("hf_tokenizer_name")
        return asked_once(on_hub) if on_hub else nullcontext()


def find_source(pretrained: str, architecture: str | None) -> OpenClipSource:
    """Return where a model is, downloaded if need be.

    Raises:
        AdapterError: There is no such model, or it cannot be downloaded.
    """
    path = Path(pretrained).expanduser()
    if pretrained.startswith(_HUB) or path.is_dir():
        if architecture is not None:
            raise AdapterError(
                f"architecture={architecture}: {pretrained} has its own, in {_CONFIGURATION}.",
                "Leave 'architecture' out.",
            )
        return _find_on_hub(pretrained) if pretrained.startswith(_HUB) else _find_in_folder(path)
    if architecture is None:
        raise AdapterError(
            f"pretrained={pretrained} is a file, which does not say its 'architecture'."
            if path.is_file()
            else f"pretrained={pretrained} names no file, folder or hub id; for a tag, 'architecture' must be given.",
            "Such as architecture=ViT-B-32,pretrained=laion2b_s34b_b79k.",
        )
    name, configuration = _architecture(architecture)
    if path.is_file():
        return OpenClipSource(name, str(path), name, configuration, path, _is_quick(configuration))
    return _find_tag(name, configuration, pretrained)


def require_tag(tag: str, architecture: str | None, repository: str) -> None:
    """Raise where a tag's weights are nowhere; to ask open_clip itself takes seconds.

    Args:
        tag: A tag, or any other ``pretrained``, of which nothing is said.
        architecture: Its architecture.
        repository: The tag's repository on the hub, if it is known.

    Raises:
        AdapterError: The hub does not answer, and its cache has nothing of the repository.
    """
    if architecture is None or Path(tag).expanduser().exists():
        return
    try:
        require_repository(repository)
    except NotInCache as error:
        raise _not_loaded(architecture.replace("/", "-"), tag, error, _remedy(repository)) from error


def _not_loaded(name: str, tag: str, error: Exception, remedy: str) -> AdapterError:
    return AdapterError(f"open_clip {name}, {tag}: {first_line(error)}", remedy)


def _find_tag(name: str, configuration: Mapping[str, Any], tag: str) -> OpenClipSource:
    import open_clip

    known = open_clip.list_pretrained_tags_by_model(name)
    entry = open_clip.get_pretrained_cfg(name, tag)
    if not entry:
        if "/" in tag or "." in tag:
            raise AdapterError(
                f"checkpoint {tag}: no such file.", f"Or name a tag of {name}: {', '.join(known)}."
            )
        raise AdapterError(
            f"pretrained={tag} is no tag of architecture {name}, and no file.{did_you_mean(tag, known)}",
            f"Its tags: {', '.join(known) or 'none'}.",
        )
    try:
        with asked_once(tag):
            checkpoint = Path(open_clip.download_pretrained(entry))
    except Exception as error:
        # Hubs, sockets and files fail in many ways.
        on_hub = str(entry.get("hf_hub", "")).rpartition("/")[0]
        remedy = _remedy(on_hub) if on_hub else DOWNLOAD
        raise _not_loaded(name, tag, error, remedy) from error
    # open_clip itself only warns where the activation is not the one that the weights were trained with.
    quick = bool(entry.get("quick_gelu", False)) or _is_quick(configuration)
    return OpenClipSource(name, tag, name, configuration, checkpoint, quick, tag)


def _find_on_hub(pretrained: str) -> OpenClipSource:
    model = pretrained.removeprefix(_HUB)
    try:
        require_repository(model)
        from open_clip import get_model_config
        from open_clip.pretrained import download_pretrained_from_hf

        with asked_once(model):
            configuration = get_model_config(pretrained) or {}
            checkpoint = Path(download_pretrained_from_hf(model))
    except Exception as error:
        # Hubs, sockets and files fail in many ways.
        raise AdapterError(f"open_clip {pretrained}: {first_line(error)}", _remedy(model)) from error
    quick = _is_quick(configuration)
    return OpenClipSource(pretrained, None, model, configuration, checkpoint, quick, pretrained)


def _remedy(name: str) -> str:
    return f"Where the hub can be reached, 'hf download {name}' fetches it into the cache (HF_HOME); {_ELSEWHERE}"


def _find_in_folder(folder: Path) -> OpenClipSource:
    from open_clip.factory import _find_checkpoint_in_dir

    configuration = folder / _CONFIGURATION
    if not configuration.is_file():
        hint = "Name the checkpoint file and its architecture, or add the configuration."
        if (folder / "config.json").is_file():
            hint = f"It looks like a folder of transformers: --model hf_clip --model_args pretrained={folder}"
        elif (folder / "adapter_config.json").is_file():
            hint = f"It looks like an adapter of peft: --model_args pretrained=ITS_MODEL,peft={folder}"
        raise AdapterError(f"{folder}: holds no {_CONFIGURATION}.", hint)
    model = _read_json(configuration).get("model_cfg")
    if not isinstance(model, dict):
        raise AdapterError(
            f"{configuration}: has no 'model_cfg'.", "It holds 'model_cfg' and 'preprocess_cfg'."
        )
    # A part of it may be of the hub, and of a folder below this one.
    Boundary.around(folder).require(model, str(configuration), folder)
    found = _find_checkpoint_in_dir(folder)
    if found is None:
        raise AdapterError(
            f"{folder}: holds no checkpoint.",
            "Add open_clip_model.safetensors or open_clip_pytorch_model.bin.",
        )
    return OpenClipSource(f"local-dir:{folder}", None, str(folder), model, Path(found), _is_quick(model))


def _architecture(architecture: str) -> tuple[str, dict[str, Any]]:
    """Return the name by which open_clip knows an architecture, and its configuration.

    Raises:
        AdapterError: There is none.
    """
    import open_clip

    path = Path(architecture).expanduser()
    if path.suffix == ".json":
        wanted = _read_json(path)
        if path.stem not in open_clip.list_models():
            open_clip.add_model_config(path)
        if open_clip.get_model_config(path.stem) != wanted:
            raise AdapterError(
                f"{path}: open_clip has another architecture '{path.stem}', or this is none.",
                "Rename the file; it holds 'embed_dim', 'vision_cfg' and 'text_cfg'.",
            )
    name = path.stem if path.suffix == ".json" else architecture.replace("/", "-")
    configuration = open_clip.get_model_config(name)
    if configuration is None:
        known = open_clip.list_models()
        raise AdapterError(
            f"open_clip has no architecture '{architecture}'.{did_you_mean(architecture, known)}",
            "open_clip.list_models() lists them; a JSON file in its form describes another.",
        )
    return name, configuration


def _is_quick(configuration: Mapping[str, Any]) -> bool:
    return bool(configuration.get("quick_gelu", False))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AdapterError(f"{path}: {first_line(error)}") from error
    if not isinstance(found, dict):
        raise AdapterError(f"{path}: holds no mapping.")
    return found
