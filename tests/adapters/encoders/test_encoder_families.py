"""One alias a family of dual encoders, each with a tiny model of its own kind: as its own library encodes."""

from functools import partial
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from feature_rows import stacked
from tiny_families import ENCODERS, make_encoder, make_metaclip2
from tiny_images import noise_image, noise_png

from capbench.adapters import ImageHandle
from capbench.adapters.encoders.hf_clip import HfClipEncoder
from capbench.adapters.encoders.open_clip import OpenClipEncoder

pytestmark = pytest.mark.costly

TEXTS = ["A brown dog.", "two children play with a red ball on the wide beach while the sun shines"]


def assert_equal(encoder: Any, images: torch.Tensor, texts: torch.Tensor) -> None:
    """Assert that an encoder's features are those of the images and texts of this file, and tell inputs apart."""
    ours = stacked(encoder.images([ImageHandle(noise_png(n)) for n in range(3)])), stacked(encoder.texts(TEXTS))
    for mine, theirs in zip(ours, (images.numpy(), texts.numpy()), strict=True):
        assert np.ptp(theirs, axis=0).max() > 1e-2 * abs(theirs).max()
        assert abs(mine - theirs).max() < 1e-5 * abs(theirs).max()


@pytest.mark.parametrize("alias", ENCODERS)
def test_family_encodes_as_open_clip_does(alias: str, made_once):
    folder = made_once(f"family_{alias}", partial(make_encoder, alias))
    encoder = OpenClipEncoder(str(folder), device="cpu")
    model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    with torch.no_grad():
        images = model.eval().encode_image(torch.stack([transform(noise_image(n)) for n in range(3)]))
        texts = model.encode_text(open_clip.get_tokenizer(f"local-dir:{folder}")(TEXTS))
    assert_equal(encoder, images, texts)


def test_metaclip_2_encodes_as_transformers_does(tmp_path):
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    folder = make_metaclip2(tmp_path / "model")
    encoder = HfClipEncoder(str(folder), device="cpu")
    model = AutoModel.from_pretrained(folder).eval()
    pixels = AutoImageProcessor.from_pretrained(folder)([noise_image(n) for n in range(3)], return_tensors="pt")
    with torch.no_grad():
        images = model.get_image_features(**pixels).pooler_output
        asked = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
        texts = model.get_text_features(asked["input_ids"], asked["attention_mask"]).pooler_output
    assert_equal(encoder, images, texts)
