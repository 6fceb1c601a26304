"""Makes tiny PAC-S and PAC-S++ checkpoints in the layout of the released files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiny_clip import tiny_state_dict

RANK = 4


def tiny_lora_state_dict(seed: int = 0) -> dict[str, Any]:
    """Return the tiny CLIP's weights with LoRA in every layer where PAC-S++ has it, none of it zero."""
    return with_lora(
        {name: value for name, value in tiny_state_dict(seed).items() if name != "attn_mask"}, seed
    )


def with_lora(state: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """Return weights of a CLIP with LoRA weights beside them.

    These are about as large as the weights that they are added to, so that it shows where some are left
    out, or added where they should not be.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)

    def low_rank(prefix: str, inputs: int, outputs: int, rank: int = RANK) -> dict[str, torch.Tensor]:
        a = 2.0 * torch.randn((rank, inputs), generator=generator) / inputs**0.5
        b = 0.5 * torch.randn((outputs, rank), generator=generator)
        return {f"{prefix}lora_A": a.half().float(), f"{prefix}lora_B": b.half().float()}

    added: dict[str, torch.Tensor] = {}
    for name, value in state.items():
        layer = name.removesuffix("weight")
        if name.endswith("attn.in_proj_weight"):
            added |= low_rank(f"{name}_", value.shape[1], value.shape[0])
        elif name.endswith(("attn.out_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")):
            added |= low_rank(layer, value.shape[1], value.shape[0])
        elif name == "visual.conv1.weight":
            outputs, inputs, kernel, _ = value.shape
            added |= low_rank(layer, inputs * kernel, outputs * kernel, RANK * kernel)
    return state | added


def save_checkpoint(state: dict[str, Any], file: Path) -> Path:
    """Write a state dict where released checkpoints have it.

    Returns:
        The file.
    """
    import torch

    torch.save({"state_dict": state}, file)
    return file
