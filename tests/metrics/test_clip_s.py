"""CLIP-S and RefCLIP-S against the released code on tiny weights, and where something is wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from clip_golden import GOLDEN, assert_golden, assert_same_weights, drawn_items, flickr8k_items
from named_features import NamedFeatures
from tiny_clip import ARCHITECTURE, TinyClip, tiny_state_dict
from tiny_images import noise_png

from capbench.adapters import Encoder, ImageHandle, VideoHandle
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.adapters.encoders.pac import PacEncoder
from capbench.errors import MetricError
from capbench.metrics import Context, Items, build_metric
from capbench.metrics.clip_s import ClipS, RefClipS
from capbench.metrics.golden import golden_items
from capbench.metrics.pac_s import PacS


@pytest.fixture(scope="module")
def encoder(tiny_clip: TinyClip) -> Encoder:
    return OpenClipEncoder(pretrained=str(tiny_clip.open_clip_folder), device="cpu", dtype="fp32")


@pytest.fixture
def drawn(tmp_path) -> Items:
    return drawn_items(tmp_path)


def test_the_tiny_weights_are_those_of_the_golden_values():
    assert_same_weights({k: v for k, v in tiny_state_dict().items() if k != "attn_mask"}, "clip")


@pytest.mark.parametrize(("metric", "value"), [(ClipS(), "image"), (RefClipS(), "harmonic_mean")])
def test_drawn_pictures_have_the_values_of_clipscore(metric, value, encoder, drawn):
    scores = metric.score(drawn, Context(encoder=encoder))
    assert_golden(scores, GOLDEN["drawn"]["clip"], value)
    long = [item for item, caption in enumerate(drawn.candidates) if len(caption) > 400]
    assert np.flatnonzero(scores.parts["truncated"]).tolist() == long
    assert len(long) == 2


@pytest.mark.data
@pytest.mark.parametrize(("metric", "value"), [(ClipS(), "image"), (RefClipS(), "harmonic_mean")])
def test_flickr8k_has_the_values_of_clipscore(metric, value, encoder, data_folder):
    scores = metric.score(flickr8k_items(data_folder), Context(encoder=encoder))
    assert_golden(scores, GOLDEN["flickr8k_expert"]["clip"], value)


def test_an_item_without_an_image_or_a_reference_is_named_and_costs_no_other(encoder, drawn, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    images = list(drawn.images)
    images[1] = ImageHandle(tmp_path / "missing.png")
    images[2] = VideoHandle(tmp_path / "film.mp4")
    images[3] = ImageHandle(broken)
    references = list(drawn.references)
    references[4] = ()
    faulty = replace(drawn, images=images, references=references)
    scores = RefClipS().score(faulty, Context(encoder=encoder))
    assert sorted(scores.failures) == [1, 2, 3, 4]
    assert "No such file" in scores.failures[1]
    assert "RefCLIP-S takes images, and this is a video" in scores.failures[2]
    assert "film.mp4" in scores.failures[2]
    assert scores.failures[3].startswith("image")
    assert scores.failures[4] == "item has no reference"
    assert np.isnan(scores.values[1:5]).all()
    kept = [0, *range(5, len(drawn))]
    whole = RefClipS().score(drawn, Context(encoder=encoder))
    np.testing.assert_allclose(scores.values[kept], whole.values[kept], atol=1e-6)
    reference_free = ClipS().score(faulty, Context(encoder=encoder))
    assert sorted(reference_free.failures) == [1, 2, 3]


VECTORS = {
    "any": [2.0, 0.0], "like": [3.0, 4.0], "unlike": [-3.0, 4.0], "same": [7.0, 0.0], "opposite": [-5.0, 0.0],
    "across": [0.0, 1.0], "infinite": [float("inf"), 0.0],
}  # fmt: skip
"""Of the image, and of a few words."""


def table() -> NamedFeatures:
    return NamedFeatures(VECTORS, context_length=8)


def table_items(*rows: tuple[str, tuple[str, ...]]) -> Items:
    return golden_items(*zip(*rows, strict=True), images=[ImageHandle(b"any")] * len(rows))


def test_negative_cosines_are_cut_off_at_0_with_the_image_and_kept_with_references():
    items = table_items(
        ("like", ("opposite", "unlike")),
        ("like", ("opposite",)),
        ("unlike", ("unlike", "opposite")),
        ("like", ("like", "opposite")),
    )
    scores = RefClipS(w=2.5, prompt="").score(items, Context(encoder=table()))
    np.testing.assert_allclose(scores.parts["image"], [1.5, 1.5, 0, 1.5], atol=1e-6)
    np.testing.assert_allclose(scores.parts["references"], [0.28, -0.6, 1, 1], atol=1e-6)
    np.testing.assert_allclose(scores.values, [2 * 1.5 * 0.28 / 1.78, -2.0, 0, 1.2], atol=1e-5)
    assert not scores.failures


@pytest.mark.parametrize("metric", [ClipS(), ClipS(w=1), ClipS(w=4), PacS(), PacS(w=3)])
def test_range_ends_at_w_which_the_value_of_equal_vectors_is(metric: ClipS):
    items = table_items(("same", ()), ("opposite", ()))
    values = type(metric)(metric.w, prompt="").score(items, Context(encoder=table())).values
    np.testing.assert_allclose(values[::-1], metric.range, atol=1e-6)


def test_texts_that_fail_and_terms_without_a_harmonic_mean_are_named():
    items = table_items(
        ("unheard", ("like",)),
        ("like", ("like", "unheard")),
        ("infinite", ("like",)),
        ("across", ("opposite",)),
        ("opposite", ("across",)),
        ("like", ("like",)),
    )
    scores = RefClipS(prompt="").score(items, Context(encoder=table()))
    assert scores.failures == {
        0: "text: cannot be read",
        1: "reference 2: text: cannot be read",
        2: "text: its features are not finite",
        3: "the terms 0 (image) and 0 (references) have no harmonic mean",
        4: "the terms 0 (image) and 0 (references) have no harmonic mean",
    }
    assert np.isnan(scores.values[:5]).all()
    assert scores.values[5] == pytest.approx(1.2)


def test_the_part_that_says_truncated_counts_the_prompt():
    items = table_items(("like", ()), ("unlike " * 7, ()))
    for prompt, truncated in (("", [0, 0]), ("a b ", [0, 1])):
        scores = ClipS(prompt=prompt).score(items, Context(encoder=table()))
        assert scores.parts["truncated"].tolist() == truncated


SENTENCES = {
    "any": [2.0, 0.0], "like.": [3.0, 4.0], "across": [0.0, 1.0], "opposite!": [-5.0, 0.0], "like. across": [1.0, 0.0],
    "v 1.5 is one": [0.0, 2.0],
}  # fmt: skip


def test_sentences_are_scored_one_by_one_and_their_cosines_averaged():
    table = NamedFeatures(SENTENCES)
    items = table_items(
        ("like. across", ("like.  across", "across")),
        ("like.\nacross", ("across\n\nopposite!",)),
        ("v 1.5 is one", ("across",)),
        ("opposite! ...", ("like.",)),
        ("like. unheard", ("like.",)),
    )
    scores = RefClipS(prompt="", sentences=True).score(items, Context(encoder=table))
    # Cosines of sentences: "like." (.6, .8) and "across" (0, 1) with the image (1, 0), and with each other.
    np.testing.assert_allclose(scores.parts["image"], 2.5 * np.array([0.3, 0.3, 0, 0, np.nan]), atol=1e-6)
    np.testing.assert_allclose(
        scores.parts["references"], [max(1 + 1 + 2 * 0.8, 2 * (0.8 + 1)) / 4, (0.8 - 0.6 + 1 + 0) / 4, 1, -0.6, np.nan],
        atol=1e-6,
    )  # fmt: skip
    assert scores.failures == {4: "text: cannot be read"}
    assert scores.parts["truncated"].tolist() == [0, 0, 1, 0, 0]
    whole = ClipS(prompt="").score(items.subset(np.array([0])), Context(encoder=table))
    assert whole.values == pytest.approx(2.5)
    with pytest.raises(ValueError, match="'sentences' must be true or false, not 1"):
        PacS(sentences=1)


@pytest.mark.parametrize(("adapter", "metric"), [("open_clip", ClipS), ("pac", PacS)])
def test_encoder_of_more_than_77_tokens_reads_long_captions_whole(adapter: str, metric, tmp_path):
    text = {**ARCHITECTURE["text_cfg"], "context_length": 248}
    architecture = tmp_path / "tiny-248.json"
    architecture.write_text(json.dumps({**ARCHITECTURE, "text_cfg": text}))
    encoder = OpenClipEncoder("random", str(architecture), device="cpu")
    if adapter == "pac":
        torch.save({"state_dict": encoder.to_trainable().module.state_dict()}, tmp_path / "pac.pth")
        encoder = PacEncoder(str(tmp_path / "pac.pth"), device="cpu", quick_gelu=True)
    image = ImageHandle(noise_png(1))
    captions = ["a dog runs " * 40 + end for end in ("fast", "slow")] + ["a dog " * 200]
    items = golden_items(captions, [()] * 3, images=[image] * 3)
    scores = metric().score(items, Context(encoder=encoder))
    assert encoder.context_length == 248
    assert scores.parts["truncated"].tolist() == [0, 0, 1]
    vectors = [next(encoder.texts([f"A photo depicts {caption}"])).vectors[0] for caption in captions[:2]]
    assert abs(vectors[0] - vectors[1]).max() > 1e-4


def test_many_items_have_the_values_of_few(encoder: Encoder, drawn: Items):
    """Enough pairs that they are not multiplied at once."""
    which = np.resize(np.arange(len(drawn)), 20_000)
    many = replace(drawn.subset(which), ids=[str(n) for n in range(len(which))])
    few = RefClipS().score(drawn, Context(encoder=encoder))
    scores = RefClipS().score(many, Context(encoder=encoder))
    np.testing.assert_array_equal(scores.values, few.values[which])


def test_it_needs_images_and_an_encoder(encoder: Encoder, drawn: Items):
    with pytest.raises(MetricError, match="CLIP-S needs images"):
        ClipS().score(replace(drawn, images=()), Context(encoder=encoder))
    with pytest.raises(MetricError, match="needs a model that encodes"):
        ClipS().score(drawn, Context())


@pytest.mark.parametrize("w", [0, -1, float("nan"), float("inf")])
def test_w_is_a_positive_number(w: float):
    with pytest.raises(ValueError, match="'w' must be a positive number"):
        ClipS(w=w)


def test_settings_are_in_the_fingerprint():
    names = ["clip_s", "refclip_s"]
    built = [
        build_metric(name, settings)
        for name in names
        for settings in ({}, {"w": 2.0}, {"prompt": ""}, {"sentences": True})
    ]
    assert len({str(metric.fingerprint()) for metric in built}) == len(built)
    # Runs that were recorded before there was the setting keep theirs.
    assert "sentences" not in built[0].fingerprint()
