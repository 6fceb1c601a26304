"""Weights of tiny dual encoders, and pictures, drawn the same on every machine: code is compared without a release."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

IMAGE_SIZE = 32
EMBED_DIM = 32
ARCHITECTURE: dict[str, Any] = {
    "embed_dim": EMBED_DIM,
    "quick_gelu": True,
    "vision_cfg": {"image_size": IMAGE_SIZE, "layers": 3, "width": 64, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 1, "layers": 2},
}
"""A CLIP with QuickGELU, in open_clip's spelling. Towers of width 64 have one head in every library."""


RANK = 4


def tiny_state_dict(seed: int = 0) -> dict[str, Any]:
    """Return the weights of a tiny CLIP by OpenAI's names; float32, exact in half precision.

    Weights are large, so that different inputs have clearly different features.
    """
    import torch
    from open_clip import CLIP

    generator = torch.Generator().manual_seed(seed)
    state: dict[str, torch.Tensor] = {}
    for name, value in CLIP(**ARCHITECTURE).state_dict().items():
        if "ln_" in name:
            value = torch.full_like(value, float(name.endswith("weight")))
            value += 0.1 * torch.randn(value.shape, generator=generator)
        elif name == "logit_scale":
            value = torch.tensor(4.6)
        elif value.is_floating_point() and name != "attn_mask":
            fan_in = value[0].numel() if "conv1" in name else value.shape[-1]
            scale = 0.5 if "embedding" in name else 0.1 if name.endswith("bias") else 2.0 / fan_in**0.5
            value = scale * torch.randn(value.shape, generator=generator)
        state[name] = value.half().float()
    return state


def tiny_lora_state_dict(seed: int = 0) -> dict[str, Any]:
    """Return the tiny CLIP's weights with LoRA in every layer where PAC-S++ has it, none of it zero."""
    return with_lora({name: value for name, value in tiny_state_dict(seed).items() if name != "attn_mask"}, seed)


def with_lora(state: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """Return weights of a CLIP and LoRA weights.

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


def weights_digest(state: dict[str, Any]) -> str:
    """Return the sha256 of a state dict's names and numbers."""
    digest = hashlib.sha256()
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def save_checkpoint(state: dict[str, Any], file: Path) -> Path:
    """Write a state dict where released checkpoints have it.

    Returns:
        The file.
    """
    import torch

    torch.save({"state_dict": state}, file)
    return file


def draw_pictures(folder: Path) -> dict[str, Path]:
    """Write PNG files of several sizes and pixel formats.

    Returns:
        Name to file: ``wide``, ``tall``, ``exact`` (32 by 32), ``odd`` (333 by 217), ``grey``, ``palette`` and
        ``alpha``.
    """
    from PIL import Image

    random = np.random.default_rng(20210418)
    drawn = {
        "wide": Image.fromarray(_scene(random, 64, 200)),
        "tall": Image.fromarray(_scene(random, 240, 50)),
        "exact": Image.fromarray(_scene(random, 32, 32)),
        "odd": Image.fromarray(_scene(random, 217, 333)),
        "grey": Image.fromarray(_scene(random, 90, 70)[:, :, 0]),
        "palette": Image.fromarray(_scene(random, 80, 120)[:, :, 1] // 16),
        "alpha": Image.fromarray(np.dstack([_scene(random, 60, 60), _scene(random, 60, 60)[:, :, :1]])),
    }
    drawn["palette"].putpalette(random.integers(0, 256, 48, dtype=np.uint8).tobytes())
    files = {name: folder / f"{name}.png" for name in drawn}
    for name, picture in drawn.items():
        picture.save(files[name])
    return files


def _scene(random: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Return ``[height, width, 3]`` uint8: blocks of colour, a slope and noise."""
    blocks = random.integers(0, 160, (6, 6, 3))
    rows = np.arange(height) * 6 // height
    columns = np.arange(width) * 6 // width
    slope = 60 * np.arange(width)[None, :, None] // width
    noise = random.integers(0, 36, (height, width, 3))
    return (blocks[rows][:, columns] + slope + noise).astype(np.uint8)
