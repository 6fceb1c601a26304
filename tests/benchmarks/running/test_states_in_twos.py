"""What shards say of a corpus, put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from capbench.benchmarks.running.shards.shelf import MemoryShelf
from capbench.benchmarks.running.shards.states import PARTS, CorpusStates, InTwos
from capbench.errors import StoreError
from capbench.metrics import Context, Items
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


class Watched(MemoryShelf):
    """Knows in what order values were put there."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def put(self, key: str, value: Any) -> None:
        super().put(key, value)
        self.order.append(key)


def two_shards() -> tuple[Watched, CorpusStates]:
    """Return the states of two shards, ``a`` and ``b``, on a shelf; the keys of their parts come in order."""
    shelf = Watched()
    states = CorpusStates(shelf, Cider(), "cider")
    for shard, thing in (("a", "dog"), ("b", "cat")):
        items = Items(["1"], [f"a {thing}"], [(f"one {thing} runs",)], np.ones(1))
        states.put(shard, states.mapped(items, Context()), None)
        shelf.put(shard, {})
    return shelf, states


def test_part_is_merged_once_each_shard_was_told():
    shelf, states = two_shards()
    before = len(shelf.order)
    states.merge("merged", 3, ["a", "b"])
    told = shelf.order[before:]
    assert len(told) == 2
    assert states.is_merged("merged", 2)
    shelf.drop(told[1])
    assert states.is_merged("merged", 1) and not states.is_merged("merged", 2)


def test_shard_that_lacks_a_part_is_mapped_anew_and_no_other():
    shelf, states = two_shards()
    # Of all parts and the unit, the third.
    shelf.drop(shelf.order[PARTS + 1 + 2])
    states.merge("merged", 1, ["a", "b"])
    with pytest.raises(StoreError):
        states.merge("merged", 2, ["a", "b"])
    states.forget_incomplete(["a", "b"])
    assert shelf.has("a") and not shelf.has("b")


def test_shard_is_told_what_its_items_ask_for():
    _, states = two_shards()
    for part in range(PARTS):
        states.merge(f"merged {part}", part, ["a", "b"])
    items = Items(["1"], ["a dog"], [("one dog runs",)], np.ones(1))
    found = states.told([f"merged {part}" for part in range(PARTS)], 0, items)
    joined = Cider().join(found[0])
    # Of both shards are "one", and "runs".
    assert joined["frequencies"].tolist() == [2, 2]
    assert joined["rows"].tolist() == [2]
