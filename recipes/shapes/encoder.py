"""Trains the dual encoder of the shapes world.

``python -m capbench.recipes.shapes.encoder --output FOLDER``
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from open_clip import CLIP
from transformers import CLIPTokenizer

from .clip import build, train_tokenizer, write_encoder
from .losses import LOSSES, dense_loss, losses, make_probes, true_text_of
from .pool import View, draw_pool, view_of
from .together import in_processes, optimise, run

_MERGES = 300
_PROMPTS = ("A photo depicts",) * 200


@dataclass(frozen=True)
class EncoderTraining:
    """Settings of the training.

    Attributes:
        warm_up: Warm-up steps, in which the vision tower learns the content of each patch.
        steps: Steps after the warm-up, which train both towers.
        batch: Views per step, over all processes.
        pictures: Number of pictures.
        warm_up_rate: The highest learning rate of the warm-up.
        rate: The highest learning rate after the warm-up.
        seed: The random seed.
        processes: Number of processes. Two with a thread each are faster than one with two threads.
    """

    warm_up: int = 2400
    steps: int = 1200
    batch: int = 128
    pictures: int = 24_000
    warm_up_rate: float = 1.5e-3
    rate: float = 1e-3
    seed: int = 0
    processes: int = 2


def train(settings: EncoderTraining, folder: Path) -> None:
    """Train the encoder and write it.

    Args:
        settings: The settings.
        folder: The output folder.
    """
    in_processes(_work, settings, world_tokenizer(), folder)


def _work(rank: int, settings: EncoderTraining, tokenizer: CLIPTokenizer, folder: Path) -> None:
    """Run one process; each has other pictures, and all synchronise each step."""
    model = build(len(tokenizer), settings.seed)
    probes = make_probes()
    # The same weights, but other pictures.
    rng = np.random.default_rng((settings.seed, rank))
    pictures = draw_pool(range(settings.pictures)[rank :: settings.processes])

    def views() -> list[View]:
        chosen = rng.integers(len(pictures), size=settings.batch // settings.processes)
        return [view_of(pictures[at], rng) for at in chosen]

    warm_up(model, probes, views, settings.warm_up_rate, settings.warm_up)
    optimise(
        [([*model.parameters(), *probes.parameters()], settings.rate)],
        lambda: losses(model, probes, views(), tokenizer, rng),
        settings.steps,
        "training",
        weights=LOSSES,
    )
    if rank == 0:
        write_encoder(model.state_dict(), tokenizer, folder)


def warm_up(
    model: CLIP, probes: torch.nn.ModuleDict, views: Callable[[], Sequence[View]], rate: float, steps: int
) -> None:
    """Train the vision tower to predict the content of each patch.

    Args:
        model: The encoder.
        probes: See ``make_probes``.
        views: Returns the views of a step.
        rate: The highest learning rate.
        steps: Number of steps.
    """
    vision = [*model.visual.parameters(), *probes["patches"].parameters()]
    optimise([(vision, rate)], lambda: {"dense": dense_loss(model, probes, views())}, steps, "warm-up")


def world_tokenizer() -> CLIPTokenizer:
    """Return the tokenizer, trained on texts of the training split."""
    rng = np.random.default_rng(0)
    views = [view_of(picture, rng) for picture in draw_pool(range(1000))]
    texts = [true_text_of(view, rng) for view in views for _ in range(4)]
    return train_tokenizer([*texts, *_PROMPTS], _MERGES)


if __name__ == "__main__":
    run("Train the dual encoder of the shapes world.", EncoderTraining, train, output="output folder")
