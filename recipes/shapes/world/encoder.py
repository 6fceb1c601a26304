"""Trains the dual encoder of the shapes world.

``python -m capbench.recipes.shapes.world.encoder --output FOLDER``
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from open_clip import CLIP
from transformers import CLIPTokenizer

from .clip import build, train_tokenizer, write_encoder
from .losses import LOSSES, dense_loss, losses, make_probes, true_text_of
from .pool import View, draw_pool, view_of
from .together import HALVES, optimise, run

_MERGES = 300
_PROMPTS = ("A photo depicts",) * 200


def train(
    output: Path,
    *,
    warm_up: int = 2400,
    steps: int = 1200,
    batch: int = 128,
    pictures: int = 24_000,
    warm_up_rate: float = 1.5e-3,
    rate: float = 1e-3,
    seed: int = 0,
) -> None:
    """Train the dual encoder of the shapes world.

    Args:
        output: The output folder.
        warm_up: Warm-up steps, in which the vision tower learns the content of each patch.
        steps: Steps after the warm-up, which train both towers.
        batch: Views per step.
        pictures: Number of pictures.
        warm_up_rate: The highest learning rate of the warm-up.
        rate: The highest learning rate after the warm-up.
        seed: The random seed.
    """
    tokenizer = world_tokenizer()
    model, probes = build(len(tokenizer), seed), make_probes()

    def half(number: int) -> tuple[Callable[[], list[View]], Callable[[], dict[str, torch.Tensor]]]:
        """Return the views and the losses of one half of a batch."""
        rng = np.random.default_rng((seed, number))
        pool = draw_pool(range(pictures)[number::HALVES])

        def views() -> list[View]:
            return [view_of(pool[at], rng) for at in rng.integers(len(pool), size=batch // HALVES)]

        return views, lambda: losses(model, probes, views(), tokenizer, rng)

    views_of, losses_of = zip(*map(half, range(HALVES)), strict=True)
    warm_up_tower(model, probes, views_of, warm_up_rate, warm_up)
    optimise([([*model.parameters(), *probes.parameters()], rate)], losses_of, steps, LOSSES)
    write_encoder(model.state_dict(), tokenizer, output)


def warm_up_tower(
    model: CLIP, probes: torch.nn.ModuleDict, views_of: Sequence[Callable[[], Sequence[View]]], rate: float, steps: int
) -> None:
    """Train the vision tower to predict the content of each patch.

    Args:
        model: The encoder.
        probes: See ``make_probes``.
        views_of: Each returns the views of its part of a batch.
        rate: The highest learning rate.
        steps: Number of steps.
    """
    vision = [*model.visual.parameters(), *probes["patches"].parameters()]
    dense = [lambda views=views: {"dense": dense_loss(model, probes, views())} for views in views_of]
    optimise([(vision, rate)], dense, steps)


def world_tokenizer() -> CLIPTokenizer:
    """Return the tokenizer, trained on texts of the training split."""
    rng = np.random.default_rng(0)
    views = [view_of(picture, rng) for picture in draw_pool(range(1000))]
    texts = [true_text_of(view, rng) for view in views for _ in range(4)]
    return train_tokenizer([*texts, *_PROMPTS], _MERGES)


if __name__ == "__main__":
    run(train)
