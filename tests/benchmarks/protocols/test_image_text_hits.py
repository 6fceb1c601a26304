"""Subcrop-caption matching and negatives, on vectors whose cosines are known."""

from __future__ import annotations

import numpy as np
import pytest

from capbench.benchmarks.protocols.matching.image_text_hits import (
    EntryVectors,
    Square,
    Ties,
    match_captions,
    match_square,
    prefer_captions,
    table_of,
)


def group(*rows: list[list[float]]) -> list[EntryVectors]:
    """Entries of which image ``i`` has the cosine ``rows[i][j][c]`` with caption ``c`` of entry ``j``."""
    count = len(rows)
    cosines = np.array(rows, dtype=np.float32).reshape(count, count, -1)
    # Image i is the unit vector i, so coordinate i of a text is its cosine with it.
    return [
        EntryVectors(np.eye(count, dtype=np.float32)[n], cosines[:, n].T.copy(), np.zeros((0, count)))
        for n in range(count)
    ]


def neg(captions: list[float], negatives: list[float], ties: Ties = "wrong") -> float:
    texts = [np.array([[one, 0] for one in row], dtype=np.float32) for row in (captions, negatives)]
    return prefer_captions(EntryVectors(np.float32([1, 0]), *texts), ties).hit


@pytest.mark.parametrize(
    ("table", "hits"),
    [
        # An image is right when its own caption is the most similar.
        ([[[0.9], [0.1]], [[0.8], [0.2]]], [True, False]),
        # Images look for captions: caption 1 is nearest to image 0, and is found by image 1 none the less.
        ([[[0.9], [0.8]], [[0.1], [0.2]]], [True, True]),
        # Other entries stand with their best caption, the own with its worst.
        ([[[0.9, 0.3], [0.4, 0.0]], [[0.0, 0.0], [0.5, 0.6]]], [False, True]),
        ([[[0.9, 0.5], [0.4, 0.0]], [[0.0, 0.55], [0.5, 0.6]]], [True, False]),
    ],
)
def test_images_find_their_captions(table: list[list[list[float]]], hits: list[bool]):
    assert [one.hit for one in match_captions(table_of(group(*table)))] == hits


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("dimension", [3, 32, 512, 769])
def test_of_equal_captions_the_first_is_found_wherever_they_stand(count: int, dimension: int):
    generator = np.random.default_rng(count * dimension)
    text, image = generator.normal(size=(2, 1, dimension)).astype(np.float32)
    entry = EntryVectors(image[0], text, text[:0])
    hits = match_captions(table_of([entry] * count))
    assert [one.hit for one in hits] == [True] + [False] * (count - 1)
    assert all(one.own == one.rival for one in hits)


def test_cosines_that_decided_are_given_and_an_entry_alone_is_right_without_a_rival():
    first, second = match_captions(table_of(group([[0.75, 0.5], [0.25, 0.375]], [[0.0, 0.125], [0.5, 0.625]])))
    assert (first.own, first.rival) == (0.5, 0.375)
    assert (second.own, second.rival) == (0.5, 0.125)
    (alone,) = match_captions(table_of(group([[-0.9]])))
    assert alone.hit
    assert np.isnan(alone.rival)


def test_worst_caption_must_beat_the_best_negative():
    assert neg([0.9, 0.4], [0.3, 0.1])
    assert not neg([0.9, 0.4], [0.5])
    assert not neg([0.9], [0.1, 0.95])
    assert not neg([0.4], [0.4])


@pytest.mark.parametrize(("ties", "counts"), [("wrong", 0), ("half", 0.5), ("right", 1)])
def test_tie_of_caption_and_negative_counts_as_the_task_says(ties: Ties, counts: float):
    assert neg([0.5], [0.5], ties) == counts
    assert neg([0.5], [0.4, 0.5, 0.1, 0.2], ties) == counts
    assert neg([0.5], [0.4, 0.6], ties) == 0
    assert neg([0.5], [0.4, 0.3], ties) == 1


def square(table: list[list[float]], ties: Ties = "wrong") -> Square:
    """The square of which image ``i`` has the cosine ``table[i][j]`` with caption ``j``."""
    first, second = np.array(table, dtype=np.float32)
    unit = np.float32([1, 0])

    def entry(own: float, other: float) -> EntryVectors:
        return EntryVectors(unit, *(np.array([[one, 0]], dtype=np.float32) for one in (own, other)))

    return match_square(entry(first[0], first[1]), entry(second[1], second[0]), ties)


@pytest.mark.parametrize(
    ("table", "text", "image", "group"),
    [
        ([[0.9, 0.1], [0.2, 0.8]], 1, 1, 1),
        # Each image prefers its caption; caption 1 prefers image 0.
        ([[0.9, 0.7], [0.2, 0.6]], 1, 0, 0),
        # Each caption prefers its image; image 1 prefers caption 0.
        ([[0.9, 0.1], [0.8, 0.6]], 0, 1, 0),
        ([[0.1, 0.9], [0.8, 0.2]], 0, 0, 0),
        ([[0.9, 0.9], [0.2, 0.8]], 0, 0, 0),
        ([[0.9, 0.1], [0.9, 0.95]], 1, 0, 0),
    ],
)
def test_square_is_right_where_images_and_captions_find_each_other(
    table: list[list[float]], text: float, image: float, group: float
):
    found = square(table)
    assert (found.text, found.image, found.group) == (text, image, group)
    assert found.cosines == pytest.approx(np.array(table))


def test_ties_of_a_square_may_count_as_right():
    equal = [[0.5, 0.5], [0.5, 0.5]]
    assert (square(equal).text, square(equal).image, square(equal).group) == (0, 0, 0)
    assert square(equal, "right").group == 1
