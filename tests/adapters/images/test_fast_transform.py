import io
import sys
from importlib.metadata import version

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_images import COLOURS, encoded, turned

from capbench.adapters import ImageHandle
from capbench.adapters.encoders.open_clip_transform import open_clip_transform
from capbench.adapters.images.fast_transform import FastTransform, _gpu_decodes, _require_torchcodec
from capbench.adapters.images.reading import UnreadableImage
from capbench.adapters.images.transforms import ImageTransform, PixelSpec
from capbench.errors import AdapterError

# Whoever decodes by what is about to go learns it here first.
pytestmark = pytest.mark.filterwarnings("error::DeprecationWarning")

_CPU = torch.device("cpu")
_CLIP = {"size": 224, "mean": (0.481, 0.458, 0.408), "std": (0.269, 0.261, 0.276)}


def _pixels(transform: ImageTransform, handle: ImageHandle) -> np.ndarray:
    """Return pixels in levels of 0 to 255."""
    inputs, failures = transform.collate([transform.read(handle)])
    assert failures == {}
    mean, std = (np.array(_CLIP[name])[:, None, None] for name in ("mean", "std"))
    return 255 * (inputs["pixel_values"][0].cpu().numpy() * std + mean)


def _both(**options) -> tuple[ImageTransform, ImageTransform]:
    configuration = {**_CLIP, **options}
    return open_clip_transform(configuration, "exact", _CPU), open_clip_transform(configuration, "fast", _CPU)


@pytest.mark.parametrize(
    "options", [{}, {"resize_mode": "squash"}, {"interpolation": "bilinear"}, {"size": 64}, {"size": (336, 336)}]
)
def test_photographs_are_the_same_but_for_roundings(photographs, options):
    exact, fast = _both(**options)
    for handle in photographs[::3]:
        difference = abs(_pixels(exact, handle) - _pixels(fast, handle))
        assert difference.max() < 3
        assert difference.mean() < 0.2


@pytest.mark.parametrize("orientation", range(1, 9))
def test_image_is_not_turned_whatever_its_exif_data_say(orientation: int):
    _, fast = _both(size=32)
    options = ({}, {"exif": turned(orientation)})
    plain, other = (_pixels(fast, ImageHandle(encoded(COLOURS, "JPEG", **option))) for option in options)
    assert np.array_equal(plain, other)


def test_crops_are_the_same_but_for_roundings(photographs):
    exact, fast = _both()
    for handle in photographs[::6]:
        crop = ImageHandle(handle.source, (20.4, 10.5, 151.0, 120.2))
        assert abs(_pixels(exact, crop) - _pixels(fast, crop)).max() < 3


@pytest.mark.parametrize(
    ("mode", "kind"), [("L", "JPEG"), ("CMYK", "JPEG"), ("RGB", "PNG"), ("L", "PNG"), ("RGB", "WEBP")]
)
def test_other_modes_and_formats_are_the_same_but_for_roundings(mode: str, kind: str):
    exact, fast = _both(size=32)
    handle = ImageHandle(encoded(COLOURS.convert(mode), kind), (3, 2, 50, 39))
    assert abs(_pixels(exact, handle) - _pixels(fast, handle)).max() < 3


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (32, 32), (33, 32)])
def test_any_shape_becomes_a_square(size: tuple[int, int]):
    handle = ImageHandle(encoded(Image.new("RGB", size, (200, 100, 50)), "JPEG", quality=100))
    for transform in _both(size=32):
        pixels = _pixels(transform, handle)
        assert pixels.shape == (3, 32, 32)
        assert abs(pixels - np.array([200, 100, 50])[:, None, None]).max() < 3


