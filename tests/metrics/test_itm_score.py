"""ITMScore: the score of the model itself, each pair scored once, and what has none named."""

from typing import Any

import numpy as np
import pytest
from tiny_images import noise_png
from tiny_pairwise import make_tiny_blip

from capbench.adapters import ImageHandle, VideoHandle
from capbench.adapters.encoders.hf_pairs import BlipItm
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.benchmarks.store.store import Store
from capbench.errors import MetricError
from capbench.metrics import Context
from capbench.metrics.golden import golden_items
from capbench.metrics.itm_score import ItmScore
from capbench.metrics.vectors.features import pair_scores


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> BlipItm:
    return BlipItm(str(make_tiny_blip(tmp_path_factory.mktemp("blip"))), max_tokens=12, device="cpu")


@pytest.fixture(scope="module")
def pictures() -> list[ImageHandle]:
    return [ImageHandle(noise_png(number)) for number in range(2)]


def test_value_is_the_score_of_image_and_caption(encoder: BlipItm, pictures: list[ImageHandle]):
    first, second = pictures
    captions = ["a dog", "a long caption of a dog", "a cat"]
    some = golden_items(captions, [()] * 3, images=[first, second, first])
    scores = ItmScore().score(some, Context(encoder=encoder))
    expected = dict(next(encoder.pairs(pictures, [["a dog", "a cat"], ["a long caption of a dog"]])).scores)
    assert scores.values.tolist() == [expected[0][0], expected[1][0], expected[0][1]]
    assert scores.parts["truncated"].tolist() == [0, 1, 0]
    assert not scores.failures


def test_pair_is_scored_once_and_kept(encoder, pictures, tmp_path, monkeypatch):
    asked: list[Any] = []
    pairs = BlipItm.pairs

    def noted(self: BlipItm, images: Any, texts: Any) -> Any:
        asked.append([list(text) for text in texts])
        return pairs(self, images, texts)

    monkeypatch.setattr(BlipItm, "pairs", noted)
    with Store(tmp_path / "store.sqlite") as store:
        context = Context(cache=store, encoder=encoder)
        first = pair_scores([pictures[0], pictures[0], pictures[1]], [["a", "b"], ["b"], ["a"]], context)
        again = pair_scores([pictures[1], pictures[0]], [["a", "c"], ["b", "a"]], context)
    assert asked == [[["a", "b"], ["a"]], [["c"]]]
    assert first.values[1] == first.values[2]
    assert again.values[[0, 2, 3]].tolist() == first.values[[3, 1, 0]].tolist()


def test_what_cannot_be_read_is_named_and_costs_no_other(encoder, pictures, tmp_path):
    files = [ImageHandle(b"no image"), pictures[0], VideoHandle(tmp_path / "a.mp4"), ImageHandle(tmp_path / "gone.png")]
    scores = ItmScore().score(golden_items(["a dog"] * 4, [()] * 4, images=files), Context(encoder=encoder))
    assert np.isfinite(scores.values).tolist() == [False, True, False, False]
    assert scores.failures.keys() == {0, 2, 3}
    assert scores.failures[0].startswith("image: ")
    assert "this is a video" in scores.failures[2]
    assert scores.failures[3] == "image file: No such file or directory"


def test_score_that_is_not_finite_is_no_score(encoder, pictures, monkeypatch):
    monkeypatch.setattr(encoder, "_pair_scores", lambda tokens, ids: tokens[:, 0, 0] * float("nan"))
    scores = ItmScore().score(golden_items(["a dog"], [()], images=pictures[:1]), Context(encoder=encoder))
    assert scores.failures == {0: "image and text: their score is not finite"}


def test_dual_encoder_and_captions_without_images_are_errors(tiny_clip, encoder, pictures):
    clip = OpenClipEncoder(str(tiny_clip.checkpoint), str(tiny_clip.architecture), device="cpu")
    with pytest.raises(MetricError, match=r"scores image-text pairs.*\n.*blip_itm"):
        ItmScore().score(golden_items(["a dog"], [()], images=pictures[:1]), Context(encoder=clip))
    with pytest.raises(MetricError, match="needs images"):
        ItmScore().score(golden_items(["a dog"], [()]), Context(encoder=encoder))
