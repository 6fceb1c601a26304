import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from feature_rows import stacked
from PIL import Image
from tiny_clip import TinyClip
from tiny_images import COLOURS, encoded

from capbench.adapters import ImageHandle, adapters
from capbench.errors import AdapterError

_TEXTS = ["a dog", "A photo depicts two men, riding horses.", "word " * 200, "", "A Dog"]


def _open(handles: list[ImageHandle]) -> list[Image.Image]:
    return [Image.open(handle.source) for handle in handles]


def test_clip_has_the_features_of_open_clip(tiny_clip: TinyClip, photographs: list[ImageHandle]):
    texts = [*_TEXTS, "naïve caf&eacute; &amp; ‘quoted’"]
    ours = adapters["hf_clip"](pretrained=str(tiny_clip.hf_folder), batch_size=5)
    theirs = adapters["open_clip"](pretrained=str(tiny_clip.open_clip_folder))
    assert ours.context_length == 77
    assert ours.token_ids(texts) == theirs.token_ids(texts)
    assert abs(stacked(ours.images(photographs)) - stacked(theirs.images(photographs))).max() < 1e-5
    assert abs(stacked(ours.texts(texts)) - stacked(theirs.texts(texts))).max() < 1e-5
    tokens = [
        {position: rows for batch in encoder.tokens(texts) for position, rows in batch.vectors.items()}
        for encoder in (ours, theirs)
    ]
    for position in range(len(texts)):
        assert abs(tokens[0][position] - tokens[1][position]).max() < 1e-5


def test_clip_as_transformers_prepares_it(tiny_clip: TinyClip, photographs: list[ImageHandle]):
    from transformers import AutoProcessor, CLIPModel

    encoder = adapters["hf_clip"](pretrained=str(tiny_clip.hf_folder), preprocess="transformers")
    model = CLIPModel.from_pretrained(tiny_clip.hf_folder).eval()
    processor = AutoProcessor.from_pretrained(tiny_clip.hf_folder)
    with torch.no_grad():
        inputs = processor(text=_TEXTS, images=_open(photographs), padding=True, truncation=True, return_tensors="pt")
        images = model.get_image_features(inputs["pixel_values"]).pooler_output.numpy()
        texts = model.get_text_features(inputs["input_ids"], inputs["attention_mask"]).pooler_output.numpy()
    assert abs(stacked(encoder.images(photographs)) - images).max() < 1e-5
    assert abs(stacked(encoder.texts(_TEXTS)) - texts).max() < 1e-5
    official = adapters["hf_clip"](pretrained=str(tiny_clip.hf_folder))
    # The crop of some begins a pixel later.
    assert abs(stacked(official.images(photographs)) - images).max() > 0.01


@pytest.mark.parametrize("kind", ["tiny_siglip", "tiny_siglip2"])
def test_siglip_has_the_features_of_transformers(kind, photographs, request):
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    folder = request.getfixturevalue(kind)
    encoder = adapters["hf_clip"](pretrained=str(folder), batch_size=5)
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        inputs = AutoImageProcessor.from_pretrained(folder)(_open(photographs), return_tensors="pt")
        images = model.get_image_features(**inputs).pooler_output.numpy()
        ids = tokenizer(_TEXTS, padding="max_length", max_length=64, truncation=True, return_tensors="pt")
        texts = model.get_text_features(ids["input_ids"]).pooler_output.numpy()
    assert encoder.context_length == 64
    assert abs(stacked(encoder.images(photographs)) - images).max() < 1e-5
    assert abs(stacked(encoder.texts(_TEXTS)) - texts).max() < 1e-5
    lengths = [len(ids) for ids in encoder.token_ids(_TEXTS)]
    assert lengths[2] > 900
    assert encoder.token_ids(["a DOG"]) == encoder.token_ids(["a dog"])
    with pytest.raises(AdapterError, match=f"model_type '{model.config.model_type}' has no projected token"):
        list(encoder.tokens(["a dog"]))


