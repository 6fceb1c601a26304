"""Adapter weights such as LoRA in a folder that the peft library wrote, laid over a model."""

import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import AdapterError
from ..paths import checkpoint_folder
from .checkpoint_identity import digest_of_files
from .checkpoints import first_of, mismatch, tensor_shapes

_HINT = "Is it an adapter of this model?"


def peft_checkpoint(peft: str) -> str:
    """Return which adapter weights a folder holds.

    Raises:
        AdapterError: It holds none, or the package is missing that loads them.
    """
    if importlib.util.find_spec("peft") is None:
        raise AdapterError("peft=... needs the package 'peft'.", "Install it: pip install peft")
    folder = _folder_of(peft)
    if not (folder / "adapter_config.json").is_file():
        raise AdapterError(
            f"peft={peft} is not a folder with an adapter_config.json, nor one in {checkpoint_folder()}.",
            "Name a folder that save_pretrained of peft wrote: from the hub ('hf download'). That of an alias comes by "
            "'bench fetch MODEL'.",
        )
    files = [path for path in folder.iterdir() if path.suffix in (".safetensors", ".bin", ".json")]
    return f"sha256:{digest_of_files(files)}"


def _folder_of(peft: str) -> Path:
    in_cache = checkpoint_folder() / peft
    return in_cache if Path(peft).name == peft and in_cache.is_dir() else Path(peft).expanduser()


@contextmanager
def quiet_peft() -> Iterator[None]:
    """Suppress peft's deprecated name of transformers, and its note that a state dict has the embeddings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.filterwarnings("ignore", "Setting `save_embedding_layers`", UserWarning)
        yield


def with_peft(model: Any, peft: str) -> Any:
    """Return a model with adapter weights added to its own; the model has a place for each.

    Raises:
        AdapterError: They cannot be read, or are those of another model.
    """
    import torch
    from peft import PeftModel, get_peft_model_state_dict

    folder = _folder_of(peft)
    try:
        with quiet_peft():
            adapted = PeftModel.from_pretrained(model, str(folder))
            places = get_peft_model_state_dict(adapted)
        stored = {name for path in folder.glob("adapter_model.*") for name in tensor_shapes(path)}
        # Of 2023, as DCI's are: a layer's own bias, trained too, has the layer's name, and peft passes it over.
        old = {name: f"{name[:-4]}base_layer.bias" for name in stored - set(places) if name.endswith(".bias")}
        biases = _tensors(folder, {name for name, place in old.items() if place in places})
        with torch.no_grad():
            for name, value in biases.items():
                places[old[name]].copy_(value)
    except Exception as error:
        # Libraries raise errors of any type here.
        raise AdapterError(f"peft={peft}: {mismatch(str(error))}", _HINT) from error
    stored = {old[name] if name in biases else name for name in stored}
    # The library ignores weights that do not fit, and keeps initial values for missing ones.
    if wrong := sorted(stored ^ set(places)):
        raise AdapterError(
            f"peft={peft}: does not fit the model: "
            + first_of([f"{name}: not in the {'model' if name in stored else 'adapter'}" for name in wrong]),
            _HINT,
        )
    return adapted


def merged_with_peft(model: Any, peft: str) -> Any:
    """Return a model with adapter weights added to its own, in single precision at best.

    Raises:
        AdapterError: They cannot be read, are those of another model, or cannot be added to its weights.
    """
    adapted = with_peft(model, peft)
    try:
        return adapted.merge_and_unload()
    except Exception as error:
        # As above: kinds of adapters that are no addition to weights raise this.
        raise AdapterError(f"peft={peft}: cannot be merged: {mismatch(str(error))}", _HINT) from error


def _tensors(folder: Path, names: set[str]) -> dict[str, Any]:
    """Return tensors of the adapter's files by name."""
    if not names:
        return {}
    import torch
    from safetensors.torch import load_file

    tensors: dict[str, Any] = {}
    for path in folder.glob("adapter_model.*"):
        tensors |= (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    return {name: tensors[name] for name in names}
