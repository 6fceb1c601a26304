"""Trains the dual encoder that recipes start from: on whole pictures with true texts, and nothing else.

``python -m capbench.recipes.shapes.plain --output FOLDER``

It has never seen a false text or a crop, so that recipes which bring these have room to show what they do.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .architecture import SMALL, build, normalised
from .arguments import run
from .checkpoint import write_encoder
from .encoder import warm_up, world_tokenizer
from .features import image_features
from .losses import encode_texts, make_probes, true_text_of
from .pool import View, draw_pool, whole
from .together import optimise
from .tokens import token_ids


@dataclass(frozen=True)
class PlainTraining:
    """How the encoder is trained.

    Attributes:
        warm_up: Steps in which the vision tower alone learns what each patch shows.
        steps: Steps after these, in which both towers learn to fit together.
        batch: Pictures a step, each with one text.
        pictures: How many pictures are drawn.
        warm_up_rate: The highest learning rate of the warm-up.
        rate: That of the steps after it.
        seed: Other seeds give other weights.
    """

    warm_up: int = 900
    steps: int = 700
    batch: int = 96
    pictures: int = 8_000
    warm_up_rate: float = 2e-3
    rate: float = 2e-3
    seed: int = 0


def train(settings: PlainTraining, folder: Path) -> None:
    """Train the encoder and write it.

    Args:
        settings: How it is trained.
        folder: Where its files go.
    """
    import torch
    from torch import distributed
    from torch.nn.functional import cross_entropy, normalize

    torch.set_num_threads(1)
    tokenizer = world_tokenizer()
    model = build(len(tokenizer), settings.seed, SMALL)
    probes = make_probes(SMALL)
    rng = np.random.default_rng((settings.seed, 2))
    pictures = draw_pool(range(settings.pictures))

    def views() -> list[View]:
        return [whole(pictures[at]) for at in rng.choice(len(pictures), settings.batch, replace=False)]

    def contrast() -> dict[str, torch.Tensor]:
        seen = views()
        pixels = normalised(torch.from_numpy(np.stack([view.pixels for view in seen])))
        ids = token_ids(tokenizer, [true_text_of(view, rng) for view in seen])
        with torch.autocast("cpu", torch.bfloat16):
            images, texts = image_features(model, pixels)[0], encode_texts(model, ids)
        logits = normalize(images.float(), dim=1) @ normalize(texts.float(), dim=1).T
        logits = logits * model.logit_scale.exp().clamp(max=100)
        own = torch.arange(len(seen))
        return {"contrast": (cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2}

    with tempfile.TemporaryDirectory() as shared:
        distributed.init_process_group("gloo", init_method=f"file://{shared}/store", rank=0, world_size=1)
        warm_up(model, probes, views, settings.warm_up_rate, settings.warm_up)
        optimise([([*model.parameters()], settings.rate)], contrast, settings.steps, "training")
        distributed.destroy_process_group()
    write_encoder(model.state_dict(), tokenizer, folder, SMALL)


if __name__ == "__main__":
    run(
        "Train the encoder of the shapes world that recipes start from.", PlainTraining, train,
        output="the folder that its files go to",
    )  # fmt: skip
