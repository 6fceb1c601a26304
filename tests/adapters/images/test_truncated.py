"""Images whose data end before their pixels do are failures, and whole ones of unusual kinds are read."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image, ImageFile
from tiny_images import encoded, png_chunk, png_of

from capbench.adapters import ImageHandle
from capbench.adapters.chat.messages import data_url
from capbench.adapters.encoders.open_clip_transform import open_clip_transform
from capbench.adapters.images.reading import UnreadableImage, read_image

END_OF_JPEG = b"\xff\xd9"
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""First column, first row, columns and rows to the next of the seven passes of an interlaced PNG."""
KINDS = yaml.safe_load(Path(__file__).with_name("kinds_of_files.yaml").read_text())


@pytest.fixture
def picture() -> Image.Image:
    """A picture of noise over COLOURS, 64 by 48: every kind of file needs some thousand bytes for it."""
    y, x = np.mgrid[0:48, 0:64]
    noise = np.random.default_rng(0).integers(0, 90, (48, 64, 3))
    return Image.fromarray((np.stack([2 * x, 3 * y, 40 + x], axis=-1) + noise).astype(np.uint8))


def rows_of(pixels: np.ndarray) -> list[bytes]:
    return [b"\0" + row.tobytes() for row in pixels]


def failure(encoded: bytes) -> str:
    with pytest.raises(UnreadableImage) as caught:
        read_image(ImageHandle(encoded))
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_file_that_is_cut_anywhere_gives_the_pixels_of_the_whole_or_none(kind: str, picture: Image.Image):
    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    name, mode, options = KINDS[kind]
    whole = encoded(picture.convert(mode), name, **options)
    pixels = np.asarray(read_image(ImageHandle(whole)).image)

    failures = 0
    for end in {len(whole) * part // 24 for part in range(1, 24)} | {len(whole) - lacking for lacking in (1, 5, 9)}:
        try:
            read = read_image(ImageHandle(whole[:end])).image
        except UnreadableImage:
            failures += 1
        else:
            # Of an end mark, or of a sum, no pixel is made.
            assert len(whole) - end < 20
            assert np.array_equal(np.asarray(read), pixels)
    assert failures >= 23


def test_interlaced_png_whose_stream_ends_after_any_of_its_rows_is_truncated():
    # 5 by 9 pixels: passes of one column, and a last pass that does not reach the last row.
    image = Image.fromarray(np.random.default_rng(0).integers(1, 256, (9, 5, 3), dtype=np.uint8))
    pixels = np.asarray(image)
    rows = [row for left, top, x, y in ADAM7 for row in rows_of(pixels[top::y, left::x])]
    whole = read_image(ImageHandle(png_of(b"".join(rows), interlaced=True, size=(5, 9)))).image
    assert np.array_equal(np.asarray(whole), np.asarray(image))
    for count in range(1, len(rows)):
        failure(png_of(b"".join(rows[:count]), interlaced=True, size=(5, 9)))


@pytest.mark.parametrize("ground", [0, 255])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_png_of_one_colour_is_read(mode: str, ground: int):
    # Black is what Pillow leaves where there are no rows.
    image = Image.new(mode, (30, 20), ground)
    read = read_image(ImageHandle(encoded(image, "PNG"))).image
    assert np.array_equal(np.asarray(read.convert("RGB")), np.asarray(image.convert("RGB")))


def test_png_with_bytes_after_its_end_is_read_and_one_without_its_end_is_not(picture: Image.Image):
    rows = b"".join(rows_of(np.asarray(picture)))
    for unusual in (png_of(rows) + b"further bytes", png_of(rows + rows)):
        assert np.array_equal(np.asarray(read_image(ImageHandle(unusual)).image), np.asarray(picture))
    assert failure(png_of(rows, ends=False)).endswith("cannot be decoded: truncated PNG file")


def test_animated_png_is_truncated_where_its_first_frame_is(picture: Image.Image):
    dark = Image.new("RGB", picture.size)
    whole = encoded(dark, "PNG", save_all=True, append_images=[picture, dark])
    assert np.array_equal(np.asarray(read_image(ImageHandle(whole)).image), np.asarray(dark))
    short = zlib.compress(b"".join(rows_of(np.zeros((6, 64, 3), np.uint8))))
    start = whole.index(b"IDAT") - 4
    length = int.from_bytes(whole[start : start + 4], "big")
    assert "is truncated" in failure(whole[:start] + png_chunk(b"IDAT", short) + whole[start + 12 + length :])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind][0] == "JPEG" and "prog" not in kind])
def test_jpeg_whose_data_end_before_its_end_mark_is_truncated(kind: str, picture: Image.Image):
    name, mode, options = KINDS[kind]
    whole = encoded(picture.convert(mode), name, **options)
    scan = whole.index(b"\xff\xda") + 14
    for part in (0.05, 0.3, 0.6, 0.8):
        end = scan + int((len(whole) - scan) * part)
        assert failure(whole[:end] + END_OF_JPEG).endswith("is truncated: its data end before its pixels do")


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}, {"subsampling": 0}])
def test_jpeg_that_is_lower_than_it_says_is_truncated(options: dict, picture: Image.Image):
    low = encoded(picture, "JPEG", **options)
    read_image(ImageHandle(low))
    failure(low.replace(struct.pack(">HH", 48, 64), struct.pack(">HH", 96, 64), 1))


def test_jpeg_whose_tail_was_never_written_is_truncated(picture: Image.Image):
    whole = encoded(picture, "JPEG")
    failure(whole[: len(whole) // 2] + bytes(100_000))


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}])
def test_whole_jpeg_is_read_where_it_has_the_grey_that_decoders_fill_with(mode: str, options: dict):
    for level in (127, 128, 129):
        content = encoded(Image.new("L", (50, 40), level).convert(mode), "JPEG", **options)
        for unusual in (content, content + b"further bytes"):
            assert read_image(ImageHandle(unusual)).image.size == (50, 40)


def test_first_of_several_jpegs_in_a_file_is_read_or_truncated(picture: Image.Image):
    grey = Image.new("RGB", picture.size, (128, 128, 128))
    for first in (picture, grey):
        both = encoded(first, "MPO", save_all=True, append_images=[picture])
        assert read_image(ImageHandle(both)).remarks == ("first of 2 frames",)
    end = both.index(END_OF_JPEG)
    failure(both[: end - 8] + END_OF_JPEG + both[end + 2 :])


def test_every_way_of_decoding_names_a_truncated_image(tmp_path, picture: Image.Image):
    whole = encoded(picture, "JPEG")
    jpeg = whole[: len(whole) // 2] + END_OF_JPEG
    png = png_of(b"".join(rows_of(np.asarray(picture))[:6]))
    grey = encoded(Image.new("RGB", (32, 32), (128, 128, 128)), "JPEG")
    configuration = {"size": 32, "mean": (0.5, 0.5, 0.5), "std": (0.3, 0.3, 0.3)}
    for encoded_image in (jpeg, png):
        path = tmp_path / "image"
        path.write_bytes(encoded_image)
        for handle in (ImageHandle(path), ImageHandle(encoded_image), ImageHandle(path, (0, 0, 8, 4))):
            for kind in ("exact", "fast"):
                transform = open_clip_transform(configuration, kind, torch.device("cpu"))
                with pytest.raises(UnreadableImage, match="is truncated"):
                    transform.read(handle)
                transform.read(ImageHandle(grey))
            with pytest.raises(UnreadableImage, match="is truncated"):
                data_url(handle)
