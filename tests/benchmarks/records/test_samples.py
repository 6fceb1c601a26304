"""Samples in parts: one file whatever the parts, of columns whose type a part may not tell."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from capbench.benchmarks.inputs.failures import Failure
from capbench.benchmarks.records import samples as written
from capbench.benchmarks.records.histograms import Histogram, histograms
from capbench.benchmarks.records.samples import Samples, scores_alone, write_samples
from capbench.benchmarks.statistics.rated_rows import Ratings

N = 12
COLUMNS: Mapping[str, Sequence[Any]] = {
    "id": [f"/data/{'ab'[n == 11]}/{0 if n == 11 else n}" for n in range(N)],
    "image": [f"/images/{n // 4}.jpg" for n in range(N)],
    "category": ["one"] * N,
    "references": [[] if n < 6 else ["a dog"] for n in range(N)],
    "ratings": [None if n < 4 else [1.0, None] for n in range(N)],
    "preferred": [None if n < 4 else n % 2 for n in range(N)],
    # Of these two the first parts tell no type.
    "own": [None if n < 8 else n / 2 for n in range(N)],
    "note": [None if n < 8 else f"note {n}" for n in range(N)],
}
SCORES = {
    "length": np.arange(N, dtype=np.float64),
    "late": np.array([np.nan] * 8 + [1.0, np.inf, 3.0, 4.0]),
    "never": np.full(N, np.nan),
}


def samples(*cuts: int) -> Samples:
    edges = [0, *cuts, N]

    def parts() -> Iterator[Mapping[str, Sequence[Any]]]:
        for first, end in pairwise(edges):
            yield {name: values[first:end] for name, values in COLUMNS.items()}

    lost = [Failure("row 99", "data", "has no caption")]
    return Samples(parts, SCORES, {3: "metric length: is odd", 9: "metric late: is odd"}, lost)


CUTS = [(), (4,), (1, 2, 9), tuple(range(1, N))]


@pytest.mark.parametrize("cuts", CUTS)
def test_rows_are_the_same_whatever_the_parts(cuts: tuple[int, ...]):
    table = samples(*cuts).table()
    assert table.schema == samples().table().schema
    rows = table.to_pylist()
    assert len(rows) == N + 1
    for name, values in COLUMNS.items():
        assert [row[name] for row in rows[:N]] == list(values), name
    assert [row["late"] for row in rows[7:N]] == [None, 1.0, None, 3.0, 4.0]
    assert [row["failure"] for row in rows if row["failure"]] == [
        "metric length: is odd", "metric late: is odd", "data has no caption",
    ]  # fmt: skip
    assert rows[N] == {**dict.fromkeys(rows[0]), "id": "row 99", "failure": "data has no caption"}
    types = {field.name: str(field.type) for field in table.schema}
    assert (types["own"], types["note"], types["late"], types["never"]) == ("double", "string", "double", "double")


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("size", [5, 13, 20])
@pytest.mark.parametrize("alone", [False, True])
def test_file_is_the_same_whatever_the_parts(tmp_path, monkeypatch, cuts: tuple[int, ...], size: int, alone: bool):
    monkeypatch.setattr(written, "ROWS", size)

    def content(of: Samples, name: str) -> bytes:
        write_samples(scores_alone(of.tables) if alone else of.tables(), tmp_path / name)
        return (tmp_path / name).read_bytes()

    assert content(samples(*cuts), "cut") == content(samples(), "whole")
    file = pyarrow.parquet.ParquetFile(tmp_path / "cut")
    groups = [file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)]
    assert groups == [size] * ((N + 1) // size) + [(N + 1) % size] * ((N + 1) % size > 0)


@pytest.mark.parametrize("cuts", CUTS)
def test_folders_are_hidden_and_names_that_would_become_one_stay_apart(cuts: tuple[int, ...]):
    rows = pyarrow.concat_tables(scores_alone(samples(*cuts).tables)).to_pylist()
    assert set(rows[0]) == {"id", "image", "category", "failure", "length", "late", "never", "own"}
    ids = [row["id"] for row in rows]
    # The first and the last one lie in two folders under one name.
    assert len(set(ids)) == N + 1
    assert not any("/" in sample for sample in ids)
    assert all(sample != "0" and sample.startswith("0") for sample in (ids[0], ids[11]))
    assert [row["image"] for row in rows[:4]] == ["0.jpg"] * 4


# -- Histograms of scores: what is counted, and what has none


def of_captions(scores: list, ratings: list | None = None, words: list[int] | None = None) -> dict:
    values = {"m": np.array(scores, dtype=np.float64)}
    return histograms(values, np.array(words or [1] * len(scores)), Ratings.of(ratings) if ratings else None)


def test_scores_fall_into_20_bins_and_the_last_one_holds_the_greatest():
    generator = np.random.default_rng(0)
    scores = generator.random(500)
    histogram = of_captions(scores.tolist())["m"]
    counts, edges = np.histogram(scores, bins=20)
    assert histogram["counts"] == counts.tolist()
    assert histogram["edges"] == pytest.approx(edges.tolist())
    assert "by_rating" not in histogram


def test_bins_of_scores_that_differ_in_the_last_bits_have_a_width():
    edges = of_captions([1.0, 1.0 + 15 * np.finfo(float).eps])["m"]["edges"]
    assert np.all(np.diff(edges) > 0)


@pytest.mark.parametrize(("score", "margin"), [(2.0, 0.5), (1e9, 1e3), (-1e9, 1e3)])
def test_bins_of_equal_scores_lie_around_them(score: float, margin: float):
    edges = of_captions([score, score])["m"]["edges"]
    assert (edges[0], edges[-1]) == pytest.approx((score - margin, score + margin), rel=1e-12)


def test_caption_counts_once_a_rating_and_a_rater_who_gave_none_does_not_count():
    histogram = of_captions([0.0, 1.0, 1.0], [[1.0, 3.0], [3.0, math.nan, 3.0], [2.0]])["m"]
    assert histogram["by_rating"]["ratings"] == [1.0, 2.0, 3.0]
    table = np.array(histogram["by_rating"]["counts"])
    assert table.shape == (3, 20)
    assert table[:, 0].tolist() == [1, 0, 1]
    assert table[:, 19].tolist() == [0, 1, 2]
    assert table.sum() == 5


def test_more_than_20_ratings_are_put_into_bins_named_by_their_centres():
    ratings = [[float(n)] for n in range(101)]
    by_rating = of_captions([0.5] * 101, ratings)["m"]["by_rating"]
    assert by_rating["ratings"] == pytest.approx([2.5 + 5 * n for n in range(20)])
    assert [sum(row) for row in by_rating["counts"]] == [5] * 19 + [6]


@pytest.mark.parametrize(
    ("words", "edges", "counts"),
    [([2, 2, 4], [2, 3, 4, 5], [2, 0, 1]), ([7], [7, 8], [1]), ([30, 69], [*range(30, 71, 2)], [1] + [0] * 18 + [1])],
)
def test_words_are_counted_in_bins_of_equal_width(words: list[int], edges: list[int], counts: list[int]):
    by_words = of_captions([0.5] * len(words), words=words)["m"]["by_words"]
    assert by_words["edges"] == edges
    assert [sum(row) for row in by_words["counts"]] == counts


def test_captions_without_a_score_are_not_counted():
    histogram = of_captions([0.0, math.nan, None, math.inf, 1.0], [[1.0]] * 5)["m"]
    assert sum(histogram["counts"]) == sum(histogram["by_rating"]["counts"][0]) == 2
    assert sum(map(sum, histogram["by_words"]["counts"])) == 2


def test_scores_that_no_bins_can_hold_have_no_histogram():
    assert of_captions([-1.7e308, 1.7e308]) == {}
    assert of_captions([math.nan]) == {}


# --- read back


def test_histogram_needs_neither_ratings_nor_words_and_knows_means_to_the_middle_of_a_bin():
    read = Histogram.model_validate({"edges": [0, 1, 3], "counts": [1, 3]})
    assert read.grouped("by_rating") == read.grouped("by_words") == ([], [])
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
    with pytest.raises(ValueError, match=r"not|differ|should|required|must"):
        Histogram.model_validate(values)
