"""Decoded images keep their pixels as PNG."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from capbench.adapters.pixels.handles import as_png, is_decoded


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_pixels_of_modes_of_png_are_kept(mode: str):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    image = Image.fromarray(pixels).convert(mode)
    read = Image.open(io.BytesIO(as_png(image)))
    assert read.mode == mode
    assert np.array_equal(np.asarray(read.convert("RGBA")), np.asarray(image.convert("RGBA")))


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "HSV"])
def test_other_colours_become_rgb_as_pillow_has_them(mode: str):
    given = Image.fromarray(np.full((5, 7, 3), 90, np.uint8)).convert(mode)
    read = Image.open(io.BytesIO(as_png(given)))
    assert np.array_equal(np.asarray(read), np.asarray(given.convert("RGB")))


def test_arrays_of_grey_and_of_rgba_are_images():
    grey, clear = np.arange(35, dtype=np.uint8).reshape(5, 7), np.zeros((5, 7, 4), np.uint8)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(as_png(grey)))), grey)
    assert Image.open(io.BytesIO(as_png(clear))).mode == "RGBA"


def test_what_a_file_said_besides_is_left_behind_but_transparency():
    image = Image.new("P", (3, 3))
    image.info = {"transparency": 0, "exif": b"Exif\x00\x00", "comment": "a"}
    read = Image.open(io.BytesIO(as_png(image)))
    assert read.info.get("transparency") is not None
    assert not read.getexif()
    assert "comment" not in read.info
    assert set(image.info) == {"transparency", "exif", "comment"}


def test_names_bytes_and_numbers_are_no_decoded_images():
    assert not any(map(is_decoded, ("a.png", b"", None, 3, ["a"])))
    assert is_decoded(Image.new("L", (1, 1)))
    assert is_decoded(np.zeros(3))
