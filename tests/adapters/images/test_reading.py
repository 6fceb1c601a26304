import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_images import COLOURS, encoded, png_of, turned

from capbench.adapters import ImageHandle
from capbench.adapters.encoders.open_clip_transform import open_clip_transform
from capbench.adapters.images import reading
from capbench.adapters.images.reading import UnreadableImage, image_size, read_image


@pytest.mark.parametrize(
    ("name", "content", "cause"),
    [
        ("empty.jpg", b"", "is empty (0 bytes)"),
        ("page.jpg", b"<!doctype html><p>404", "is not an image in a known format"),
        ("noise.png", bytes(range(256)), "is not an image in a known format"),
        ("missing.jpg", None, "No such file or directory"),
    ],
)
def test_file_that_is_no_image_is_named_with_the_cause(tmp_path: Path, name: str, content, cause: str):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableImage) as caught:
        read_image(ImageHandle(path))
    assert str(caught.value) == f"{path}: {cause}"


def test_format_that_pillow_hands_to_another_program_is_not_read():
    with pytest.raises(UnreadableImage, match="is not an image in a known format"):
        read_image(ImageHandle(encoded(COLOURS, "EPS")))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_greys_of_16_bits_become_what_openai_s_transform_makes_of_them(kind: str):
    # The transform of the released CLIP: it resizes and crops the levels as they are stored, and clips them then.
    from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Normalize, Resize, ToTensor

    levels = np.random.default_rng(0).integers(0, 600, (40, 60), dtype=np.uint16)
    content = encoded(Image.fromarray(levels), kind)
    mean, std = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
    released = Compose(
        [
            Resize(24, interpolation=InterpolationMode.BICUBIC),
            CenterCrop(24),
            lambda image: image.convert("RGB"),
            ToTensor(),
            Normalize(mean, std),
        ]
    )
    ours = open_clip_transform({"size": 24, "mean": mean, "std": std}, "exact", torch.device("cpu"))
    prepared = ours.read(ImageHandle(content))
    assert torch.equal(prepared.pixels["pixel_values"], released(Image.open(io.BytesIO(content))))
    assert prepared.remarks == ("grey levels of 16 bits clipped at 255",)


def test_integers_that_fit_into_8_or_16_bits_are_read_and_others_refused():
    levels = np.arange(0, 256, dtype=np.int32).reshape(16, 16)
    small = read_image(ImageHandle(encoded(Image.fromarray(levels), "TIFF")))
    assert np.array_equal(np.asarray(small.image.convert("L")), levels)
    assert small.remarks == ()
    large = read_image(ImageHandle(encoded(Image.fromarray(levels * 257), "TIFF")))
    assert np.array_equal(np.asarray(large.image.convert("L")), np.minimum(levels * 257, 255))
    assert large.remarks == ("grey levels of 16 bits clipped at 255",)
    with pytest.raises(UnreadableImage, match="32-bit pixels have no known range"):
        read_image(ImageHandle(encoded(Image.fromarray(levels * 65536), "TIFF")))
    with pytest.raises(UnreadableImage, match="floating-point pixels have no known range"):
        read_image(ImageHandle(encoded(Image.fromarray(levels.astype(np.float32)), "TIFF")))


def test_colours_of_16_bits_are_cut_with_a_remark():
    levels = np.random.default_rng(0).integers(0, 65536, (5, 7, 3), dtype=np.uint16)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in levels)
    read = read_image(ImageHandle(png_of(rows, (7, 5), 16)))
    assert np.array_equal(np.asarray(read.image), levels >> 8)
    assert read.remarks == ("16 bits a channel cut to 8",)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_first_frame_of_an_animation_is_read(kind: str):
    dark = Image.new("RGB", COLOURS.size)
    options = {"lossless": True} if kind == "WEBP" else {}
    content = encoded(COLOURS, kind, save_all=True, append_images=[dark, dark.rotate(90)], **options)
    read = read_image(ImageHandle(content))
    assert read.remarks in (("first of 2 frames",), ("first of 3 frames",))
    difference = np.asarray(read.image.convert("RGB"), dtype=int) - np.asarray(COLOURS, dtype=int)
    assert abs(difference).mean() < 6