def test_remarks_and_failures_are_those_of_the_exact_transform():
    whole = encoded(COLOURS, "JPEG", exif=turned(6))
    exact, fast = _both(size=32)
    for handle in (ImageHandle(whole), ImageHandle(whole, (50, 30, 70, 50)), ImageHandle(whole, (0, 0, 9, 9))):
        assert fast.read(handle).remarks == exact.read(handle).remarks != ()
    plain = encoded(COLOURS, "JPEG")
    for handle in (
        ImageHandle(b""),
        ImageHandle(plain[: len(plain) // 2]),
        ImageHandle(plain[: len(plain) // 2] + b"\xff\xd9"),
        ImageHandle(plain, (70, 0, 80, 9)),
        ImageHandle(plain, (5, 5, 5, 9)),
    ):
        reasons = []
        for transform in (exact, fast):
            try:
                transform.read(handle)
                reasons.append("")
            except UnreadableImage as error:
                reasons.append(str(error))
        assert reasons[0] == reasons[1]


def test_jpeg_bomb_is_refused_before_it_is_decoded():
    content = bytearray(encoded(COLOURS, "JPEG"))
    at = content.index(b"\xff\xc0") + 5
    content[at : at + 4] = (20_000).to_bytes(2, "big") * 2
    for transform in _both():
        with pytest.raises(UnreadableImage, match=r"pixels.*; it was not decoded"):
            transform.read(ImageHandle(bytes(content)))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_strip_that_would_grow_beyond_bounds_is_refused(kind: str):
    handle = ImageHandle(encoded(Image.new("RGB", (1, 5000)), kind))
    for transform in _both():
        with pytest.raises(UnreadableImage, match="would be resized to 224 x 1120000, which is too large"):
            transform.read(handle)
    for transform in _both(resize_mode="squash"):
        assert _pixels(transform, handle).shape == (3, 224, 224)


def test_what_the_fast_transform_cannot_do_is_said():
    with pytest.raises(AdapterError, match="transform=fast cannot do resize_mode 'longest'"):
        open_clip_transform({**_CLIP, "resize_mode": "longest"}, "fast", _CPU)
    open_clip_transform({**_CLIP, "resize_mode": "longest"}, "exact", _CPU)


def test_fingerprints_tell_the_transforms_apart():
    exact, fast = _both()
    assert exact.fingerprint() != fast.fingerprint()
    assert fast.fingerprint() != _both(size=336)[1].fingerprint()
    assert fast.fingerprint() != _both(interpolation="bilinear")[1].fingerprint()


def test_torchcodec_that_is_not_there_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch):
    assert _both()[1].fingerprint()["torchcodec"] == version("torchcodec")
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    _require_torchcodec.cache_clear()
    with pytest.raises(AdapterError, match=r"transform=fast needs torchcodec.*\n.*pip install torchcodec"):
        _both()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_cpu_decodes_where_the_gpu_does_not(photographs, caplog: pytest.LogCaptureFixture):
    _gpu_decodes.cache_clear()
    spec = PixelSpec(224, "shortest", "bicubic", _CLIP["mean"], _CLIP["std"])
    elsewhere = FastTransform(spec, torch.device("cuda"))
    FastTransform(spec, torch.device("cuda"))

    (remark,) = caplog.messages
    assert remark.startswith("torchcodec cannot decode JPEG on cuda, so the CPU does")
    here = FastTransform(spec, _CPU)
    assert elsewhere.fingerprint() == here.fingerprint()
    assert torch.equal(elsewhere.read(photographs[0]).pixels, here.read(photographs[0]).pixels)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("orientation", range(2, 9))
def test_gpu_does_not_turn_images_either(orientation: int, photographs):
    spec = PixelSpec(224, "shortest", "bicubic", _CLIP["mean"], _CLIP["std"])
    fast = FastTransform(spec, torch.device("cuda"))
    with Image.open(photographs[0].source) as image:
        handles = []
        for options in ({}, {"exif": turned(orientation)}):
            content = io.BytesIO()
            image.save(content, "JPEG", **options)
            handles.append(ImageHandle(content.getvalue()))
    inputs, failures = fast.collate([fast.read(handle) for handle in handles])
    assert failures == {}
    assert torch.equal(*inputs["pixel_values"])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gpu_decodes_nearly_the_same_pixels(photographs):
    spec = PixelSpec(224, "shortest", "bicubic", _CLIP["mean"], _CLIP["std"])
    exact, fast = _both()[0], FastTransform(spec, torch.device("cuda"))
    handles = [
        *photographs,
        ImageHandle(photographs[0].source, (20, 10, 150, 120)),
        ImageHandle(encoded(COLOURS.convert("CMYK"), "JPEG")),
        ImageHandle(encoded(COLOURS, "PNG")),
    ]
    inputs, failures = fast.collate([fast.read(handle) for handle in handles])
    assert failures == {}
    expected = torch.cat([exact.collate([exact.read(handle)])[0]["pixel_values"] for handle in handles])
    difference = (inputs["pixel_values"].cpu() - expected).abs()
    assert difference.mean() < 0.02
    assert difference.amax(dim=(1, 2, 3)).median() < 0.3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_image_that_the_gpu_cannot_decode_costs_no_other(photographs):
    spec = PixelSpec(224, "shortest", "bicubic", _CLIP["mean"], _CLIP["std"])
    fast = FastTransform(spec, torch.device("cuda"))
    content = photographs[0].source.read_bytes()
    damaged = ImageHandle(content[:700] + b"\xff\xd9")
    inputs, failures = fast.collate([fast.read(photograph) for photograph in (photographs[0], damaged, photographs[1])])
    assert len(inputs["pixel_values"]) + len(failures) == 3
    assert set(failures) <= {1}
