"""Tunes the captioner of the shapes world for yes-or-no questions, with LoRA on the language model.

``python -m capbench.recipes.shapes.world.answers --captioner FOLDER --output FOLDER``
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy
from transformers import LlavaForConditionalGeneration, LlavaProcessor

from ....tasks.shapes.asked import NEGATIVES, SceneQuestion, questions_of
from ....tasks.shapes.sampling import SPLITS, sample_scene
from ....tasks.shapes.scene import SIZES, TEXTURES, Scene
from .captioner import LabelledPicture, conversations, pixels_of
from .losses import mean_cross_entropy
from .together import optimise, run

_TARGETS = r".*language_model\..*_proj|lm_head"
_IGNORED = -100
_KINDS = (2, len(SIZES), len(TEXTURES))
_AFTER_SHAPE = 4
"""Tokens from the shape's word to the end of a question: "in the image?"."""


def tune(
    captioner: Path,
    output: Path,
    *,
    steps: int = 1600,
    batch: int = 32,
    pictures: int = 12_000,
    rate: float = 3e-3,
    rank: int = 8,
    seed: int = 0,
) -> None:
    """Tune the captioner of the shapes world for yes-or-no questions, and write the LoRA in peft's format.

    Args:
        captioner: The folder of the captioner.
        output: The output folder.
        steps: Optimiser steps.
        batch: Pictures per step, each with one question.
        pictures: Number of pictures.
        rate: The highest learning rate.
        rank: Rank of the LoRA.
        seed: The random seed.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = np.random.default_rng((seed, 2))
    processor = LlavaProcessor.from_pretrained(captioner)
    plain = LlavaForConditionalGeneration.from_pretrained(captioner, dtype=torch.float32)
    lora = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=_TARGETS)
    model = get_peft_model(plain, lora)
    pool = [LabelledPicture.of(sample_scene(at)) for at in SPLITS["train"][:pictures]]
    probe = torch.nn.Linear(plain.lm_head.in_features, sum(_KINDS))
    trained = [*(parameter for parameter in model.parameters() if parameter.requires_grad), *probe.parameters()]

    def losses() -> dict[str, torch.Tensor]:
        shown = [pool[at] for at in rng.integers(len(pool), size=batch)]
        return _losses(plain, processor, probe, shown, rng)

    optimise([(trained, rate)], [losses], steps, tunes=True)
    model.half().save_pretrained(str(output))


def _losses(
    model: LlavaForConditionalGeneration,
    processor: LlavaProcessor,
    probe: torch.nn.Linear,
    shown: list[LabelledPicture],
    rng: np.random.Generator,
) -> dict[str, torch.Tensor]:
    """Return the losses of a step.

    Returns:
        ``answers``: the mean cross entropy of the answers' tokens. ``found``: the loss of a
        probe on the last layer's input at the shape's word: whether the thing exists, its size and texture. Without
        it hardly anything is learnt: yes or no is too weak a signal of where to look.
    """
    asked = [_asked(picture.scene, rng) for picture in shown]
    ids, answers = conversations(processor, [(question.text, "Yes" if question.answer else "No") for question in asked])
    labels = torch.tensor([_label(question, picture.scene) for question, picture in zip(asked, shown, strict=True)])
    tokenizer: Any = processor.tokenizer
    ends = (ids == tokenizer.convert_tokens_to_ids("?")).long().argmax(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = model.model(input_ids=ids, pixel_values=pixels_of(shown), output_hidden_states=True)
        said = answers[:, 1:] != _IGNORED
        words = model.lm_head(outputs.last_hidden_state[:, :-1][said]).float()
        states = outputs.hidden_states[-2][torch.arange(len(shown)), ends - _AFTER_SHAPE]
        kinds = probe(states).float()
    return {"answers": cross_entropy(words, answers[:, 1:][said]), "found": mean_cross_entropy(kinds, labels, _KINDS)}


def _label(asked: SceneQuestion, scene: Scene) -> tuple[int, int, int]:
    """Return whether the thing exists, and its size and texture by number."""
    thing = next((thing for thing in scene.things if (thing.colour, thing.shape) == asked.thing), None)
    if thing is None:
        return 0, _IGNORED, _IGNORED
    return 1, SIZES.index(thing.size), TEXTURES.index(thing.texture)


def _asked(scene: Scene, rng: np.random.Generator) -> SceneQuestion:
    """Return one question on a scene."""
    kinds = [NEGATIVES[at] for at in rng.permutation(len(NEGATIVES))]
    return next(questions[0] for kind in kinds if (questions := questions_of(scene, rng, kind, most=1)))


if __name__ == "__main__":
    run(tune)
