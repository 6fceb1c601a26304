"""Digests of images and crops: keys of the store, so equal for equal pixels alone."""

import hashlib
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from capbench.adapters import ImageHandle

PIXELS = hashlib.sha256(b"pixels").hexdigest()
EDGES = st.floats(-1e7, 1e7)
BOXES = st.tuples(EDGES, EDGES, EDGES, EDGES)


def digest(*box):
    return ImageHandle(b"pixels", box or None).digest()


def test_boxes_that_differ_in_the_eighth_digit_have_digests_of_their_own():
    # Their crops differ by a row of pixels, as edges are rounded to whole ones.
    assert digest(0, 0, 1024.4961, 10) != digest(0, 0, 1024.5039, 10)
    assert digest(0, 0, 1024.4961, 10) == f"sha256:{PIXELS}:0,0,1024.4961,10"


def test_boxes_of_whole_and_of_short_numbers_keep_the_keys_of_older_stores():
    assert digest() == f"sha256:{PIXELS}:"
    assert digest(3, 0.0, 224.0, 10.25) == f"sha256:{PIXELS}:3,0,224,10.25"


@given(BOXES, BOXES)
def test_digests_are_equal_exactly_where_boxes_are(one, other):
    assert (digest(*one) == digest(*other)) == (one == other)


@given(BOXES)
def test_a_box_has_one_digest_however_its_numbers_are_written(box):
    assert digest(*box) == digest(*map(np.float64, box))
    assert digest(0.0, *box[1:]) == digest(-0.0, *box[1:]) == digest(0, *box[1:])


@given(BOXES, st.integers(0, 3), st.booleans())
def test_the_next_number_is_another_box(box, place, up):
    moved = list(box)
    moved[place] = math.nextafter(box[place], math.inf if up else -math.inf)
    assert digest(*moved) != digest(*box)
