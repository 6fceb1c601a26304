import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from feature_rows import stacked
from PIL import Image
from tiny_clip import ARCHITECTURE, TinyClip, tiny_state_dict
from tiny_images import COLOURS, encoded

from capbench.adapters import ImageHandle, adapters
from capbench.adapters.aliases import resolve_model
from capbench.errors import AdapterError, BenchError, DataError, UsageError

_TEXTS = [
    "a dog",
    "A photo depicts two men, riding horses &amp; a dog.",
    "naïve caf&eacute; ‘quoted’",
    "word " * 200,
    "",
    "a dog",
]


@pytest.fixture
def load(tiny_clip: TinyClip):
    """Return a function that loads the tiny model from its folder."""

    def load(**arguments: Any) -> Any:
        return adapters["open_clip"](pretrained=str(tiny_clip.open_clip_folder), **arguments)

    return load


@pytest.fixture(scope="module")
def plain(tiny_clip: TinyClip) -> tuple[Any, Any, Any]:
    """Model, transform and tokenizer as a user of open_clip has them."""
    name = f"local-dir:{tiny_clip.open_clip_folder}"
    model, _, transform = open_clip.create_model_and_transforms(name)
    return model.eval(), transform, open_clip.get_tokenizer(name)


def test_features_are_those_of_open_clip(load, plain, photographs: list[ImageHandle]):
    model, transform, tokenizer = plain
    encoder = load(batch_size=7)
    with torch.no_grad():
        images = model.encode_image(torch.stack([transform(Image.open(photo.source)) for photo in photographs]))
        texts = model.encode_text(tokenizer(_TEXTS))
    assert abs(stacked(encoder.images(photographs)) - images.numpy()).max() < 1e-5
    assert abs(stacked(encoder.texts(_TEXTS)) - texts.numpy()).max() < 1e-5


def test_images_of_every_mode_are_made_rgb_where_open_clip_does(load, plain):
    images = [COLOURS.convert(mode) for mode in ("P", "1", "CMYK", "RGBA", "LA", "L")]
    model, transform, _ = plain
    with torch.no_grad():
        expected = model.encode_image(torch.stack([transform(image) for image in images])).numpy()
    vectors = stacked(load().images([ImageHandle(encoded(image, "TIFF")) for image in images]))
    for image, ours, theirs in zip(images, vectors, expected, strict=True):
        assert abs(ours - theirs).max() < 1e-5, image.mode


def test_tokens_are_projected_from_the_start_to_the_end(load, plain):
    model, _, tokenizer = plain
    encoder = load(batch_size=2)
    vectors = {k: v for batch in encoder.tokens(_TEXTS) for k, v in batch.vectors.items()}
    with torch.no_grad():
        ids = tokenizer(_TEXTS)
        states = model.token_embedding(ids) + model.positional_embedding
        states = model.ln_final(model.transformer(states, attn_mask=model.attn_mask)) @ model.text_projection
    lengths = [min(len(ids), 77) for ids in encoder.token_ids(_TEXTS)]
    for n, length in enumerate(lengths):
        assert vectors[n].shape == (length, 32)
        np.testing.assert_allclose(vectors[n], states[n, :length].numpy(), rtol=1e-5, atol=1e-5)


def test_unreadable_images_cost_no_other(load, tmp_path: Path, photographs: list[ImageHandle]):
    path = tmp_path / "empty.jpg"
    path.write_bytes(b"")
    whole = encoded(COLOURS, "PNG")
    images = [
        photographs[0],
        ImageHandle(path),
        ImageHandle(whole, (50, 30, 70, 50)),
        ImageHandle(tmp_path / "missing.jpg"),
        ImageHandle(encoded(Image.new("L", (1, 1)), "PNG")),
    ]
    for transform in ("exact", "fast"):
        encoder = load(batch_size=2, transform=transform)
        batches = list(encoder.images(images))
        assert sorted(p for batch in batches for p in batch.vectors) == [0, 2, 4]
        failures = {p: reason for batch in batches for p, reason in batch.failures.items()}
        assert failures == {
            1: f"{path}: is empty (0 bytes)",
            3: f"{tmp_path / 'missing.jpg'}: No such file or directory",
        }
        remarks = {p: remark for batch in batches for p, remark in batch.remarks.items()}
        assert remarks == {2: "box clipped to the image of 60 x 40 pixels"}


def test_nothing_is_made_of_nothing(load):
    encoder = load()
    assert list(encoder.images([])) == list(encoder.texts([])) == list(encoder.tokens([])) == []