def test_align_is_encoded_as_transformers_does(tmp_path: Path, photographs: list[ImageHandle]):
    from transformers import AlignConfig, AlignModel, BertTokenizer, EfficientNetImageProcessor

    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "photo", "men", "two", "word"]
    tokenizer = BertTokenizer(vocab={word: n for n, word in enumerate(words)}, model_max_length=64)
    text = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = AlignModel(
        AlignConfig(
            text_config={**text, "vocab_size": len(words), "max_position_embeddings": 64},
            vision_config={"image_size": 32, "width_coefficient": 0.1, "depth_coefficient": 0.1, "hidden_dim": 32},
            projection_dim=32,
        )
    ).eval()
    processor = EfficientNetImageProcessor(size={"height": 32, "width": 32})
    for part in (model, tokenizer, processor):
        part.save_pretrained(tmp_path)
    encoder = adapters["hf_clip"](pretrained=str(tmp_path))
    with torch.no_grad():
        pixels = processor(_open(photographs[:5]), return_tensors="pt")
        images = model.get_image_features(**pixels).pooler_output.numpy()
        texts = np.stack(
            [
                model.get_text_features(
                    **tokenizer(text, truncation=True, max_length=64, return_tensors="pt")
                ).pooler_output[0]
                for text in _TEXTS
            ]
        )
    assert abs(stacked(encoder.images(photographs[:5])) - images).max() < 1e-5
    assert abs(stacked(encoder.texts(_TEXTS)) - texts).max() < 1e-5
    grey = ImageHandle(encoded(COLOURS.convert("L"), "PNG"))
    assert stacked(encoder.images([grey])).shape == (1, images.shape[1])


def test_fast_transform_has_nearly_the_same_features(photographs, tiny_clip: TinyClip):
    exact, fast = (
        stacked(adapters["hf_clip"](pretrained=str(tiny_clip.hf_folder), transform=transform).images(photographs))
        for transform in ("exact", "fast")
    )
    norms = np.linalg.norm(exact, axis=1) * np.linalg.norm(fast, axis=1)
    assert ((exact * fast).sum(axis=1) / norms).min() > 0.999


def test_fast_transform_is_refused_where_there_is_none(tiny_siglip2: Path, tiny_clip: TinyClip):
    with pytest.raises(AdapterError, match="transform=fast stands for CLIP's own transform"):
        adapters["hf_clip"](pretrained=str(tiny_siglip2), transform="fast")
    with pytest.raises(AdapterError, match="transform=fast stands for CLIP's own transform"):
        adapters["hf_clip"](pretrained=str(tiny_clip.hf_folder), transform="fast", preprocess="transformers")


@pytest.mark.parametrize(
    ("kind", "dtype", "kept"), [("tiny_clip", "fp16", np.float16), ("tiny_siglip2", "bf16", np.float32)]
)
def test_half_precision_has_nearly_the_same_features(kind, dtype, kept, photographs, request):
    model = request.getfixturevalue(kind)
    folder = str(model.hf_folder if isinstance(model, TinyClip) else model)
    full, half = (adapters["hf_clip"](pretrained=folder, dtype=precision) for precision in ("fp32", dtype))
    for name, inputs in (("images", photographs[:8]), ("texts", _TEXTS)):
        expected, vectors = (stacked(getattr(encoder, name)(inputs)) for encoder in (full, half))
        assert vectors.dtype == kept
        norms = np.linalg.norm(expected, axis=1) * np.linalg.norm(vectors.astype(np.float32), axis=1)
        assert ((expected * vectors).sum(axis=1) / norms).min() > 0.995


