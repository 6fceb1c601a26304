from pathlib import Path

import numpy as np
import pytest
import torch
from feature_rows import stacked

from capbench.adapters import ImageHandle, adapters
from capbench.recipes.shapes.world import plain, sighted
from capbench.recipes.shapes.world.clip import (
    HEAD,
    IMAGE_SIZE,
    START,
    build,
    image_features,
    normalised,
    text_features,
    token_ids,
    train_tokenizer,
    write_encoder,
)
from capbench.recipes.shapes.world.encoder import train
from capbench.recipes.shapes.world.pac import tune
from capbench.tasks.shapes.describing import short_references
from capbench.tasks.shapes.drawing import draw
from capbench.tasks.shapes.sampling import sample_scene

pytestmark = pytest.mark.costly

TEXTS = [text for seed in range(20) for text in (*short_references(sample_scene(seed)), "Café 中文字!")]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS, 60)


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoder")
    model = build(len(tokenizer), seed=1)
    torch.nn.init.normal_(model.visual.positional_embedding)
    write_encoder(model.state_dict(), tokenizer, path)
    return path


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[ImageHandle]:
    folder = tmp_path_factory.mktemp("pictures")
    for seed in range(3):
        draw(sample_scene(seed), IMAGE_SIZE).save(folder / f"{seed}.png")
    return [ImageHandle(path) for path in sorted(folder.iterdir())]


def test_tokenizer_knows_every_byte_and_ends_with_its_highest_id(tokenizer):
    text = "Zwölf 中 rêd STARS?"
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == "zwölf 中 rêd stars ?"
    ids = token_ids(tokenizer, [text, "a"])
    end = len(tokenizer) - 1
    assert tokenizer.eos_token_id == tokenizer.pad_token_id == end
    assert (ids[:, 0] == tokenizer.convert_tokens_to_ids(START)).all()
    assert (ids == end).int().argmax(1).tolist() == ids.argmax(1).tolist()
    assert token_ids(tokenizer, ["star " * 200]).shape == (1, 77)


def test_features_in_training_are_those_of_open_clip(tokenizer):
    model = build(len(tokenizer), seed=0).eval()
    pixels = normalised(np.random.default_rng(0).integers(0, 255, (3, IMAGE_SIZE, IMAGE_SIZE, 3), np.uint8))
    ids = token_ids(tokenizer, TEXTS[:4])
    padded = torch.nn.functional.pad(ids, (0, 77 - ids.shape[1]), value=len(tokenizer) - 1)
    with torch.no_grad():
        assert (image_features(model, pixels)[0] - model.encode_image(pixels)).abs().max() < 1e-5
        assert (text_features(model, ids) - model.encode_text(padded)).abs().max() < 1e-5


def test_open_clip_and_transformers_read_one_folder_as_one_model(folder: Path, pictures: list[ImageHandle]):
    ours, theirs = (adapters[name](pretrained=str(folder), device="cpu") for name in ("open_clip", "hf_clip"))
    texts = [*TEXTS[:7], "", "star " * 200]
    assert ours.token_ids(texts) == theirs.token_ids(texts)
    for encoded, other in ((ours.images(pictures), theirs.images(pictures)), (ours.texts(texts), theirs.texts(texts))):
        assert abs(stacked(encoded) - stacked(other)).max() < 1e-5


def test_encoder_is_trained_and_tuned_with_lora(tmp_path: Path, pictures: list[ImageHandle]):
    clip, pac = tmp_path / "clip", tmp_path / "pac.pth"
    train(clip, warm_up=1, steps=1, batch=8, pictures=16)
    tune(clip, pac, steps=2, batch=4)
    untuned = adapters["open_clip"](pretrained=str(clip), device="cpu")
    tuned = adapters["pac"](checkpoint=pac, tokenizer=clip, lora=True, quick_gelu=False, head_width=HEAD, device="cpu")
    change = abs(stacked(untuned.images(pictures)) - stacked(tuned.images(pictures))).max()
    assert 1e-4 < change < 1
    assert 0 < abs(stacked(untuned.texts(TEXTS[:3])) - stacked(tuned.texts(TEXTS[:3]))).max() < 1


@pytest.fixture
def small_vocabulary(tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have encoders trained with a vocabulary that takes no pictures to make; the world's own is made once, above."""
    for module in (plain, sighted):
        monkeypatch.setattr(module, "world_tokenizer", lambda: tokenizer)


@pytest.mark.usefixtures("small_vocabulary")
def test_plain_encoder_is_trained_and_both_libraries_read_it(tmp_path: Path, pictures: list[ImageHandle]):
    plain.train(tmp_path / "plain", warm_up=1, steps=1, batch=4, pictures=6)
    ours, theirs = (
        adapters[name](pretrained=str(tmp_path / "plain"), device="cpu") for name in ("open_clip", "hf_clip")
    )
    images = stacked(ours.images(pictures))
    assert images.shape == (3, 64)
    assert abs(images - stacked(theirs.images(pictures))).max() < 1e-5


@pytest.mark.usefixtures("small_vocabulary")
def test_sighted_encoder_sees_what_another_sees(folder: Path, tmp_path: Path, pictures: list[ImageHandle]):
    sighted.train(folder, tmp_path / "sighted", steps=2, batch=4, pictures=6)
    seeing, plain = (adapters["open_clip"](pretrained=str(at), device="cpu") for at in (tmp_path / "sighted", folder))
    assert abs(stacked(seeing.images(pictures)) - stacked(plain.images(pictures))).max() < 1e-6
    assert stacked(seeing.texts(TEXTS[:3])).shape == (3, 192)
    assert not (tmp_path / "sighted" / "model.safetensors").exists()