def test_fingerprint_tells_weights_and_settings_apart(tiny_clip: TinyClip, load, tmp_path: Path):
    plain = load().fingerprint()
    json.dumps(plain)
    copy = shutil.copytree(tiny_clip.open_clip_folder, tmp_path / "copy")
    assert adapters["open_clip"](pretrained=str(copy)).fingerprint() == plain
    assert load(batch_size=3, workers=2, name="other").fingerprint() == plain
    from safetensors.torch import save_file

    save_file(tiny_state_dict(seed=1), copy / "open_clip_model.safetensors")
    others = [
        adapters["open_clip"](pretrained=str(copy)).fingerprint(),
        load(dtype="bf16").fingerprint(),
        load(transform="fast").fingerprint(),
        load(quick_gelu=False).fingerprint(),
    ]
    texts = [json.dumps(plain), *map(json.dumps, others)]
    assert len(set(texts)) == len(texts)


def test_tag_of_a_plain_architecture_gets_the_activation_that_it_was_trained_with(tiny_clip, monkeypatch):
    # A tag of open_clip's own table, whose weights lie on this machine.
    plain = {key: value for key, value in ARCHITECTURE.items() if key != "quick_gelu"}
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny-plain", plain)
    entry = {"file": str(tiny_clip.checkpoint), "quick_gelu": True, "mean": (0.4, 0.5, 0.6)}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny-plain", {"trained": entry})
    encoder = adapters["open_clip"](pretrained="trained", architecture="tiny-plain")
    fingerprint = encoder.fingerprint()
    assert (fingerprint["activation"], fingerprint["pretrained"]) == ("QuickGELU", "trained")
    assert fingerprint["image"]["mean"] == (0.4, 0.5, 0.6)
    same = adapters["open_clip"](pretrained=str(tiny_clip.checkpoint), architecture="tiny-plain", quick_gelu=True)
    assert np.array_equal(next(encoder.texts(["a dog"])).vectors[0], next(same.texts(["a dog"])).vectors[0])


def test_openais_tag_of_a_plain_architecture_gives_the_features_of_released_clip(tiny_clip, load, monkeypatch):
    # open_clip builds ViT-B-32 with GELU, and only warns of a tag that was trained with QuickGELU.
    plain = {key: value for key, value in ARCHITECTURE.items() if key != "quick_gelu"}
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "ViT-B-32", plain)
    entry = open_clip.get_pretrained_cfg("ViT-B-32", "openai")
    tags = {"openai": {**{k: v for k, v in entry.items() if k not in ("hf_hub", "url")}, "file": tiny_clip.checkpoint}}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "ViT-B-32", tags)
    encoder = resolve_model("ViT-B-32", "pretrained=openai,device=cpu").load()
    # Those of the folder have the values of released code: tests/metrics/test_clip_s.py.
    released, gelu = load(device="cpu"), load(device="cpu", quick_gelu=False)
    assert np.array_equal(stacked(encoder.texts(_TEXTS)), stacked(released.texts(_TEXTS)))
    assert not np.allclose(stacked(gelu.texts(_TEXTS)), stacked(released.texts(_TEXTS)), atol=1e-3)


def test_random_weights_are_those_of_their_seed_and_never_bear_a_models_name(tiny_clip: TinyClip, tmp_path: Path):
    architecture = str(tiny_clip.architecture)

    def drawn(seed: int, **arguments: Any) -> Any:
        return adapters["open_clip"](pretrained="random", architecture=architecture, seed=seed, **arguments)

    def texts(encoder: Any) -> np.ndarray:
        return stacked(encoder.texts(_TEXTS))

    state = torch.get_rng_state()
    first = drawn(1, name="mine")
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(7)
    assert np.array_equal(texts(drawn(1)), texts(first))
    assert not np.allclose(texts(drawn(2)), texts(first))
    assert first.name == "mine (random weights, seed 1)"
    assert drawn(2).name == f"{architecture} (random weights, seed 2)"
    fingerprint = first.fingerprint()
    assert (fingerprint["checkpoint"], fingerprint["pretrained"]) == ("random, seed 1", "")
    assert drawn(2).fingerprint() != fingerprint == drawn(1).fingerprint()
    # open_clip's own, as it draws them.
    torch.manual_seed(1)
    theirs = open_clip.create_model("tiny-clip", pretrained=None)
    assert torch.equal(first._model.text_projection, theirs.text_projection)
    for seed in (-1, "one"):
        with pytest.raises(AdapterError, match=f"seed={seed} is not a whole number, 0 or above"):
            drawn(seed)
    with pytest.raises(AdapterError, match="are not random"):
        adapters["open_clip"](pretrained=str(tiny_clip.checkpoint), architecture=architecture, seed=1)


