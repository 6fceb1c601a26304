"""The dual encoder's architecture: a CLIP that open_clip, transformers and PAC-S++ all have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from open_clip import CLIP

IMAGE_SIZE = 96
"""Side of the pictures that it sees, in pixels; others are squashed to it."""
PATCH = 12
TEXT_WIDTH = 64
HEAD = 32
"""Width of an attention head."""
CONTEXT = 77
START, END = "<|startoftext|>", "<|endoftext|>"
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
"""OpenAI's, which PAC-S++ files imply."""


@dataclass(frozen=True)
class TowerSizes:
    """What the encoders of the world differ in.

    Attributes:
        width: Of the vision tower.
        layers: Of the vision tower.
        text_layers: Of the text tower.
        dimension: Of the features.
    """

    width: int = 128
    layers: int = 4
    text_layers: int = 3
    dimension: int = 192


LARGE = TowerSizes()
"""Of ``shapes-clip``."""
SMALL = TowerSizes(64, 3, 2, 64)
"""Of ``shapes-clip-plain``."""


def architecture(vocabulary: int, sizes: TowerSizes = LARGE) -> dict[str, Any]:
    """Return the architecture in open_clip's spelling.

    Args:
        vocabulary: Number of tokens.
        sizes: Of the towers.
    """
    return {
        "embed_dim": sizes.dimension,
        "quick_gelu": False,
        "vision_cfg": {
            "image_size": IMAGE_SIZE,
            "layers": sizes.layers,
            "width": sizes.width,
            "head_width": HEAD,
            "patch_size": PATCH,
        },
        "text_cfg": {
            "context_length": CONTEXT,
            "vocab_size": vocabulary,
            "width": TEXT_WIDTH,
            "heads": 1,
            "layers": sizes.text_layers,
        },
    }


def build(vocabulary: int, seed: int, sizes: TowerSizes = LARGE) -> CLIP:
    """Return the model with random weights, as open_clip makes them.

    Args:
        vocabulary: Number of tokens.
        seed: Other seeds give other weights.
        sizes: Of the towers.
    """
    import torch
    from open_clip import CLIP

    torch.manual_seed(seed)
    return CLIP(**architecture(vocabulary, sizes))


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    """Return pictures as the model takes them.

    Args:
        pixels: ``[b, side, side, 3]`` uint8, RGB.

    Returns:
        ``[b, 3, side, side]`` float32.
    """
    import torch

    scale = 1 / (255 * torch.tensor(STD, device=pixels.device))
    shift = torch.tensor(MEAN, device=pixels.device) / torch.tensor(STD, device=pixels.device)
    return (pixels.float() * scale - shift).permute(0, 3, 1, 2)
