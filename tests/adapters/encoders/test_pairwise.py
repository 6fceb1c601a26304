"""BLIP's and FLAVA's match heads: the scores of transformers' own forward, and what moves them."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_images import smooth_pictures
from tiny_pairwise import make_tiny_blip, make_tiny_flava

from capbench.adapters import ImageHandle, PairwiseEncoder
from capbench.adapters.devices import TOO_LARGE
from capbench.adapters.encoders.hf_pairs import BlipItm, Flava
from capbench.errors import AdapterError

TEXTS = (
    ("a red dog", "two boats near a wall", "a"),
    ("two boats near a wall", "a lamp, 3 signs", "green and blue birds in a tree"),
)


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_blip(tmp_path_factory.mktemp("blip"))


@pytest.fixture(scope="module")
def blip_encoder(blip: Path) -> BlipItm:
    return BlipItm(str(blip), device="cpu")


@pytest.fixture(scope="module")
def flava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_flava(tmp_path_factory.mktemp("flava"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[ImageHandle]:
    return smooth_pictures(tmp_path_factory.mktemp("pictures"), 2)


def scores(encoder: PairwiseEncoder, pictures: list[ImageHandle], texts: Any = TEXTS) -> np.ndarray:
    score_of: dict[int, np.ndarray] = {}
    for batch in encoder.pairs(pictures, texts):
        assert not batch.failures
        score_of |= batch.scores
    return np.array([score_of[number] for number in range(len(pictures))])


def inputs(folder: Path, picture: ImageHandle, texts: Any, longest: int) -> tuple[Any, Any]:
    """Return what transformers makes of an image and texts, padded and cut as ARO has it."""
    from transformers import AutoImageProcessor, AutoTokenizer

    image = Image.open(picture.source)  # type: ignore[arg-type]
    pixels = AutoImageProcessor.from_pretrained(folder)(images=image, return_tensors="pt")["pixel_values"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer(list(texts), padding="max_length", truncation=True, max_length=longest, return_tensors="pt")
    return pixels.repeat(len(texts), 1, 1, 1), tokens


@pytest.fixture(scope="module")
def of_blip(blip: Path, pictures: list[ImageHandle]) -> dict[tuple[str, str], np.ndarray]:
    """The scores by ``BlipForImageTextRetrieval.forward``, by head and first token."""
    import torch
    from transformers import BlipForImageTextRetrieval

    model = BlipForImageTextRetrieval.from_pretrained(blip).eval()
    rows: dict[tuple[str, str], list[np.ndarray]] = {}
    for picture, texts in zip(pictures, TEXTS, strict=True):
        pixels, tokens = inputs(blip, picture, texts, 35)
        ids, mask = tokens["input_ids"], tokens["attention_mask"]
        with torch.inference_mode():
            output = model(input_ids=ids, pixel_values=pixels[:1], attention_mask=mask, use_itm_head=False)
        cosines = output.itm_score[0]
        # Behind the 81 tokens of the vocabulary stand [DEC] and [ENC].
        for token, first in (("enc", 82), ("cls", None)):
            seen = ids.clone()
            if first is not None:
                seen[:, 0] = first
            with torch.inference_mode():
                logits = model(input_ids=seen, pixel_values=pixels, attention_mask=mask).itm_score
            by_head = {"itm": logits.softmax(-1)[:, 1], "itc": cosines, "itm+itc": logits[:, 1] + cosines}
            for head, values in by_head.items():
                rows.setdefault((head, token), []).append(values.numpy())
    return {key: np.array(values) for key, values in rows.items()}


# The first token is nothing to the cosines.
@pytest.mark.parametrize(
    ("head", "first_token"), [("itm", "enc"), ("itc", "cls"), ("itm+itc", "enc"), ("itm+itc", "cls")]
)
def test_scores_of_blip_are_those_of_transformers(blip: Path, pictures, of_blip, head: Any, first_token: Any):
    encoder = BlipItm(str(blip), head=head, first_token=first_token, device="cpu")
    expected = of_blip[head, first_token]
    np.testing.assert_allclose(scores(encoder, pictures), expected, atol=1e-5)
    assert np.ptp(expected) > 0.01


@pytest.fixture(scope="module")
def flavas(flava: Path) -> dict[str, Flava]:
    """FLAVA by what becomes of its padding."""
    return {padding: Flava(str(flava), device="cpu", padding=padding) for padding in ("seen", "none")}


def test_scores_of_flava_are_those_of_transformers(flava: Path, flavas: dict[str, Flava], pictures: list[ImageHandle]):
    import torch
    from transformers import FlavaForPreTraining

    model = FlavaForPreTraining.from_pretrained(flava).eval()
    prepared = [inputs(flava, picture, texts, 77) for picture, texts in zip(pictures, TEXTS, strict=True)]
    unmasked = model.flava.multimodal_model.forward
    for padding, forward in (
        ("none", unmasked),
        # Until 4.38 it was not told of padding.
        ("seen", lambda states, attention_mask, **more: unmasked(states, **more)),
    ):
        model.flava.multimodal_model.forward = forward
        expected = []
        for pixels, of in prepared:
            with torch.inference_mode():
                output = model(**of, input_ids_masked=of["input_ids"], pixel_values=pixels, return_loss=False)
            expected.append(output.itm_logits.softmax(-1)[:, 1].numpy())
        measured = scores(flavas[padding], pictures)
        np.testing.assert_allclose(measured, expected, atol=1e-5)
        assert np.ptp(measured) > 0.01


def test_padding_that_flava_sees_moves_scores_of_texts_with_fewer_than_77_tokens_alone(flavas, pictures, tmp_path):
    seen, none = flavas["seen"], flavas["none"]
    assert (seen.fingerprint()["padding"], none.fingerprint()["padding"]) == ("seen", "none")
    texts = [["a " * 74, "a " * 75, "a " * 90]]
    with_padding, without = (scores(encoder, pictures[:1], texts)[0] for encoder in (seen, none))
    assert (with_padding == without).tolist() == [False, True, True]
    # Where a text has fewer places than 77, padding goes as far as they do.
    few = Flava(str(make_tiny_flava(tmp_path, places=20)), device="cpu")
    assert np.isfinite(scores(few, pictures[:1], [["a b c"]])).all()


def test_first_token_head_and_longest_text_are_in_the_fingerprint(blip: Path, blip_encoder: BlipItm):
    fingerprints = [blip_encoder.fingerprint()] + [
        BlipItm(str(blip), device="cpu", **settings).fingerprint()
        for settings in ({"first_token": "cls"}, {"head": "itm"}, {"max_tokens": 20})
    ]
    assert [fingerprints[0][key] for key in ("head", "first_token", "max_tokens")] == ["itm+itc", "enc", 35]
    assert len({str(fingerprint) for fingerprint in fingerprints}) == len(fingerprints)


def test_score_does_not_depend_on_the_texts_and_images_beside_it(blip_encoder, pictures):
    whole = scores(blip_encoder, pictures)
    alone = [
        [scores(blip_encoder, [picture], [[text]])[0, 0] for text in of]
        for picture, of in zip(pictures, TEXTS, strict=True)
    ]
    assert np.array_equal(whole, np.array(alone))


def test_text_is_cut_before_its_end_token(blip: Path, pictures: list[ImageHandle]):
    encoder = BlipItm(str(blip), max_tokens=6, device="cpu")
    (row,) = scores(encoder, pictures[:1], [["a b c d", "a b c d e", "a b c e"]])
    assert row[0] == row[1] != row[2]


def test_image_that_cannot_be_read_costs_no_other(blip_encoder: BlipItm, pictures: list[ImageHandle]):
    (batch,) = blip_encoder.pairs([ImageHandle(b"no image"), pictures[0]], TEXTS)
    assert list(batch.scores) == [1]
    assert "not an image" in batch.failures[0]


def test_what_does_not_fit_into_memory_is_halved_and_what_does_not_fit_alone_is_named(blip, pictures, monkeypatch):
    import torch

    texts = [["a b", "c d", "a b c d e f", "e f"], ["a b", "c"]]
    encoder = BlipItm(str(blip), device="cpu")
    expected = dict(next(encoder.pairs(pictures, texts)).scores)
    image, pair = encoder._image_tokens, encoder._pair_scores

    def one_image(pixels: torch.Tensor) -> torch.Tensor:
        if len(pixels) > 1:
            raise torch.OutOfMemoryError
        return image(pixels)

    def short(tokens: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        if ids.shape[1] > 6 or len(ids) > 2:
            raise torch.OutOfMemoryError
        return pair(tokens, ids)

    monkeypatch.setattr(encoder, "_image_tokens", one_image)
    monkeypatch.setattr(encoder, "_pair_scores", short)
    (batch,) = encoder.pairs(pictures, texts)
    assert batch.failures == {0: TOO_LARGE}
    np.testing.assert_allclose(batch.scores[0][[0, 1, 3]], expected[0][[0, 1, 3]], atol=1e-5)
    assert np.isnan(batch.scores[0][2])
    np.testing.assert_allclose(batch.scores[1], expected[1], atol=1e-5)


def test_encoder_of_pairs_has_no_vectors(flava: Path):
    encoder = Flava(str(flava), device="cpu", name="mine")
    for asked in (encoder.images, encoder.texts, encoder.tokens, encoder.frames):
        with pytest.raises(AdapterError, match="mine scores pairs of image and text"):
            asked([])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        (BlipItm, {"head": "both"}, "head=both is not known"),
        (BlipItm, {"first_token": "dec"}, "first_token=dec is not known"),
        (BlipItm, {"max_tokens": 65}, "takes 2 to 64"),
        (BlipItm, {"max_tokens": 1}, "takes 2 to 64"),
        (Flava, {"padding": "all"}, "padding=all is not known"),
    ],
)
def test_setting_without_meaning_is_an_error(blip: Path, flava: Path, kind: Any, settings: Any, said: str):
    with pytest.raises(AdapterError, match=said):
        kind(str(blip if kind is BlipItm else flava), device="cpu", **settings)


def test_checkpoint_of_another_kind_or_without_a_match_head_is_an_error(blip: Path, flava: Path, tmp_path: Path):
    from safetensors.torch import load_file, save_file

    with pytest.raises(AdapterError, match="model_type is 'flava'; adapter 'blip_itm' takes blip"):
        BlipItm(str(flava), device="cpu")
    headless = shutil.copytree(blip, tmp_path / "headless")
    weights = load_file(headless / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith("itm_head.")}
    save_file(kept, headless / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AdapterError, match=r"itm_head\.bias: not in the checkpoint"):
        BlipItm(str(headless), device="cpu")
