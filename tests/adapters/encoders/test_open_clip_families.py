"""Models of open_clip that are built in another way than CLIP."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from tiny_clip import ARCHITECTURE

from capbench.adapters import ImageHandle, adapters
from capbench.errors import AdapterError

_TEXTS = ["a dog", "two men photo word", "a " * 90]
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


@pytest.mark.parametrize("family", [_roberta, _coca, _resnet, _convnext])
def test_features_are_those_of_open_clip(
    family: Callable[[Path], dict[str, Any]], tmp_path: Path, stacked, photographs: list[ImageHandle]
):
    architecture = tmp_path / f"tiny-{family.__name__[1:]}-{tmp_path.name}.json"
    architecture.write_text(json.dumps(family(tmp_path)))
    open_clip.add_model_config(architecture)
    torch.manual_seed(0)
    model, _, transform = open_clip.create_model_and_transforms(architecture.stem, pretrained_text=False)
    model.eval()
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    with torch.no_grad():
        pixels = torch.stack([transform(Image.open(one.source)) for one in photographs[:4]])
        images = model.encode_image(pixels, normalize=False).numpy()
        texts = model.encode_text(open_clip.get_tokenizer(architecture.stem)(_TEXTS), normalize=False).numpy()

    def load(dtype: str) -> Any:
        return adapters["open_clip"](
            pretrained=str(tmp_path / "weights.pt"), architecture=str(architecture), dtype=dtype
        )

    encoder = load("fp32")
    assert abs(stacked(encoder.images(photographs[:4])) - images).max() < 1e-5
    assert abs(stacked(encoder.texts(_TEXTS)) - texts).max() < 1e-5
    assert len(encoder.token_ids(_TEXTS)[2]) == 92
    for dtype in ("fp16", "bf16"):
        half = load(dtype)
        for found, expected in ((stacked(half.images(photographs[:4])), images), (stacked(half.texts(_TEXTS)), texts)):
            norms = np.linalg.norm(expected, axis=1) * np.linalg.norm(found.astype(np.float32), axis=1)
            assert ((expected * found).sum(axis=1) / norms).min() > 0.999
    if family in (_roberta, _coca):
        with pytest.raises(AdapterError, match="has no projected token states"):
            list(encoder.tokens(_TEXTS))


def test_context_of_a_roberta_tower_leaves_out_the_places_before_the_first_token(tmp_path: Path, stacked):
    configuration = _roberta(tmp_path)
    configuration["text_cfg"]["context_length"] = 100
    architecture = tmp_path / f"tiny-long-roberta-{tmp_path.name}.json"
    architecture.write_text(json.dumps(configuration))
    open_clip.add_model_config(architecture)
    torch.manual_seed(0)
    model = open_clip.create_model(architecture.stem, pretrained_text=False).eval()
    torch.save(model.state_dict(), tmp_path / "weights.pt")
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
