"""What metrics must know of a whole corpus: mapped shard by shard, merged part by part, told as far as it is needed.

Nobody holds all of it: who merges a part over all shards tells each shard what its items ask for, and who scores the
shard reads that alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....metrics import Context, CorpusMetric, Items, State
from .scoring import corpora
from .shelf import Arrays, Shelf, derived

PARTS = 32
"""Parts of a corpus' state, each of some n-grams, say."""


@dataclass(frozen=True)
class CorpusStates:
    """The states of one metric's corpora, on a shelf.

    Attributes:
        shelf: Where they are.
        metric: The metric.
        name: What it is called in the run.
    """

    shelf: Shelf
    metric: CorpusMetric
    name: str

    def mapped(self, items: Items, context: Context) -> list[Arrays]:
        """Return what some items say of their corpora, in parts.

        Raises:
            MetricError: The metric cannot tell.
        """
        parts: list[dict[str, np.ndarray]] = [{} for _ in range(PARTS)]
        for corpus, which in corpora(items):
            own = items if which is None else items.subset(which)
            state = self.metric.state_map(own, context)
            for part, one in zip(parts, self.metric.partition(state, PARTS), strict=True):
                part.update(_named(corpus, one))
        return list[Arrays](parts)

    def put(self, shard: str, parts: Sequence[Arrays], whole: Items | None) -> None:
        """Put what a shard says on the shelf.

        Args:
            shard: Key of the unit that maps it.
            parts: What :meth:`mapped` gave.
            whole: All items of the shard, for which is kept what was derived of them; None if these were some.
        """
        self.shelf.put_parts(self._parts_key(shard), parts)
        if whole is not None and whole.corpus is None:
            self.shelf.put(self._kept_key(shard), self.metric.keep(whole))

    def merge(self, merged: str, part: int, shards: Sequence[str]) -> None:
        """Put on the shelf what all shards together say of each corpus: for each of them what matters to its items.

        Args:
            merged: Key of the unit that merges.
            part: Which part of the states.
            shards: Keys of the units that mapped the shards.

        Raises:
            StoreError: A part is damaged, or was pruned.
        """
        whole = self._merged_part(shards, part)
        self.shelf.put_parts(_told_key(merged), (self._relevant(whole, shard, part) for shard in shards))

    def _relevant(self, whole: Mapping[int, State], shard: str, part: int) -> Arrays:
        told: dict[str, np.ndarray] = {}
        for corpus, own in self._read(self._parts_key(shard), part).items():
            told |= _named(corpus, self.metric.relevant(whole[corpus], own))
        return told

    def forget_incomplete(self, shards: Sequence[str]) -> None:
        """Drop the results of units of which a part lacks, so that the next run makes it anew."""
        for shard in shards:
            if not self.shelf.has_parts(self._parts_key(shard), PARTS):
                self.shelf.drop(shard)

    def is_merged(self, merged: str, shards: int) -> bool:
        """Return whether what a unit has merged is there for each of so many shards."""
        return self.shelf.has_parts(_told_key(merged), shards)

    def _merged_part(self, shards: Sequence[str], number: int) -> dict[int, State]:
        of_corpus: dict[int, InTwos] = {}
        for shard in shards:
            for corpus, state in self._read(self._parts_key(shard), number).items():
                of_corpus.setdefault(corpus, InTwos(self.metric)).add(state)
        return {corpus: self.metric.condense(states.together()) for corpus, states in of_corpus.items()}

    def restore(self, shard: str, items: Items) -> None:
        """Give all items of a shard what was derived of them when it was mapped."""
        if self.shelf.has(self._kept_key(shard)):
            self.metric.restore(items, self.shelf.arrays(self._kept_key(shard)))

    def told(self, merged: Sequence[str], shard: int, items: Items) -> dict[int, list[State]]:
        """Return by corpus the parts of its state, as far as they matter to the items of a shard.

        Args:
            merged: Keys of the units that merged the parts.
            shard: Number of the shard among those that were merged.
            items: Its items.

        Raises:
            StoreError: A part is damaged, or was pruned.
        """
        found: dict[int, list[State]] = {corpus: [] for corpus, _ in corpora(items)}
        for unit in merged:
            of_corpus = self._read(_told_key(unit), shard)
            for corpus, states in found.items():
                states.append(of_corpus[corpus])
        return found

    def _parts_key(self, unit: str) -> str:
        return derived(unit, self.name)

    def _kept_key(self, unit: str) -> str:
        return derived(unit, self.name, "kept")

    def _read(self, key: str, number: int) -> dict[int, State]:
        """Return a part of the states on the shelf, by corpus."""
        found: dict[int, dict[str, np.ndarray]] = {}
        for path, array in self.shelf.part(key, number).items():
            corpus, _, name = path.partition("/")
            found.setdefault(int(corpus), {})[name] = array
        return dict(found)


class InTwos:
    """Merges states, each with one of as many shards: of ``n`` shards each is copied ``log2 n`` times, not ``n``."""

    def __init__(self, metric: CorpusMetric) -> None:
        self._metric = metric
        self._waiting: list[tuple[int, State]] = []

    def add(self, state: State) -> None:
        """Take the state of one more shard."""
        shards = 1
        while self._waiting and self._waiting[-1][0] == shards:
            _, other = self._waiting.pop()
            state, shards = self._metric.merge([other, state]), 2 * shards
        self._waiting.append((shards, state))

    def together(self) -> State:
        """Return the state of all."""
        _, state = self._waiting.pop()
        for _, other in reversed(self._waiting):
            state = self._metric.merge([other, state])
        return state


def _told_key(merged: str) -> str:
    return derived(merged, "told")


def _named(corpus: int, state: State) -> Arrays:
    """Return the arrays of a corpus' state under names that no other corpus has."""
    return {f"{corpus}/{name}": array for name, array in state.items()}
