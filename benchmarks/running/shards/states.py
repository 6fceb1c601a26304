"""What metrics must know of a whole corpus: mapped shard by shard, merged part by part, given as far as it is needed.

Nobody holds all of it: a part is merged over all shards before the next one is begun, and who scores a shard takes
from each part what its items ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....errors import StoreError
from ....metrics import Context, CorpusMetric, Items, State
from .scoring import corpora
from .shelf import Arrays, Shelf, derived

PARTS = 16
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
        for number, part in enumerate(parts):
            self.shelf.put(self._part_key(shard, number), part)
        if whole is not None and whole.corpus is None:
            self.shelf.put(self._kept_key(shard), self.metric.keep(whole))

    def merge(self, merged: str, shards: Sequence[str]) -> None:
        """Put what all shards together say of each corpus on the shelf, in parts.

        Args:
            merged: Key of the unit that merges.
            shards: Keys of the units that mapped the shards.

        Raises:
            StoreError: A part is damaged, or was pruned; the next run makes anew what lacks a part.
        """
        try:
            for number in range(PARTS):
                self.shelf.put(self._part_key(merged, number), self._merged_part(shards, number))
        except StoreError:
            for shard in shards:
                if not self._has_parts(shard):
                    self.shelf.drop(shard)
            raise

    def is_merged(self, merged: str) -> bool:
        """Return whether all that a unit has merged is there."""
        return self.shelf.has(merged) and self._has_parts(merged)

    def _merged_part(self, shards: Sequence[str], number: int) -> Arrays:
        of_corpus: dict[int, InTwos] = {}
        for shard in shards:
            for corpus, state in self._part(shard, number).items():
                of_corpus.setdefault(corpus, InTwos(self.metric)).add(state)
        whole: dict[str, np.ndarray] = {}
        for corpus, states in of_corpus.items():
            whole |= _named(corpus, self.metric.condense(states.together()))
        return whole

    def restore(self, shard: str, items: Items) -> None:
        """Give all items of a shard what was derived of them when it was mapped."""
        if self.shelf.has(self._kept_key(shard)):
            self.metric.restore(items, self.shelf.arrays(self._kept_key(shard)))

    def relevant(self, merged: str, items: Items) -> dict[int, list[State]]:
        """Return by corpus the parts of its state, as far as they matter to some items.

        Args:
            merged: Key of the unit that merged the shards.
            items: The items.

        Raises:
            StoreError: A part is damaged, or was pruned.
        """
        found: dict[int, list[State]] = {corpus: [] for corpus, _ in corpora(items)}
        for number in range(PARTS):
            of_corpus = self._part(merged, number)
            for corpus, states in found.items():
                states.append(self.metric.relevant(of_corpus[corpus], items))
        return found

    def _part_key(self, unit: str, number: int) -> str:
        return derived(unit, self.name, str(number))

    def _kept_key(self, unit: str) -> str:
        return derived(unit, self.name, "kept")

    def _has_parts(self, unit: str) -> bool:
        return all(self.shelf.has(self._part_key(unit, number)) for number in range(PARTS))

    def _part(self, unit: str, number: int) -> dict[int, State]:
        """Return a part of what a unit made, by corpus."""
        found: dict[int, dict[str, np.ndarray]] = {}
        for path, array in self.shelf.arrays(self._part_key(unit, number)).items():
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


def _named(corpus: int, state: State) -> Arrays:
    """Return the arrays of a corpus' state under names that no other corpus has."""
    return {f"{corpus}/{name}": array for name, array in state.items()}