def test_text_tower_that_is_not_causal_gets_its_whole_context(tmp_path: Path):
    configuration = json.loads(json.dumps(ARCHITECTURE))
    configuration |= {"custom_text": True, "quick_gelu": False}
    configuration["text_cfg"] |= {"no_causal_mask": True, "pool_type": "last", "context_length": 20}
    architecture = tmp_path / "tiny-bidirectional.json"
    architecture.write_text(json.dumps(configuration))
    torch.manual_seed(0)
    model = open_clip.CustomTextCLIP(
        **{key: value for key, value in configuration.items() if key != "custom_text"}
    ).eval()
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    encoder = adapters["open_clip"](pretrained=str(tmp_path / "weights.pt"), architecture=str(architecture))
    assert encoder.context_length == 20
    with torch.no_grad():
        expected = model.encode_text(open_clip.get_tokenizer("tiny-bidirectional")(_TEXTS)).numpy()
    assert abs(stacked(encoder.texts(_TEXTS)) - expected).max() < 1e-5
    with pytest.raises(AdapterError, match="has no projected token states"):
        list(encoder.tokens(["a dog"]))


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ({"pretrained": "laion2b_s34b_b79k"}, "a tag needs an 'architecture'", "architecture=ViT-B-32"),
        ({"pretrained": "openai", "architecture": "ViT-B32"}, "'ViT-B32'. Did you mean 'ViT-B-32'?", ""),
        ({"pretrained": "laion2b_s34b_b79", "architecture": "ViT-B-32"}, "Did you mean 'laion2b_s34b_b79k'?", "openai"),
        ({"pretrained": "weights/mine.pt", "architecture": "ViT-B-32"}, "checkpoint weights/mine.pt: no such file", ""),
        ({"pretrained": "openai", "architecture": "ViT-B-32", "dtype": "fp8"}, "dtype=fp8 is not known", "bf16"),
        ({"pretrained": "openai", "architecture": "ViT-B-32", "batch_size": 0}, "'batch_size' must be a whole", ""),
        ({"pretrained": "openai", "architecture": "ViT-B-32", "workers": "two"}, "'workers' must be a whole", ""),
        ({"pretrained": "openai", "architecture": "ViT-B-32", "device": "abacus"}, "device=abacus: ", "cuda:1"),
    ],
)  # fmt: skip
def test_argument_without_meaning_is_explained(arguments: dict[str, Any], message: str, hint: str):
    with pytest.raises(BenchError) as caught:
        adapters["open_clip"](**arguments)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pretrained": "laion2b_s34b_b79k", "architecture": "ViT-B-32"}, "open_clip ViT-B-32, laion2b_s34b_b79k: "),
        ({"pretrained": "hf-hub:nobody/nothing"}, "open_clip hf-hub:nobody/nothing: "),
    ],
)  # fmt: skip
def test_model_that_cannot_be_downloaded_says_what_to_do(arguments, message, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(AdapterError) as caught:
        adapters["open_clip"](**arguments)
    assert caught.value.message.startswith(message)
    assert "open_clip_config.json" in caught.value.hint


def test_folder_that_is_not_open_clips_is_explained(tiny_clip: TinyClip, tmp_path: Path):
    with pytest.raises(AdapterError, match="--model hf_clip --model_args pretrained="):
        adapters["open_clip"](pretrained=str(tiny_clip.hf_folder))
    with pytest.raises(AdapterError, match=r"holds no open_clip_config\.json"):
        adapters["open_clip"](pretrained=str(tmp_path))
    with pytest.raises(UsageError, match=r"has its own, in open_clip_config\.json"):
        adapters["open_clip"](pretrained=str(tiny_clip.open_clip_folder), architecture="ViT-B-32")
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": ARCHITECTURE}))
    with pytest.raises(AdapterError, match="holds no checkpoint"):
        adapters["open_clip"](pretrained=str(tmp_path))
    (tmp_path / "open_clip_config.json").write_text("{")
    with pytest.raises(DataError, match=r"open_clip_config\.json: not JSON"):
        adapters["open_clip"](pretrained=str(tmp_path))


def test_architecture_file_may_not_take_the_name_of_another(tiny_clip: TinyClip, tmp_path: Path):
    other = tmp_path / "ViT-B-32.json"
    other.write_text(json.dumps(ARCHITECTURE))
    with pytest.raises(AdapterError, match="open_clip has another 'ViT-B-32'"):
        adapters["open_clip"](pretrained=str(tiny_clip.checkpoint), architecture=str(other))


# Models that are built in another way than CLIP.
_FAMILY_TEXTS = ["a dog", "two men photo word", "a " * 90]
_VISION: dict[str, Any] = ARCHITECTURE["vision_cfg"]
_TEXT: dict[str, Any] = ARCHITECTURE["text_cfg"]


def _roberta(folder: Path) -> dict[str, Any]:
    from transformers import BertTokenizer, RobertaConfig

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "photo", "men", "two", "word"]
    BertTokenizer(vocab={word: n for n, word in enumerate(words)}).save_pretrained(folder)
    RobertaConfig(
        vocab_size=len(words), hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, pad_token_id=0, max_position_embeddings=100, type_vocab_size=1,
    ).save_pretrained(folder)  # fmt: skip
    text = {"hf_model_name": str(folder), "hf_tokenizer_name": str(folder), "context_length": 77}
    return {"embed_dim": 32, "vision_cfg": _VISION, "text_cfg": text}


