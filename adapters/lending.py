"""What a model lends to be trained: its module, what makes its inputs, and how it is written again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .pixels.transforms import ImageTransform

if TYPE_CHECKING:
    import torch

Alias = Mapping[str, Any]
"""The keys of a model's alias; a value that begins with ``./`` is a file or folder beside it."""


@dataclass(frozen=True)
class Lent:
    """A loaded model in the hands of who trains it; in single precision, with every weight frozen.

    Attributes:
        module: All of its weights.
        device: Where it is.
        write: Writes the module into a new folder in the model's own format, and returns the alias of what is there.
    """

    module: torch.nn.Module
    device: torch.device
    write: Callable[[Path], Alias]


@dataclass(frozen=True)
class LentEncoder(Lent):
    """A dual encoder in the hands of who trains it.

    Attributes:
        transform: Makes inputs of images.
        text_inputs: Makes inputs of texts, each cut to the context.
        encode_images: Returns features ``[b, d]`` of inputs of images, with gradients.
        encode_texts: Returns features ``[b, d]`` of inputs of texts, with gradients.
        family: As of ``Encoder.family``.
        head_width: Width of the attention heads of the vision tower; None where the model has no such number.
        quick_gelu: Whether activations are QuickGELU; None where they are others.
        tokenizer_files: Those of a tokenizer of the model's own; none where it is OpenAI's.
    """

    transform: ImageTransform
    text_inputs: Callable[[Sequence[str]], dict[str, torch.Tensor]]
    encode_images: Callable[[dict[str, torch.Tensor]], torch.Tensor]
    encode_texts: Callable[[dict[str, torch.Tensor]], torch.Tensor]
    family: str = "clip"
    head_width: int | None = None
    quick_gelu: bool | None = None
    tokenizer_files: Sequence[Path] = ()