def test_exif_orientation_is_not_applied():
    read = read_image(ImageHandle(encoded(COLOURS, "JPEG", exif=turned(6))))
    assert read.image.size == (60, 40)
    assert read.remarks == ("EXIF orientation 6 not applied",)
    assert read_image(ImageHandle(encoded(COLOURS, "JPEG", exif=turned(1)))).remarks == ()


@pytest.mark.parametrize("size", [(20_000, 20_000), (13_378, 13_377)])
def test_decompression_bomb_is_refused_before_it_is_decoded(size: tuple[int, int]):
    # There are rows for one pixel only: decoding would say that the file is truncated.
    with pytest.raises(UnreadableImage, match=r"178,956,970.*it was not decoded"):
        read_image(ImageHandle(png_of(b"\0\0\0\0", size)))


def test_size_up_to_that_of_a_bomb_is_decoded(monkeypatch: pytest.MonkeyPatch):
    assert reading.MAX_PIXELS == 2 * Image.MAX_IMAGE_PIXELS
    monkeypatch.setattr(reading, "MAX_PIXELS", 60 * 40)
    assert read_image(ImageHandle(encoded(COLOURS))).image.size == (60, 40)
    with pytest.raises(UnreadableImage, match="61 x 40 pixels are more than 2,400; it was not decoded"):
        read_image(ImageHandle(encoded(COLOURS.resize((61, 40)))))


@pytest.mark.parametrize(
    ("box", "expected"),
    [((9.6, 5.5, 20.4, 24.5), (10, 6, 20, 24)), ((0, 0, 60, 40), (0, 0, 60, 40)), ((59, 39, 60, 40), (59, 39, 60, 40))],
)
def test_crop_takes_the_pixels_that_pillow_takes(box, expected):
    read = read_image(ImageHandle(encoded(COLOURS, "PNG"), box))
    assert np.array_equal(np.asarray(read.image), np.asarray(COLOURS.crop(box)))
    assert np.array_equal(np.asarray(read.image), np.asarray(COLOURS.crop(expected)))
    assert read.remarks == ()


def test_box_that_sticks_out_is_clipped_with_a_remark():
    read = read_image(ImageHandle(encoded(COLOURS, "PNG"), (-5, 30, 70, 55)))
    assert np.array_equal(np.asarray(read.image), np.asarray(COLOURS.crop((0, 30, 60, 40))))
    assert read.remarks == ("box clipped to the image of 60 x 40 pixels",)


@pytest.mark.parametrize(
    ("box", "cause"),
    [
        ((60, 0, 70, 10), "its box lies outside the image of 60 x 40 pixels"),
        ((-9, -9, 0, 0), "its box lies outside the image of 60 x 40 pixels"),
        ((5, 5, 5, 10), "its box has no area"),
        ((5, 5, 5.4, 10), "its box has no area"),
        ((10, 10, 5, 20), "its box has no area"),
        ((0, 0, float("nan"), 5), "its box is not made of finite numbers"),
        ((0, 0, float("inf"), 5), "its box is not made of finite numbers"),
    ],
)
def test_box_without_a_pixel_is_a_failure(box, cause):
    content = encoded(COLOURS, "PNG")
    with pytest.raises(UnreadableImage) as caught:
        read_image(ImageHandle(content, box))
    assert str(caught.value) == f"{ImageHandle(content, box).name}: {cause}"


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300])
def test_name_that_no_file_system_takes_is_an_image_that_cannot_be_read(name: str):
    handle = ImageHandle(Path(name))
    with pytest.raises(UnreadableImage) as caught:
        read_image(handle)
    str(caught.value).encode("utf-8")
    assert image_size(handle) == (0, 0)
    with pytest.raises(OSError):
        handle.digest()
