"""Digests of images and crops are equal for equal pixels alone; decoded images keep their pixels as PNG."""

import hashlib
import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from capbench.adapters import ImageHandle
from capbench.adapters.images.handles import as_png, is_decoded

PIXELS = hashlib.sha256(b"pixels").hexdigest()
EDGES = st.floats(-1e7, 1e7)
BOXES = st.tuples(EDGES, EDGES, EDGES, EDGES)


def digest(*box):
    return ImageHandle(b"pixels", box or None).digest()


def test_boxes_of_whole_and_of_short_numbers_keep_the_keys_of_older_stores():
    assert digest() == f"sha256:{PIXELS}:"
    assert digest(0, 0, 1024.4961, 10) == f"sha256:{PIXELS}:0,0,1024.4961,10"
    assert digest(3, 0.0, 224.0, 10.25) == f"sha256:{PIXELS}:3,0,224,10.25"


@given(BOXES)
def test_a_box_has_one_digest_however_its_numbers_are_written(box):
    assert digest(*box) == digest(*map(np.float64, box))
    assert digest(0.0, *box[1:]) == digest(-0.0, *box[1:]) == digest(0, *box[1:])


@given(BOXES, st.integers(0, 3), st.booleans())
def test_the_next_number_is_another_box(box, place, up):
    moved = list(box)
    moved[place] = math.nextafter(box[place], math.inf if up else -math.inf)
    assert digest(*moved) != digest(*box)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_pixels_of_modes_of_png_are_kept(mode: str):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    image = Image.fromarray(pixels).convert(mode)
    read = Image.open(io.BytesIO(as_png(image)))
    assert read.mode == mode
    assert np.array_equal(np.asarray(read.convert("RGBA")), np.asarray(image.convert("RGBA")))


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "HSV"])
def test_other_colours_become_rgb_as_pillow_has_them(mode: str):
    image = Image.fromarray(np.full((5, 7, 3), 90, np.uint8)).convert(mode)
    read = Image.open(io.BytesIO(as_png(image)))
    assert np.array_equal(np.asarray(read), np.asarray(image.convert("RGB")))


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
