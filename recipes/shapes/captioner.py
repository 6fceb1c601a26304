"""Trains the captioner of the shapes world, a LLaVA on the vision tower of the dual encoder.

``python -m capbench.recipes.shapes.captioner --encoder FOLDER --output FOLDER``

First the tower and the projector learn what each patch shows and when that is told; then all learns to write.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...tasks.shapes.sampling import SPLITS, sample_scene
from .arguments import run
from .captioner_checkpoint import make_captioner, make_processor, write_captioner
from .captioner_losses import Drawn, losses, make_probes, patches_loss
from .instructions import MIX, described
from .together import optimise

if TYPE_CHECKING:
    import torch
    from transformers import LlavaProcessor

_MIXED = 0.2
"""Share of the steps, the last ones, that have all instructions."""
_TOLD = 2000
"""Scenes whose texts make the tokenizer."""


@dataclass(frozen=True)
class Settings:
    """How the captioner is trained.

    Attributes:
        warm_up: Steps in which the tower and the projector learn what each patch shows.
        warm_up_batch: Pictures in each of them, of all processes together.
        steps: Steps after these, in which all learns to write.
        batch: Pictures in each of them.
        pictures: How many pictures are drawn.
        warm_up_rate: The highest learning rate of the warm-up.
        rate: That of the steps after it.
        tower_rate: That of the tower in these.
        seed: Other seeds give other weights.
        processes: How many train together; two with a thread each are faster than one with two threads.
    """

    warm_up: int = 250
    warm_up_batch: int = 128
    steps: int = 2700
    batch: int = 32
    pictures: int = 30_000
    warm_up_rate: float = 1.5e-3
    rate: float = 2e-3
    tower_rate: float = 1e-3
    seed: int = 0
    processes: int = 2


def train(settings: Settings, encoder: Path, folder: Path) -> None:
    """Train the captioner and write it.

    Args:
        settings: How it is trained.
        encoder: Folder of the dual encoder.
        folder: Where the captioner's files go.
    """
    from torch.multiprocessing.spawn import spawn

    with tempfile.TemporaryDirectory() as shared:
        spawn(_work, (settings, encoder, folder, f"file://{shared}/store"), settings.processes)


def _work(rank: int, settings: Settings, encoder: Path, folder: Path, store: str) -> None:
    """Be one of the processes: each has its own pictures, and all take each step together."""
    import torch
    from torch import distributed
    from transformers import CLIPModel

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=settings.processes)
    rng = np.random.default_rng((settings.seed, rank))
    seeds = SPLITS["train"][: settings.pictures][rank :: settings.processes]
    pictures = [Drawn.of(sample_scene(seed)) for seed in seeds]
    processor = world_processor()
    clip = CLIPModel.from_pretrained(encoder, dtype=torch.float32)
    model = make_captioner(processor, clip.vision_model.config, settings.seed)
    model.model.vision_tower.load_state_dict(clip.vision_model.state_dict())
    # For sequences as short as these the plain product has the faster gradient.
    model.set_attn_implementation({"vision_config": "eager", "text_config": "eager"})
    probes = make_probes(model)

    def chosen(number: int) -> list[Drawn]:
        return [pictures[at] for at in rng.integers(len(pictures), size=number // settings.processes)]

    tower, projector = model.model.vision_tower, model.model.multi_modal_projector
    optimise(
        [(_parameters(tower, projector, probes["patches"]), settings.warm_up_rate)],
        lambda: {"patches": patches_loss(model, probes, chosen(settings.warm_up_batch))},
        settings.warm_up,
        "warm-up",
    )
    # Descriptions first, as they are most of what there is to learn.
    mixes = chain(repeat({described: 1.0}, round((1 - _MIXED) * settings.steps)), repeat(MIX))
    optimise(
        [
            (_parameters(tower), settings.tower_rate),
            (_parameters(projector, model.model.language_model, model.lm_head, probes), settings.rate),
        ],
        lambda: losses(model, processor, probes, chosen(settings.batch), next(mixes), rng),
        settings.steps,
        "training",
    )
    if rank == 0:
        write_captioner(model, processor, folder)
    distributed.destroy_process_group()


def _parameters(*modules: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [one for module in modules for one in module.parameters()]


def world_processor() -> LlavaProcessor:
    """Return the processor, whose tokenizer is made from texts on pictures of the training split."""
    rng = np.random.default_rng(0)
    scenes = [sample_scene(seed) for seed in SPLITS["train"][:_TOLD]]
    texts = [part for scene in scenes for ask in MIX for part in ask(scene, rng)]
    return make_processor([f"USER: \n{text} ASSISTANT: {text}" for text in texts])


def main() -> None:
    """Train the captioner as the arguments say."""
    run(
        "Train the captioner of the shapes world.", Settings, train,
        encoder="the folder of the dual encoder", output="the folder that its files go to",
    )  # fmt: skip


if __name__ == "__main__":
    main()
