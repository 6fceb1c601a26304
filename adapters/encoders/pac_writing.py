"""Writes checkpoints in the format of PAC-S and PAC-S++."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..lending import Alias
from ..pixels.transforms import ImageTransform
from .open_clip_transform import open_clip_transform
from .pac_checkpoint import LORA_SCALING, read_pac_checkpoint, weight_of_factor

if TYPE_CHECKING:
    import torch

_FILE = "pac.pth"


def pac_transform(image_size: int, kind: str, device: torch.device) -> ImageTransform:
    """Return what readers of such checkpoints make inputs with: OpenAI's transform.

    Args:
        image_size: Pixels a side of what the model sees.
        kind: ``exact`` or ``fast``; see ``open_clip_transform``.
        device: Where batches go.
    """
    return open_clip_transform({"size": image_size}, kind, device)


def write_pac(
    plain: Mapping[str, torch.Tensor],
    factors: Mapping[str, torch.Tensor],
    folder: Path,
    head_width: int,
    quick_gelu: bool,
    tokenizer_files: Sequence[Path],
) -> Alias:
    """Write a checkpoint that the released reader and ours read as the same model.

    What LoRA adds to the MLP is merged into its weights, since readers take these to be so; attention and patches
    stay as they are, since readers add theirs (``read_pac_checkpoint``).

    Args:
        plain: Weights of a CLIP by OpenAI's names, without what LoRA adds.
        factors: LoRA's by the names of PAC-S++, of rank 4; none for a PAC-S.
        folder: Is there; gets the file and the tokenizer's.
        head_width: Width of the vision tower's attention heads.
        quick_gelu: Whether activations are QuickGELU.
        tokenizer_files: Those of a tokenizer of the model's own.

    Returns:
        The alias, as of a file in ``folder``.

    Raises:
        AdapterError: Weights or factors are not those of a PAC-S or PAC-S++.
    """
    import torch

    state = {name: value.detach().float().cpu() for name, value in {**plain, **factors}.items()}
    for name in factors:
        if ".mlp." in name and name.endswith("lora_A"):
            up = state[f"{name[:-1]}B"]
            state[weight_of_factor(name)] = state[weight_of_factor(name)] + up @ state[name] * LORA_SCALING
    file = folder / _FILE
    torch.save({"state_dict": {name: value.contiguous() for name, value in state.items()}}, file)
    read_pac_checkpoint(file, head_width)
    for one in tokenizer_files:
        shutil.copyfile(one, folder / one.name)
    return {
        "adapter": "pac",
        "checkpoint": f"./{folder.name}/{_FILE}",
        "lora": bool(factors),
        "quick_gelu": quick_gelu,
        "head_width": head_width,
        **({"tokenizer": f"./{folder.name}"} if tokenizer_files else {}),
    }
