"""Visual contrastive decoding: contrasts the logits for the image with those for a noisy image.

Leng et al.: Mitigating Object Hallucinations in Large Vision-Language Models through Visual Contrastive Decoding,
CVPR 2024.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...errors import AdapterError
from .contract import PLAIN_REMEDY, CaptionSample, Host, Written
from .generating import Generating, generator_of

if TYPE_CHECKING:
    import torch


NOISE_STEPS = 1000
"""Steps of the diffusion from the image to noise."""


@dataclass(frozen=True)
class Contrastive(Generating):
    """Greedy search or sampling from contrasted logits.

    Each sample takes two rows of the batch, one with the image and one with the noisy image; both are given the
    token that is chosen by the contrast of their logits, so each has its own cache and the same text. A penalty
    of ``generate`` (``repetition_penalty``) is applied before the contrast.

    Attributes:
        alpha: Weight of the contrast.
        beta: Tokens less probable than this share of the most probable one are left out.
        noise_step: How far the image is diffused, of ``NOISE_STEPS``.
        seed: Of the noise.
    """

    alpha: float = 1.0
    beta: float = 0.1
    noise_step: int = 500
    seed: int = 0

    @property
    def rows(self) -> int:
        """Sequences that are computed at once for one sample."""
        return 2

    def samples(self, samples: Sequence[CaptionSample]) -> Sequence[CaptionSample]:
        """Return the samples twice: the second half becomes noisy."""
        return [*samples, *samples]

    def write(
        self, host: Host, samples: Sequence[CaptionSample], inputs: Mapping[str, torch.Tensor] | None = None
    ) -> list[Written]:
        """Write captions; see ``Decoder.write``.

        Raises:
            AdapterError: It is not known which pixels are of which image in this model's inputs.
        """
        model_inputs = dict(inputs if inputs is not None else host.inputs(self.samples(samples)))
        noises = [generator_of(self.seed, "noise", sample.id, sample.prompt) for sample in samples]
        model_inputs["pixel_values"] = with_noisy_half(model_inputs, noises, self.noise_step)
        contrast = [lambda input_ids, scores: contrasted(scores, self.alpha, self.beta)]
        return self._generate(host, samples, model_inputs, contrast)


def contrasted(logits: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    """Return contrasted logits ``[2 n, vocabulary]``, those of the first half twice.

    These are ``(1 + alpha) logit(y | v, x) - alpha logit(y | v', x)``, and -inf where
    ``p(y | v, x) < beta max p(. | v, x)`` (section 3.2 of the paper).

    Args:
        logits: ``[2 n, vocabulary]``, of the images and then of the noisy images.
        alpha: Weight of the contrast.
        beta: Least share of the highest probability.
    """
    clean, noisy = logits.chunk(2)
    least = clean.amax(-1, keepdim=True) + math.log(beta) if beta > 0 else clean.new_tensor(-float("inf"))
    contrast = ((1 + alpha) * clean - alpha * noisy).masked_fill(clean < least, -float("inf"))
    return contrast.repeat(2, 1)


def kept_share(step: int) -> float:
    """Return the share of an image's variance that is left after ``step`` steps of diffusion.

    The variance of the noise that a step adds rises along a sigmoid from 1e-5 to 5e-3, as in the released code.
    """
    rise = 1 / (1 + np.exp(-np.linspace(-6, 6, NOISE_STEPS)))
    betas = rise * (0.5e-2 - 1e-5) + 1e-5
    return float(np.prod(1 - betas[: step + 1]))


def with_noisy_half(
    inputs: Mapping[str, torch.Tensor], noises: Sequence[np.random.Generator], step: int
) -> torch.Tensor:
    """Return the pixels of a batch with its second half diffused (section 3.2 of the paper).

    Args:
        inputs: A model's inputs for samples that are there twice.
        noises: Where the noise of each sample comes from.
        step: How far the images are diffused.

    Raises:
        AdapterError: It is not known which pixels are of which image, or they are of videos.
    """
    import torch

    pixels = inputs.get("pixel_values")
    if pixels is None:
        raise AdapterError("decoding=vcd takes images, not videos.", PLAIN_REMEDY)
    half = len(pixels) // 2
    if pixels.ndim in (4, 5) and len(pixels) == 2 * len(noises):
        sizes = [1] * half
    elif pixels.ndim == 2 and "image_grid_thw" in inputs:
        sizes = inputs["image_grid_thw"][: len(noises)].prod(-1).tolist()
    else:
        raise AdapterError(f"decoding=vcd does not support pixel values of shape {list(pixels.shape)}.", PLAIN_REMEDY)
    share = kept_share(step)
    parts = pixels[half:].split(sizes)
    noisy = []
    for part, noise in zip(parts, noises, strict=True):
        drawn = noise.standard_normal(tuple(part.shape), dtype=np.float32)
        drawn = torch.from_numpy(drawn).to(part.device, part.dtype)
        diffused = math.sqrt(share) * part + math.sqrt(1 - share) * drawn
        if part.ndim == 5:
            # Tiles of zeros fill up images that have fewer; the model tells them by that.
            diffused = diffused * (part != 0).flatten(2).any(-1)[..., None, None, None]
        noisy.append(diffused)
    return torch.cat([pixels[:half], *noisy])