def _coca(folder: Path) -> dict[str, Any]:
    return {
        "embed_dim": 32,
        "custom_text": True,
        "vision_cfg": {**_VISION, "attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True},
        "text_cfg": {**_TEXT, "context_length": 76, "embed_cls": True, "output_tokens": True},
        "multimodal_cfg": {**_TEXT, "context_length": 76, "layers": 1, "attn_pooler_heads": 2},
    }


def _resnet(folder: Path) -> dict[str, Any]:
    vision = {"image_size": 64, "layers": [1, 1, 1, 1], "width": 16, "patch_size": None}
    return {"embed_dim": 32, "quick_gelu": True, "vision_cfg": vision, "text_cfg": _TEXT}


def _convnext(folder: Path) -> dict[str, Any]:
    vision = {"timm_model_name": "convnext_atto", "timm_pool": "", "timm_proj": "linear", "image_size": 64}
    return {"embed_dim": 32, "vision_cfg": vision, "text_cfg": _TEXT}


def _model(configuration: dict[str, Any], architecture: Path) -> tuple[Any, Any]:
    """Return a model of an architecture that open_clip does not have, and its transform; its weights lie beside it."""
    architecture.write_text(json.dumps(configuration))
    open_clip.add_model_config(architecture)
    torch.manual_seed(0)
    model, _, transform = open_clip.create_model_and_transforms(architecture.stem, pretrained_text=False)
    torch.save(model.eval().state_dict(), architecture.parent / "weights.pt")
    return model, transform


@pytest.mark.parametrize(
    "family", [_roberta, _resnet, *(pytest.param(family, marks=pytest.mark.costly) for family in (_coca, _convnext))]
)
def test_features_of_other_families_are_those_of_open_clip(family, tmp_path, photographs):
    architecture = tmp_path / f"tiny-{family.__name__[1:]}-{tmp_path.name}.json"
    model, transform = _model(family(tmp_path), architecture)
    with torch.no_grad():
        pixels = torch.stack([transform(Image.open(photograph.source)) for photograph in photographs[:4]])
        images = model.encode_image(pixels, normalize=False).numpy()
        texts = model.encode_text(open_clip.get_tokenizer(architecture.stem)(_FAMILY_TEXTS), normalize=False).numpy()

    def load(dtype: str) -> Any:
        return adapters["open_clip"](
            pretrained=str(tmp_path / "weights.pt"), architecture=str(architecture), dtype=dtype
        )

    encoder = load("fp32")
    assert abs(stacked(encoder.images(photographs[:4])) - images).max() < 1e-5
    assert abs(stacked(encoder.texts(_FAMILY_TEXTS)) - texts).max() < 1e-5
    assert len(encoder.token_ids(_FAMILY_TEXTS)[2]) == 92
    half = load("bf16" if family is _convnext else "fp16")
    for ours, theirs in ((stacked(half.images(photographs[:4])), images), (stacked(half.texts(_FAMILY_TEXTS)), texts)):
        norms = np.linalg.norm(theirs, axis=1) * np.linalg.norm(ours.astype(np.float32), axis=1)
        assert ((theirs * ours).sum(axis=1) / norms).min() > 0.999
    if family in (_roberta, _coca):
        with pytest.raises(AdapterError, match="has no projected token states"):
            list(encoder.tokens(_FAMILY_TEXTS))


def test_context_of_a_roberta_tower_leaves_out_the_places_before_the_first_token(tmp_path: Path):
    configuration = _roberta(tmp_path)
    configuration["text_cfg"]["context_length"] = 100
    architecture = tmp_path / f"tiny-long-roberta-{tmp_path.name}.json"
    model, _ = _model(configuration, architecture)
    encoder = adapters["open_clip"](
        pretrained=str(tmp_path / "weights.pt"), architecture=str(architecture), device="cpu"
    )
    # The padding token is number 0, so the first token stands at place 1 of 100.
    assert encoder.context_length == 99
    texts = ["a dog", "a " * 97, "a " * 150]
    with torch.no_grad():
        tokens = open_clip.get_tokenizer(architecture.stem, context_length=99)(texts)
        expected = model.encode_text(tokens, normalize=False).numpy()
    assert abs(stacked(encoder.texts(texts)) - expected).max() < 1e-5
