"""Tunes the dual encoder of the shapes world as PAC-S++ tunes CLIP: with LoRA, on more true captions and pictures.

``python -m capbench.recipes.shapes.world.pac --encoder FOLDER --output FILE``

Source: Sarto et al. 2024, "Positive-Augmented Contrastive Learning for Vision-and-Language Evaluation and Training".
There the additional positives are generated pictures and captions. Here they are another drawing of the scene, with
other noise and another background surface, and another true text.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from open_clip import CLIP
from safetensors.torch import load_file
from torch.nn.functional import normalize, softplus
from transformers import CLIPTokenizer

from ....adapters.encoders.pac import LORA_ALPHA, lora_shapes
from ....tasks.shapes.describing import detailed_reference, short_references
from ....tasks.shapes.drawing import pixels
from ....tasks.shapes.sampling import SPLITS, sample_scene
from ...training.pac_lora import add_factors
from .clip import architecture, image_features, normalised, token_ids
from .losses import encode_texts
from .pool import as_seen
from .texts import facts_of_text, facts_of_things, false_text
from .together import optimise, run

_RANK = 4
_REDRAWN, _REWORDED = 0.05, 0.1
"""Weights of the pairs with a redrawn picture and with another text: λv and λt of PAC-S (Sarto et al., CVPR 2023, as
in Table 7 of PAC-S++). PAC-S++ uses 0.1 and 0.001 (section 5.1)."""


def tune(encoder: Path, output: Path, *, steps: int = 25, batch: int = 32, rate: float = 1e-3, seed: int = 0) -> None:
    """Tune the dual encoder of the shapes world, and write it in the format of PAC-S++ checkpoints.

    Args:
        encoder: The folder of the encoder.
        output: The output file.
        steps: Optimiser steps.
        batch: Pictures per step.
        rate: The highest learning rate.
        seed: The random seed.
    """
    torch.set_num_threads(1)
    tokenizer = CLIPTokenizer.from_pretrained(encoder)
    plain = {name: value.float() for name, value in load_file(encoder / "open_clip_model.safetensors").items()}
    added = lora_weights(plain, seed)
    model = CLIP(**architecture(len(tokenizer)))
    model.load_state_dict(plain)
    model.requires_grad_(False)
    # Not to the MLP, as in the released code.
    trained = {name: factor for name, factor in added.items() if ".mlp." not in name}
    add_factors(model, trained, LORA_ALPHA / _RANK)
    rng = np.random.default_rng((seed, 1))
    optimise(
        [(list(trained.values()), rate)],
        [lambda: {"loss": _loss(model, tokenizer, rng, batch)}],
        steps,
        tunes=True,
        clip=False,
    )
    state = {name: value.detach().half() for name, value in (plain | added).items()}
    output.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"state_dict": state}, output)


def lora_weights(plain: Mapping[str, torch.Tensor], seed: int) -> dict[str, torch.nn.Parameter]:
    """Return LoRA weights of rank 4 by the names of PAC-S++, in its layers; their product is 0."""
    generator = torch.Generator().manual_seed(seed)
    shapes = lora_shapes({name: tuple(value.shape) for name, value in plain.items()}, _RANK)
    return {
        name: torch.nn.Parameter(
            torch.randn(shape, generator=generator) / shape[1] ** 0.5 if name.endswith("lora_A") else torch.zeros(shape)
        )
        for name, shape in shapes.items()
    }


def _loss(model: CLIP, tokenizer: CLIPTokenizer, rng: np.random.Generator, batch: int) -> torch.Tensor:
    """Return the contrastive loss of pictures and texts, and of each with the other's additional positives."""
    train = SPLITS["train"]
    scenes = [sample_scene(train[int(rng.integers(len(train)))]) for _ in range(batch)]
    first = [pixels(scene) for scene in scenes]
    # The seed determines only the surface and the noise of a picture.
    again = [pixels(replace(scene, seed=train[int(rng.integers(len(train)))])) for scene in scenes]
    texts = [str(rng.choice(short_references(scene))) for scene in scenes]
    texts += [detailed_reference(scene) for scene in scenes]
    wrong = [false_text(text, scene.things, rng) for text, scene in zip(texts[:batch], scenes, strict=True)]
    said = torch.from_numpy(np.stack([facts_of_text(text) for text in [*texts, *wrong]])).float()
    facts = torch.from_numpy(np.stack([facts_of_things(scene.things, scene.background) for scene in scenes])).float()
    holds = said @ (1 - facts).T == 0
    images = normalize(image_features(model, normalised([as_seen(picture) for picture in (*first, *again)]))[0], dim=1)
    words = normalize(encode_texts(model, token_ids(tokenizer, [*texts, *wrong])), dim=1)
    scale = model.logit_scale.exp()
    logits, other = scale * words @ images[:batch].T, scale * words @ images[batch:].T
    return (
        _contrast(logits, holds, 0, batch)
        + _REWORDED * _contrast(logits, holds, batch, batch)
        + _REDRAWN * _contrast(other, holds, 0, batch)
    )


def _contrast(logits: torch.Tensor, holds: torch.Tensor, start: int, batch: int) -> torch.Tensor:
    """Return the mean loss of both directions, with the true texts from ``start`` on."""
    true = logits[start : start + batch].diagonal()
    # A text that is also true of another picture is not a negative of it.
    false = logits.masked_fill(holds, -math.inf)
    other = torch.cat([false[start : start + batch], false[2 * batch :]])
    return (softplus(other.logsumexp(0) - true) + softplus(false[start : start + batch].logsumexp(1) - true)).mean()


if __name__ == "__main__":
    run(tune)
