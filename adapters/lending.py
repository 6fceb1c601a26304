"""What a model lends to be trained: its module, what makes its inputs, and how it is written again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .pixels.transforms import ImageTransform

if TYPE_CHECKING:
    import torch
    from PIL import Image

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
class Writing:
    """How captions are written that a training looks at.

    Attributes:
        each: Captions of an image.
        sampled: Whether tokens are drawn from what the model thinks of them; else it is beam search, and greedy search
            where ``each`` is 1.
        tokens: The most that a caption may have, the end token counted.
    """

    each: int
    sampled: bool
    tokens: int


@dataclass(frozen=True)
class LentCaptioner(Lent):
    """A captioner in the hands of who trains it.

    Attributes:
        inputs: Makes the model's inputs of images and the instruction that all are asked with.
        grids: Returns the same inputs with what the tower sees in place of pixels, a row an image; without gradients.
            None where the model takes no such inputs.
        tower: What makes these.
        write_captions: Returns tokens for inputs of ``b`` images, ``b * each`` lists, image by image; the end token
            is there where the caption ended. Random numbers are torch's own. No gradients.
        log_probs: Returns ``[n, t]`` float32 the logarithms of the probabilities of given tokens, with gradients, for
            inputs of ``b`` images and ``n`` lists of tokens, ``n / b`` an image; 0 after the end of a list.
        texts: Returns tokens as texts, special ones left out.
        tokens: Returns texts as tokens that answer the instruction, the end token at the end.
        positions: The most tokens that an answer may have, the end token counted: beyond them the model has no
            positions. None where the answer goes on from the instruction, or positions have no end.
    """

    inputs: Callable[[Sequence[Image.Image], str], dict[str, torch.Tensor]]
    grids: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]] | None
    tower: torch.nn.Module | None
    write_captions: Callable[[Mapping[str, torch.Tensor], Writing], list[list[int]]]
    log_probs: Callable[[Mapping[str, torch.Tensor], Sequence[Sequence[int]]], torch.Tensor]
    texts: Callable[[Sequence[Sequence[int]]], list[str]]
    tokens: Callable[[Sequence[str], str], list[list[int]]]
    positions: int | None = None


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
