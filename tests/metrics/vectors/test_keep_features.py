"""Features that are encoded ahead, so that they can be taken from the store in pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_clip import TinyClip

from capbench.adapters import ImageHandle
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.benchmarks.store.store import Store
from capbench.errors import MetricError
from capbench.metrics import Context
from capbench.metrics.vectors.features import (
    image_features,
    keep_image_features,
    keep_text_features,
    text_features,
)


@pytest.fixture(scope="module")
def encoder(tiny_clip: TinyClip) -> OpenClipEncoder:
    return OpenClipEncoder(str(tiny_clip.checkpoint), str(tiny_clip.architecture), device="cpu")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Image.fromarray(np.arange(64 * 64 * 3, dtype=np.uint8).reshape(64, 64, 3)).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def test_kept_features_are_found_and_not_encoded_again(
    encoder: OpenClipEncoder, picture: Path, tmp_path: Path
):
    images = [ImageHandle(picture), ImageHandle(picture, (0, 0, 40, 40)), ImageHandle(picture)]
    texts = ["a boat", "a dog", "a boat"]
    with Store(tmp_path / "store.sqlite") as store:
        steps: list[tuple[int, int]] = []
        context = Context(store, lambda done, total: steps.append((done, total)), encoder)
        keep_image_features(images, context)
        keep_text_features(texts, context)
        assert store.computed == 4
        assert (steps[0], steps[-1]) == ((0, 2), (2, 2))
        found = image_features(images, context), text_features(texts, context)
        keep_image_features(images, context)
        assert store.computed == 4
    assert all(features.rows[0] == features.rows[2] != features.rows[1] for features in found)
    alone = image_features(images[1:2], Context(encoder=encoder))
    np.testing.assert_allclose(found[0].of_inputs()[1], alone.of_inputs()[0], atol=1e-5)


def test_what_cannot_be_encoded_is_passed_over_and_named_to_who_asks(
    encoder: OpenClipEncoder, picture: Path, tmp_path: Path
):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    images = [ImageHandle(tmp_path / "gone.png"), ImageHandle(broken), ImageHandle(picture)]
    with Store(tmp_path / "store.sqlite") as store:
        context = Context(store, encoder=encoder)
        keep_image_features(images, context)
        assert store.computed == 1
        assert sorted(image_features(images, context).failures) == [0, 1]


def test_an_encoder_is_needed(picture: Path):
    with pytest.raises(MetricError, match="needs a model that encodes"):
        keep_image_features([ImageHandle(picture)], Context())
