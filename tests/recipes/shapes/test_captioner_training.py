"""What the captioner of the shapes world is given, and that training gets somewhere."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
import torch
from transformers import CLIPVisionConfig

from capbench.adapters.captioners.hf import HfCaptioner
from capbench.adapters.decoding.contract import CaptionSample
from capbench.adapters.images.handles import ImageHandle
from capbench.adapters.images.reading import read_image
from capbench.recipes.shapes.captioner import (
    MIX,
    Ask,
    LabelledPicture,
    conversations,
    described,
    losses,
    make_captioner,
    make_probes,
    one_fact,
    pixels_of,
    things_of_tokens,
    warm_up_loss,
    world_processor,
)
from capbench.recipes.shapes.clip import IMAGE_SIZE, PATCH
from capbench.tasks.shapes.pictures import DrawnPicture
from capbench.tasks.shapes.sampling import SPLITS, sample_scene
from capbench.tasks.shapes.scene import SHAPES

pytestmark = pytest.mark.costly

SEED = SPLITS["train"][7]


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> HfCaptioner:
    """A captioner with random weights, as it is loaded from its files."""
    folder = tmp_path_factory.mktemp("captioner")
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=IMAGE_SIZE,
        patch_size=PATCH,
    )
    processor = world_processor()
    make_captioner(processor, vision, seed=0).half().save_pretrained(folder)
    processor.save_pretrained(folder)
    return HfCaptioner(str(folder), device="cpu")


@pytest.mark.parametrize("ask", list(MIX), ids=lambda ask: ask.__name__)
def test_model_is_trained_on_what_the_adapter_gives_it(ask: Ask, adapter: HfCaptioner):
    scene = sample_scene(SEED)
    drawn = LabelledPicture.of(scene)
    instruction, answer = ask(scene, np.random.default_rng(0))
    ids, answers = conversations(adapter.processor, [(instruction, answer)])
    picture = read_image(ImageHandle(DrawnPicture(scene))).image.convert("RGB")
    inputs = adapter.inputs([CaptionSample("1", instruction, picture)])
    length = inputs["input_ids"].shape[1]
    assert ids[0, :length].tolist() == inputs["input_ids"][0].tolist()
    assert (answers[0, :length] == -100).all()
    assert adapter.text(answers[0, length:].tolist()).strip() == answer
    assert answers[0, -1] in adapter.end_ids
    # But for the JPEG, which only what is read has gone through.
    assert (inputs["pixel_values"] - pixels_of([drawn])).abs().mean() < 0.05


def test_every_word_of_a_description_has_the_thing_that_its_sentence_is_on(adapter: HfCaptioner):
    scene = sample_scene(SEED)
    rng = np.random.default_rng(0)
    drawn = LabelledPicture.of(scene)
    asked = [described(scene, rng), one_fact(scene, rng)]
    _, answers = conversations(adapter.processor, asked)
    stop = adapter.processor.tokenizer.convert_tokens_to_ids(".")
    things = things_of_tokens(answers, stop, [drawn, drawn])
    sentences = re.findall(r"[^.]+\.", asked[0][1])
    words = [number for number, sentence in enumerate(sentences) for _ in re.findall(r"\w+|\.", sentence)]
    shapes = [SHAPES.index(scene.things[number].shape) for number in words]
    assert things[0, answers[0] >= 0, 0].tolist() == [*shapes, -100]
    assert (things[1] == -100).all()


def test_training_lowers_all_losses(adapter: HfCaptioner):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = copy.deepcopy(adapter.model).requires_grad_(True)
    probes = make_probes(model)
    pictures = [LabelledPicture.of(sample_scene(seed)) for seed in SPLITS["train"][:8]]
    optimiser = torch.optim.AdamW([*model.parameters(), *probes.parameters()], lr=4e-3)
    history = []
    for _ in range(6):
        history.append(losses(model, adapter.processor, probes, pictures, MIX, rng))
        optimiser.zero_grad()
        sum(history[-1].values(), torch.tensor(0.0)).backward()
        optimiser.step()
    assert history[-1]["words"] < 0.7 * history[0]["words"]
    assert history[-1]["patches"] < 0.9 * history[0]["patches"]
    assert history[-1]["things"] < 0.95 * history[0]["things"]
    assert torch.isclose(warm_up_loss(model, probes, pictures), history[-1]["patches"], rtol=0.3)
