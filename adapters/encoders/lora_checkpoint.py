"""LoRA weights inside a checkpoint of open_clip's names, as DAC's released ones hold them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import AdapterError

if TYPE_CHECKING:
    import torch

_DOWN = ("_lora_A", ".lora_A")


def holds_lora(names: Iterable[str]) -> bool:
    """Return whether a checkpoint with these tensors holds LoRA weights beside the model's own."""
    return any("lora_" in name for name in names)


def merged_state(path: Path, alpha: float | None) -> dict[str, torch.Tensor]:
    """Return the weights of a checkpoint with LoRA's added: ``W + B·A alpha / r``.

    A weight ``attn.in_proj_weight`` has ``attn.in_proj_weight_lora_A [r, in]`` and ``_lora_B [out, r]``, that of a
    layer ``mlp.c_fc`` has ``mlp.c_fc.lora_A`` and ``mlp.c_fc.lora_B``; a convolution of ``k × k`` has ``[r k, in k]``
    and ``[out k, r k]``. So does DAC, which adds all of them with alpha 1 (github.com/SivanDoveh/DAC,
    ``src/open_clip/loralib/layers.py`` and ``model.py``), and SVLC by the same files (github.com/SivanDoveh/TSVLC).

    Args:
        path: The checkpoint, which can be read.
        alpha: What they are scaled by, times their rank; the file does not say it.

    Raises:
        AdapterError: ``alpha`` is not given, or a weight lacks its LoRA weights, or they it.
    """
    from open_clip.factory import load_state_dict

    state: Any = load_state_dict(str(path), weights_only=True)
    lora = {name: value for name, value in state.items() if "lora_" in name}
    if foreign := [name for name in lora if not name.endswith((*_DOWN, "_lora_B", ".lora_B"))]:
        raise AdapterError(
            f"checkpoint {path}: its LoRA weights are not named as loralib names them: {foreign[0]}",
            "Of a model of peft write the adapter alone (save_pretrained), and name it: peft=FOLDER.",
        )
    if alpha is None:
        raise AdapterError(
            f"checkpoint {path}: holds LoRA weights ({next(iter(lora))}, …), and not what they are scaled by.",
            "Name it: lora_alpha=1 is that of DAC's and SVLC's checkpoints. Those of PAC-S++, which adds only some of "
            "them, are read by --model pac --model_args checkpoint=FILE.",
        )
    merged = {name: value for name, value in state.items() if name not in lora}
    for name in sorted(name for name in lora if name.endswith(_DOWN)):
        down, up = lora.pop(name).float(), lora.pop(f"{name[:-1]}B", None)
        weight = (
            name.removesuffix("_lora_A")
            if name.endswith("_lora_A")
            else f"{name.removesuffix('lora_A')}weight"
        )
        if up is None or weight not in merged:
            raise AdapterError(
                f"checkpoint {path}: {name} has no {weight if up is not None else name[:-1] + 'B'}."
            )
        own = merged[weight]
        rank = len(down) // (own.shape[-1] if own.ndim == 4 else 1)
        added = up.float() @ down
        if not rank or added.numel() != own.numel():
            raise AdapterError(
                f"checkpoint {path}: {name}: {list(down.shape)} and {list(up.shape)} are no LoRA weights of "
                f"{weight}: {list(own.shape)}."
            )
        merged[weight] = own.float() + added.view(own.shape) * (alpha / rank)
    if lora:
        raise AdapterError(f"checkpoint {path}: {next(iter(lora))} has no lora_A.")
    return merged
