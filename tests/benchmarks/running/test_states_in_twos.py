"""What shards say of a corpus, put together."""

from __future__ import annotations

import numpy as np
import pytest

from capbench.benchmarks.running.shards.states import InTwos
from capbench.metrics.cider import Cider
from capbench.metrics.contract import State


class Counting(Cider):
    """Counts the n-grams that merging copies."""

    copied = 0

    def merge(self, states: list[State]) -> State:  # type: ignore[override]
        self.copied += sum(len(one["ngrams"]) for one in states)
        return super().merge(states)


def state_of(ngram: int) -> State:
    """Return the state of a shard with one n-gram of its own, and one that all shards have."""
    return {
        "ngrams": np.array([7, 100 + ngram], np.uint64),
        "frequencies": np.array([1, 2]),
        "rows": np.array([3]),
        "sets": np.array([ngram, ngram], np.uint64),
    }


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 64])
def test_states_are_merged_whatever_their_number(shards: int):
    metric = Counting()
    states = InTwos(metric)
    for number in range(shards):
        states.add(state_of(number))
    whole = states.together()

    assert whole["ngrams"].tolist() == [7, *range(100, 100 + shards)]
    assert whole["frequencies"].tolist() == [shards, *[2] * shards]
    assert whole["rows"].tolist() == [3 * shards]
    # Each n-gram is copied once a round, of which there are log2 of the shards; one after the other it were n²/2.
    assert metric.copied <= 2 * shards * np.ceil(np.log2(max(shards, 2)))
