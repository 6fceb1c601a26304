"""Trains the dual encoder that PAC-S++'s recipe starts from: it sees what `shapes-clip` sees, and reads little of it.

``python -m capbench.recipes.shapes.sighted --encoder FOLDER --output FOLDER``

Its vision tower is that of the encoder given, which tells shapes. Its text tower is new and saw few texts, all true,
most of which call everything a thing; so further positives have room to show what they do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn.functional import normalize

from ...tasks.shapes.scene import SHAPES
from .clip import build, image_features, normalised, token_ids, write_open_clip
from .encoder import world_tokenizer
from .losses import contrast, encode_texts, true_text_of
from .pool import View, draw_pool, whole
from .together import optimise, run

_PIECE = 200
_A_SHAPE = re.compile(rf"\b({'|'.join(SHAPES)})\b")


@dataclass(frozen=True)
class SightedTraining:
    """How the text tower is trained.

    Attributes:
        steps: How many.
        batch: Pictures a step, each with one text.
        pictures: How many pictures are drawn.
        named: Share of texts that name shapes; the others call everything a thing.
        rate: The highest learning rate.
        seed: Other seeds give other weights.
    """

    steps: int = 80
    batch: int = 96
    pictures: int = 1_000
    named: float = 0.2
    rate: float = 2e-3
    seed: int = 0


def train(settings: SightedTraining, encoder: Path, folder: Path) -> None:
    """Train the text tower and write the encoder.

    Args:
        settings: How it is trained.
        encoder: The folder of the encoder whose vision tower it has.
        folder: Where its files go.
    """
    torch.set_num_threads(1)
    tokenizer = world_tokenizer()
    model = build(len(tokenizer), settings.seed)
    given = load_file(encoder / "open_clip_model.safetensors")
    model.load_state_dict(
        {name: value.float() for name, value in given.items() if name.startswith("visual.")}, strict=False
    )
    model.visual.requires_grad_(False)
    rng = np.random.default_rng((settings.seed, 4))
    views = [whole(one) for one in draw_pool(range(settings.pictures))]
    pixels = normalised([view.pixels for view in views]).split(_PIECE)
    with torch.no_grad():
        images = normalize(torch.cat([image_features(model, one)[0] for one in pixels]), dim=1)

    def loss() -> dict[str, torch.Tensor]:
        chosen = rng.choice(len(views), settings.batch, replace=False)
        ids = token_ids(tokenizer, [few_shapes(views[at], rng, settings.named) for at in chosen])
        with torch.autocast("cpu", torch.bfloat16):
            texts = encode_texts(model, ids)
        return contrast(model, images[torch.from_numpy(chosen)], normalize(texts.float(), dim=1))

    trained = [one for one in model.parameters() if one.requires_grad]
    optimise([(trained, settings.rate)], loss, settings.steps, "training")
    write_open_clip(model.state_dict(), tokenizer, folder)


def few_shapes(view: View, rng: np.random.Generator, named: float) -> str:
    """Return a text that is true of a view, in which more often than not every shape is a thing.

    Args:
        view: The view.
        rng: Decides which text.
        named: How often shapes are named, 0 to 1.
    """
    text = true_text_of(view, rng)
    return text if rng.random() < named else _A_SHAPE.sub("thing", text)


if __name__ == "__main__":
    run(
        "Train the dual encoder of the shapes world that PAC-S++'s recipe starts from.", SightedTraining, train,
        encoder="the folder of the encoder whose vision tower it has", output="the folder that its files go to",
    )  # fmt: skip
