"""Trains the start encoder of recipes, on whole pictures with true texts only.

``python -m capbench.recipes.shapes.world.plain --output FOLDER``

It has seen no false text and no crop, so that recipes with these can improve it.
"""

from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import normalize

from .clip import SMALL, build, image_features, normalised, token_ids, write_encoder
from .encoder import warm_up_tower, world_tokenizer
from .losses import contrast, encode_texts, make_probes, true_text_of
from .pool import View, draw_pool, whole
from .together import optimise, run


def train(
    output: Path,
    *,
    warm_up: int = 900,
    steps: int = 700,
    batch: int = 96,
    pictures: int = 8_000,
    warm_up_rate: float = 2e-3,
    rate: float = 2e-3,
    seed: int = 0,
) -> None:
    """Train the start encoder of recipes in the shapes world.

    Args:
        output: The output folder.
        warm_up: Warm-up steps, in which the vision tower learns the content of each patch.
        steps: Steps after the warm-up, which train both towers.
        batch: Pictures per step, each with one text.
        pictures: Number of pictures.
        warm_up_rate: The highest learning rate of the warm-up.
        rate: The highest learning rate after the warm-up.
        seed: The random seed.
    """
    torch.set_num_threads(1)
    tokenizer = world_tokenizer()
    model = build(len(tokenizer), seed, SMALL)
    probes = make_probes(SMALL)
    rng = np.random.default_rng((seed, 2))
    pool = draw_pool(range(pictures))

    def views() -> list[View]:
        return [whole(pool[at]) for at in rng.choice(len(pool), batch, replace=False)]

    def loss() -> dict[str, torch.Tensor]:
        seen = views()
        pixels = normalised([view.pixels for view in seen])
        ids = token_ids(tokenizer, [true_text_of(view, rng) for view in seen])
        with torch.autocast("cpu", torch.bfloat16):
            images, texts = image_features(model, pixels)[0], encode_texts(model, ids)
        return contrast(model, normalize(images.float(), dim=1), normalize(texts.float(), dim=1))

    warm_up_tower(model, probes, [views], warm_up_rate, warm_up)
    optimise([([*model.parameters()], rate)], [loss], steps)
    write_encoder(model.state_dict(), tokenizer, output, SMALL)


if __name__ == "__main__":
    run(train)
