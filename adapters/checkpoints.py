"""Checkpoint files: whether one can be read as tensors and nothing else, and what does not fit."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import AdapterError

_NAMED = 3
"""How many tensors a message names."""


_LAYOUTS = {
    "config.json": "a folder of transformers: --model hf_clip --model_args pretrained={}",
    "open_clip_config.json": "a folder of open_clip: --model open_clip --model_args pretrained={}",
    "adapter_config.json": "an adapter of peft: --model_args pretrained=ITS_MODEL,peft={}",
}
"""A file of a folder to what the folder is."""


def remedy_of_folder(folder: Path) -> str:
    """Return how a folder is loaded that another library wrote; empty if none did."""
    kinds = (kind for file, kind in _LAYOUTS.items() if (folder / file).is_file())
    return next((f"It looks like {kind.format(folder)}" for kind in kinds), "")


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a checkpoint's tensors by name, without reading their values.

    Pickled files are read with ``weights_only``: only tensors are loaded, and no code runs.

    Raises:
        AdapterError: The file is missing, empty, damaged, or holds code.
    """
    if not path.is_file():
        raise AdapterError(f"checkpoint {path}: no such file.", "Name the file, or a tag or hub id.")
    if not path.stat().st_size:
        raise AdapterError(f"checkpoint {path}: is empty.", _COPY_AGAIN)
    import torch
    from safetensors import safe_open

    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        checkpoint: Any = torch.load(path, map_location="meta", weights_only=True)
        if not isinstance(checkpoint, Mapping):
            raise TypeError("it holds no mapping of names to tensors")
        weights = checkpoint.get("state_dict", checkpoint)
        tensors = {name: value for name, value in weights.items() if isinstance(value, torch.Tensor)}
        return {name.removeprefix("module."): tuple(value.shape) for name, value in tensors.items()}
    except Exception as error:
        # Libraries raise errors of any type here.
        if refused := _refusal(str(error)):
            raise AdapterError(f"checkpoint {path}: {refused[0]}.", refused[1]) from error
        raise AdapterError(f"checkpoint {path}: cannot be read: {first_line(error)}", _COPY_AGAIN) from error


_COPY_AGAIN = "Copy or download it again, and compare its SHA-256 with the source's."


def _refusal(message: str) -> tuple[str, str] | None:
    """Return why torch cannot read a file as tensors alone, and what to do; None for any other message.

    Torch itself advises to run what the file holds.
    """
    if "weights_only" not in message:
        return None
    if "TorchScript" in message:
        return (
            "is a TorchScript archive, which holds code as well as weights",
            "OpenAI's released .pt files are such archives; pretrained=openai loads the same weights as "
            "safetensors. Save the state dict of others by torch.save.",
        )
    if named := re.search(r"(?:GLOBAL|Unsupported global:?|class) (?:GLOBAL )?([\w.]+)", message):
        return (
            f"holds pickled code ({named[1]}), which was not run",
            "Save the weights alone: torch.save(model.state_dict(), FILE), or as safetensors.",
        )
    return "cannot be read: it is no pickle of tensors, or damaged; nothing in it was run", _COPY_AGAIN


def mismatch(message: str) -> str:
    """Return the first tensors that do not fit the architecture, by torch's message, or its first line."""
    differences = [
        f"{name}: [{stored}] in the checkpoint, [{expected}] in the architecture"
        for name, stored, expected in re.findall(
            r"size mismatch for (\S+): copying a param with shape torch\.Size\(\[(.*?)\]\) from checkpoint, "
            r"the shape in current model is torch\.Size\(\[(.*?)\]\)",
            message,
        )
    ]
    for kind, said in (("Missing", "not in the checkpoint"), ("Unexpected", "not in the architecture")):
        if listed := re.search(rf"{kind} key\(s\) in state_dict: (.*?)\. *(?:\n|$)", message):
            differences += [f"{name}: {said}" for name in re.findall(r'"([^"]+)"', listed[1])]
    return first_of(differences) if differences else _first_line(message)


def differing(stored: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return the tensors of an architecture that a checkpoint has in another shape, or has not."""
    return [
        f"{name}: {list(stored[name])} in the checkpoint, {list(shape)} in the architecture"
        if name in stored
        else f"{name}: not in the checkpoint"
        for name, shape in expected.items()
        if stored.get(name) != shape
    ]


def first_of(tensors: Sequence[str]) -> str:
    """Return the first of many in one line, and how many more there are."""
    more = f"; and {len(tensors) - _NAMED} more" if len(tensors) > _NAMED else ""
    return "; ".join(tensors[:_NAMED]) + more


def first_line(error: Exception) -> str:
    """Return the first line of a library's error message, or the error's type where the message is empty."""
    return _first_line(str(error)) or type(error).__name__


def _first_line(message: str) -> str:
    refused = _refusal(message)
    return refused[0] if refused else message.strip().partition("\n")[0]
