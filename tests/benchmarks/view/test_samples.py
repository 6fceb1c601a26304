"""Samples are searched, sorted and read over the parts of their file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from made_records import agreement_record

from capbench.benchmarks.records.record import Record
from capbench.benchmarks.tables.pages.charts import MOST_POINTS, scatter
from capbench.benchmarks.view.compare_pages import word_differences
from capbench.benchmarks.view.samples import RunSamples, most_apart, relative_ranks

SCORES = [0.5, None, 0.1, 0.9, 0.5, 0.3, float("inf")]


def write(folder: Path, columns: dict[str, Any], rows: int = 3) -> RunSamples:
    """Write samples in parts of so many rows."""
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "samples.parquet", row_group_size=rows)
    return RunSamples(folder, Record(agreement_record({"cider": None})))


@pytest.fixture
def samples(tmp_path: Path) -> RunSamples:
    texts, numbers = pyarrow.list_(pyarrow.string()), pyarrow.list_(pyarrow.float64())
    return write(
        tmp_path,
        {
            "id": [f"id {row}" for row in range(7)],
            "candidate": ["Ein Baum", "zwei", None, "drei BÄUME", "x.y", "x", ""],
            "references": pyarrow.array([["a"], [], None, ["b", "Baum b"], ["c"], ["c", None], ["d"]], texts),
            "ratings": pyarrow.array([[1, 2], [], None, [3, None], [4], [5, 5], [float("nan")]], numbers),
            "cider": pyarrow.array(SCORES, pyarrow.float64()),
            "length": pyarrow.array([1.0, 2, 3, 4, 5, 6, 7]),
            "scores.cider": pyarrow.array([[1.0]] * 7),
            "failure": [None, "metric: why", None, None, None, None, None],
        },
    )  # fmt: skip


def test_metrics_are_told_from_what_else_is_a_number(samples: RunSamples):
    assert samples.metrics == ["cider", "length"]
    assert samples.rated == ["ratings"]
    assert (samples.counts("cider"), samples.counts("length")) == (False, True)
    assert len(samples) == 7


def test_ratings_are_means_of_those_that_were_given(samples: RunSamples):
    np.testing.assert_array_equal(samples.numbers("ratings"), [1.5, np.nan, np.nan, 3, 4, 5, np.nan])


def test_equal_scores_keep_the_order_of_the_run_and_missing_ones_come_last(samples: RunSamples):
    assert samples.order("cider").tolist() == [2, 5, 0, 4, 3, 6, 1]
    assert samples.order("cider", descending=True).tolist() == [6, 3, 0, 4, 5, 2, 1]
    assert samples.order().tolist() == list(range(7))


def test_a_search_looks_into_every_text_of_every_part(samples: RunSamples):
    assert samples.order(query="baum").tolist() == [0, 3]
    assert samples.order(query="bäume").tolist() == [3]
    assert samples.order(query="x.").tolist() == [4]
    assert samples.order("cider", query="c").tolist() == [5, 4, 1]
    assert samples.order(query="why").tolist() == [1]
    assert samples.order(query="id", failed=True).tolist() == [1]


def test_rows_come_as_they_were_asked_for(samples: RunSamples):
    assert [row["id"] for row in samples.rows([6, 0, 4, 0])] == ["id 6", "id 0", "id 4", "id 0"]
    assert samples.rows([]) == []


def test_a_rank_counts_finite_scores_from_the_highest(samples: RunSamples):
    assert samples.rank("cider", 3) == (2, 5)
    assert samples.rank("cider", 1) is None
    assert samples.rank("length", 6) == (1, 7)


def test_a_scatter_of_many_draws_an_even_share_and_says_how_many_there_are():
    values = np.random.default_rng(0).normal(size=3 * MOST_POINTS)
    falling = values * -2 + 1
    drawn = scatter(values, falling)
    assert drawn.total == 3 * MOST_POINTS
    assert len(drawn.points) == MOST_POINTS
    assert not drawn.spread
    places = np.array([[x, y] for _, x, y in drawn.points])
    assert np.corrcoef(places.T)[0, 1] > 0.999, "the lower, the further down: one falls as the other rises"
    assert set(most_apart(values, falling, 2)) == {int(values.argmin()), int(values.argmax())}
    across = [float(tick.label.replace("−", "-")) for tick in drawn.ticks if tick.anchor == "middle"]
    assert across == sorted(across)
    assert drawn.grid.count("M") == len(drawn.ticks)
    assert scatter(values, falling) == drawn


def test_one_value_alone_has_a_place():
    drawn = scatter(np.array([0.0]), np.array([5.0]))
    assert len(drawn.points) == drawn.total == 1
    assert scatter(np.array([np.nan]), np.array([5.0])).points == ()


def test_ties_stand_in_one_place():
    assert relative_ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == pytest.approx([2.5 / 3, 0, 2.5 / 3, 1 / 3])
    assert relative_ranks(np.array([1.0, 1.0])).tolist() == [0.5, 0.5]


def test_words_that_one_caption_has_alone_are_told():
    first, second = word_differences("A boy, running fast .", "a girl running very fast.")
    assert first == [
        ("A", True), ("boy,", False), ("running", True), ("fast", True), (".", False),
    ]  # fmt: skip
    assert second == [
        ("a", True), ("girl", False), ("running", True), ("very", False), ("fast.", True),
    ]  # fmt: skip
    assert word_differences("", "") == ([], [])
