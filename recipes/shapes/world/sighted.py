"""Trains the start encoder of PAC-S++'s recipe: the vision tower of `shapes-clip`, and a weak text tower.

``python -m capbench.recipes.shapes.world.sighted --encoder FOLDER --output FOLDER``

Its vision tower is that of the given encoder, which distinguishes shapes. Its text tower is new and saw few texts, all
true, most of which call every shape a thing; so additional positives can improve it.
"""

import re
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn.functional import normalize

from ....tasks.shapes.scene import SHAPES
from .clip import build, image_features, normalised, token_ids, write_open_clip
from .encoder import world_tokenizer
from .losses import contrast, encode_texts, true_text_of
from .pool import View, draw_pool, whole
from .together import optimise, run

_PIECE = 200
_A_SHAPE = re.compile(rf"\b({'|'.join(SHAPES)})\b")


def train(
    encoder: Path,
    output: Path,
    *,
    steps: int = 80,
    batch: int = 96,
    pictures: int = 1_000,
    named: float = 0.2,
    rate: float = 2e-3,
    seed: int = 0,
) -> None:
    """Train the start encoder of PAC-S++'s recipe in the shapes world.

    Args:
        encoder: The folder of the encoder with the vision tower.
        output: The output folder.
        steps: Number of steps.
        batch: Pictures per step, each with one text.
        pictures: Number of pictures.
        named: Share of texts that name shapes; the others call every shape a thing.
        rate: The highest learning rate.
        seed: The random seed.
    """
    torch.set_num_threads(1)
    tokenizer = world_tokenizer()
    model = build(len(tokenizer), seed)
    weights = load_file(encoder / "open_clip_model.safetensors")
    model.load_state_dict(
        {name: value.float() for name, value in weights.items() if name.startswith("visual.")}, strict=False
    )
    model.visual.requires_grad_(False)
    rng = np.random.default_rng((seed, 4))
    views = [whole(picture) for picture in draw_pool(range(pictures))]
    pixels = normalised([view.pixels for view in views]).split(_PIECE)
    with torch.no_grad():
        images = normalize(torch.cat([image_features(model, batch)[0] for batch in pixels]), dim=1)

    def loss() -> dict[str, torch.Tensor]:
        chosen = rng.choice(len(views), batch, replace=False)
        ids = token_ids(tokenizer, [few_shapes(views[at], rng, named) for at in chosen])
        with torch.autocast("cpu", torch.bfloat16):
            texts = encode_texts(model, ids)
        return contrast(model, images[torch.from_numpy(chosen)], normalize(texts.float(), dim=1))

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimise([(trained, rate)], [loss], steps)
    write_open_clip(model.state_dict(), tokenizer, output)


def few_shapes(view: View, rng: np.random.Generator, named: float) -> str:
    """Return a true text of a view, in which most often every shape is called a thing.

    Args:
        view: The view.
        rng: Draws the text.
        named: Share of texts that name shapes, 0 to 1.
    """
    text = true_text_of(view, rng)
    return text if rng.random() < named else _A_SHAPE.sub("thing", text)


if __name__ == "__main__":
    run(train)
