"""What metrics make of a shard's items: a reason for each that has no value, and the place where a metric failed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from capbench.benchmarks.running.planned_metrics import PlannedMetric
from capbench.benchmarks.running.shards.scoring import corpora, score_shard
from capbench.benchmarks.running.shards.shelf import ShardScores
from capbench.metrics import Context, Items, Metric, Scores
from capbench.metrics.golden import golden_items


class Calling(Metric):
    """Scores as a function does."""

    label = "calling"
    source = "this test"

    def __init__(self, function: Callable[[int], Scores]) -> None:
        self._function = function

    def score(self, items: Items, context: Context) -> Scores:
        return self._function(len(items))


def scored(function: Callable[[int], Scores]) -> ShardScores:
    """Return what is made of three captions."""
    planned = PlannedMetric("calling", Calling(function), "mean", default_settings=True)
    return score_shard(golden_items(["a"] * 3, [["a"]] * 3), [planned], lambda planned: Context())


def test_item_without_a_finite_value_has_its_reason_or_that():
    found = scored(lambda count: Scores(np.array([1.0, np.nan, np.inf]), failures={1: "its own"}))
    (made,) = found.metrics
    assert made.scores is not None
    assert made.scores.failures == {1: "its own", 2: "the metric gave no finite value"}
    assert (made.counted, list(found.ids)) == (1, [1, 2])


def test_as_many_values_as_items_are_asked_for():
    for wrong in (np.ones(2), np.ones((3, 1)), np.ones(())):
        (made,) = scored(lambda count, wrong=wrong: Scores(wrong)).metrics
        assert made.scores is None
        assert made.error.startswith("score() did not return Scores with one value an item")


def test_items_of_each_corpus_are_those_of_its_number():
    items = golden_items(["a"] * 4, [["a"]] * 4)
    assert list(corpora(items)) == [(0, None)]
    several = replace(items, corpus=np.array([7, 5, 7, 9]))
    found = [(number, None if which is None else which.tolist()) for number, which in corpora(several)]
    assert found == [(5, [1]), (7, [0, 2]), (9, [3])]
    assert list(corpora(replace(items, corpus=np.full(4, 8)))) == [(8, None)]


def test_fault_of_code_is_told_with_its_place():
    (made,) = scored(lambda count: Scores(np.ones(count) / [1, 2])).metrics
    assert made.scores is None
    assert re.fullmatch(
        rf"ValueError: .*broadcast.* \({re.escape(str(Path(__file__)))}:\d+\)", made.error.strip()
    )
    # The line is that which failed, not the one that called it.
    line = int(made.error.rpartition(":")[2].rstrip(") "))
    assert "/ [1, 2]" in Path(__file__).read_text().splitlines()[line - 1]
