import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_regions import make_tiny_painter

from capbench.adapters import ImageHandle, adapters
from capbench.adapters.aliases import resolve_model
from capbench.errors import AdapterError

pytestmark = pytest.mark.costly

TEXTS = ["a red star", "two blue circles on a table"]


@pytest.fixture(scope="module")
def folder(tiny_clip, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_painter(tmp_path_factory.mktemp("painter"), tiny_clip.hf_folder)


def painter(folder: Path, **changes):
    return adapters["diffusion"](pretrained=str(folder), steps=2, side=16, device="cpu", **changes)


def pixels(image: ImageHandle) -> np.ndarray:
    assert isinstance(image.source, bytes)
    with Image.open(io.BytesIO(image.source)) as opened:
        assert opened.format == "PNG"
        return np.asarray(opened)


def test_images_are_those_of_diffusers(folder: Path):
    import diffusers
    import torch

    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    for settings in ({}, {"guidance": 1.5}):
        theirs = [
            np.asarray(
                pipeline(
                    text, num_inference_steps=2, width=16, height=16, generator=torch.Generator().manual_seed(7),
                    **{f"{key}_scale": value for key, value in settings.items()},
                ).images[0]
            )
            for text in TEXTS
        ]  # fmt: skip
        ours = [pixels(image) for image in painter(folder, **settings).paint(TEXTS, seed=7)]
        assert all((image == other).all() for image, other in zip(ours, theirs, strict=True))
        assert ours[0].shape == (16, 16, 3)


def test_text_and_seed_have_one_image_whatever_is_painted_beside_it(folder: Path, capfd: pytest.CaptureFixture[str]):
    model = painter(folder)
    capfd.readouterr()
    first, second, again = model.paint([*TEXTS, TEXTS[0]], seed=3)
    # A bar an image would be noise beside the maker's own.
    assert "%|" not in capfd.readouterr().err
    assert first.source == again.source
    assert [image.source for image in painter(folder).paint(TEXTS[::-1], seed=3)] == [second.source, first.source]
    assert first.source != second.source
    assert model.paint(TEXTS[:1], seed=4)[0].source != first.source
    assert model.paint([], seed=3) == []


def test_everything_that_decides_an_image_is_in_the_fingerprint(folder: Path, tmp_path: Path):
    first = painter(folder).fingerprint()
    assert first["pipeline"] == "StableDiffusionPipeline"
    assert "unet/diffusion_pytorch_model.safetensors" in first["checkpoint"]
    for change, key in (({"guidance": 2.0}, "guidance_scale"), ({"dtype": "bf16"}, "dtype")):
        assert painter(folder, **change).fingerprint() == {**first, key: next(iter(change.values()))}
    with pytest.raises(AdapterError, match=r"no pipeline.*\n.*Name a local folder"):
        painter(tmp_path / "no pipeline")


def test_missing_diffusers_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "diffusers", None)
    spec = resolve_model("stable-diffusion-v1-5")
    assert spec.role == "painter"

    for ask in (spec.check, spec.load, lambda: adapters["diffusion"](pretrained="somewhere")):
        with pytest.raises(AdapterError, match=r"needs diffusers, which is not installed.*\n.*capbench\[paint\]"):
            ask()


def test_precision_that_is_none_is_said():
    with pytest.raises(AdapterError, match="dtype=int8"):
        adapters["diffusion"](pretrained="somewhere", dtype="int8")
