"""Histograms of scores: what is counted, and what has none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from capbench.benchmarks.records.histograms import Histogram, histograms
from capbench.benchmarks.statistics.rated_rows import Ratings


def of_captions(scores: list, ratings: list | None = None, words: list[int] | None = None) -> dict:
    values = {"m": np.array(scores, dtype=np.float64)}
    return histograms(values, np.array(words or [1] * len(scores)), Ratings.of(ratings) if ratings else None)


def test_scores_fall_into_20_bins_and_the_last_one_holds_the_greatest():
    generator = np.random.default_rng(0)
    scores = generator.random(500)
    found = of_captions(scores.tolist())["m"]
    counts, edges = np.histogram(scores, bins=20)
    assert found["counts"] == counts.tolist()
    assert found["edges"] == pytest.approx(edges.tolist())
    assert "by_rating" not in found


def test_caption_counts_once_a_rating_and_a_rater_who_gave_none_does_not_count():
    found = of_captions([0.0, 1.0, 1.0], [[1.0, 3.0], [3.0, math.nan, 3.0], [2.0]])["m"]
    assert found["by_rating"]["ratings"] == [1.0, 2.0, 3.0]
    table = np.array(found["by_rating"]["counts"])
    assert table.shape == (3, 20)
    assert table[:, 0].tolist() == [1, 0, 1]
    assert table[:, 19].tolist() == [0, 1, 2]
    assert table.sum() == 5


def test_more_than_20_ratings_are_put_into_bins_named_by_their_centres():
    ratings = [[float(n)] for n in range(101)]
    found = of_captions([0.5] * 101, ratings)["m"]["by_rating"]
    assert found["ratings"] == pytest.approx([2.5 + 5 * n for n in range(20)])
    assert [sum(row) for row in found["counts"]] == [5] * 19 + [6]


@pytest.mark.parametrize(
    ("words", "edges", "counts"),
    [([2, 2, 4], [2, 3, 4, 5], [2, 0, 1]), ([7], [7, 8], [1]), ([1, 41], list(range(1, 44, 3)), [1] + [0] * 12 + [1])],
)
def test_words_are_counted_in_bins_of_equal_width(words: list[int], edges: list[int], counts: list[int]):
    found = of_captions([0.5] * len(words), words=words)["m"]["by_words"]
    assert found["edges"] == edges
    assert [sum(row) for row in found["counts"]] == counts


def test_captions_without_a_score_are_not_counted():
    found = of_captions([0.0, math.nan, None, math.inf, 1.0], [[1.0]] * 5)["m"]
    assert sum(found["counts"]) == sum(found["by_rating"]["counts"][0]) == 2
    assert sum(map(sum, found["by_words"]["counts"])) == 2


@pytest.mark.parametrize("value", [0.0, 3.0, -1e9, 1e-300])
def test_one_value_has_bins_with_a_width(value: float):
    found = of_captions([value, value, np.nextafter(value, 9)])["m"]
    assert (np.diff(found["edges"]) > 0).all()
    assert sum(found["counts"]) == 3


def test_scores_that_no_bins_can_hold_have_no_histogram():
    assert of_captions([-1.7e308, 1.7e308]) == {}
    assert of_captions([math.nan]) == {}


def test_pairs_have_no_histogram():
    assert histograms({"m": np.ones(1)}, None) == {}


# --- read back


def test_histogram_that_was_made_is_read_back():
    made = of_captions([1.0, 2.0, 3.0], [[1.0], [2.0], [2.0]], [1, 2, 3])["m"]
    read = Histogram.model_validate(made)
    assert (list(read.edges), list(read.counts)) == (made["edges"], made["counts"])
    assert list(read.ratings) == made["by_rating"]["ratings"] == [1, 2]
    assert [list(row) for row in read.rating_counts] == made["by_rating"]["counts"]
    assert list(read.words) == made["by_words"]["edges"]
    assert [list(row) for row in read.word_counts] == made["by_words"]["counts"]


def test_histogram_needs_neither_ratings_nor_words_and_knows_means_to_the_middle_of_a_bin():
    read = Histogram.model_validate({"edges": [0, 1, 3], "counts": [1, 3]})
    assert (read.ratings, read.rating_counts, read.words, read.word_counts) == ([], [], [], [])
    assert read.centres == [0.5, 2]
    # One caption at 0.5 and three at 2.
    assert read.mean(read.counts) == (0.5 + 3 * 2) / 4
    assert read.mean([0, 0]) is None


@pytest.mark.parametrize(
    "values",
    [
        {"counts": [1]},
        {"edges": [0, 0], "counts": [1]},
        {"edges": [0, 1], "counts": [1, 2]},
        {"edges": [0], "counts": []},
        {"edges": [0, 1], "counts": [1], "by_words": {"edges": [1, 2], "counts": []}},
        "none",
    ],
)
def test_what_is_no_histogram_is_refused(values: Any):
    with pytest.raises(ValueError, match=r"not|differ|should|required"):
        Histogram.model_validate(values)