def test_fingerprint_tells_weights_and_settings_apart(tiny_clip: TinyClip, tmp_path: Path):
    def fingerprint(folder: Path, **arguments: Any) -> str:
        return json.dumps(adapters["hf_clip"](pretrained=str(folder), **arguments).fingerprint())

    plain = fingerprint(tiny_clip.hf_folder)
    copy = shutil.copytree(tiny_clip.hf_folder, tmp_path / "copy")
    assert fingerprint(copy, batch_size=2) == fingerprint(copy, dtype="released", device="cpu") == plain
    settings = [
        fingerprint(copy, preprocess="transformers"),
        fingerprint(copy, dtype="bf16"),
        fingerprint(copy, transform="fast"),
    ]
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    weights["visual_projection.weight"] *= 2
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    assert len({plain, fingerprint(copy), *settings}) == 5


@pytest.fixture
def changed(tiny_clip: TinyClip, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies the tiny CLIP with other weights or another configuration."""
    from safetensors.torch import load_file, save_file

    def change(weights: Callable[[dict[str, Any]], None] | None = None, **text_config: Any) -> Path:
        folder = shutil.copytree(tiny_clip.hf_folder, tmp_path / "changed")
        if weights is not None:
            state = load_file(folder / "model.safetensors")
            weights(state)
            save_file(state, folder / "model.safetensors", {"format": "pt"})
        config = json.loads((folder / "config.json").read_text())
        config["text_config"] |= text_config
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    return change


def test_weights_that_are_missing_are_not_made_up(changed):
    folder = changed(lambda state: state.pop("text_model.encoder.layers.1.mlp.fc1.weight"))
    with pytest.raises(AdapterError, match=r"layers\.1\.mlp\.fc1\.weight: not in the checkpoint"):
        adapters["hf_clip"](pretrained=str(folder))


def test_layers_that_the_configuration_leaves_out_are_seen(changed):
    with pytest.raises(AdapterError, match=r"text_model\.encoder\.layers\.1\.\S+: not in the architecture; "):
        adapters["hf_clip"](pretrained=str(changed(num_hidden_layers=1)))


def test_weights_of_another_shape_are_refused(changed):
    folder = changed(lambda state: state.update({"visual_projection.weight": torch.zeros(32, 48)}))
    with pytest.raises(AdapterError, match=r"visual_projection\.weight: \[32, 48\] in the checkpoint"):
        adapters["hf_clip"](pretrained=str(folder))


def test_damaged_weights_are_named(changed):
    folder = changed()
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(AdapterError) as caught:
        adapters["hf_clip"](pretrained=str(folder))
    assert caught.value.message.startswith(f"checkpoint {path}: cannot be read: ")
    assert "SHA-256" in caught.value.hint


def test_text_encoder_is_no_dual_encoder(tmp_path: Path):
    from transformers import BertConfig, BertModel

    BertModel(
        BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=9)
    ).save_pretrained(tmp_path)
    with pytest.raises(AdapterError, match="BertModel does not encode both images and texts"):
        adapters["hf_clip"](pretrained=str(tmp_path))


def test_model_that_is_not_there_says_what_to_do(tiny_clip: TinyClip, tmp_path: Path):
    with pytest.raises(AdapterError) as caught:
        adapters["hf_clip"](pretrained="nobody/nothing")
    assert caught.value.message.startswith("nobody/nothing: ")
    assert "hf download nobody/nothing" in caught.value.hint
    with pytest.raises(AdapterError, match=r"holds no config\.json"):
        adapters["hf_clip"](pretrained=str(tmp_path))
    with pytest.raises(AdapterError, match="--model open_clip --model_args pretrained="):
        adapters["hf_clip"](pretrained=str(tiny_clip.open_clip_folder))


def test_argument_without_meaning_is_explained(tiny_clip: TinyClip, tiny_siglip: Path):
    with pytest.raises(AdapterError, match="preprocess=mine is not known"):
        adapters["hf_clip"](pretrained=str(tiny_clip.hf_folder), preprocess="mine")
    with pytest.raises(AdapterError, match="transform=faster is not known"):
        adapters["hf_clip"](pretrained=str(tiny_siglip), transform="faster")
    with pytest.raises(AdapterError, match="preprocess=official is for CLIP"):
        adapters["hf_clip"](pretrained=str(tiny_siglip), preprocess="official")
