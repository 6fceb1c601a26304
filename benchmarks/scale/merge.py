"""Merges shards: the corpus, the states of metrics, and the scores."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...adapters import ImageHandle, VideoHandle
from ...metrics import Context, CorpusMetric, Items, State
from ..inputs.failures import Failure, FailureLog
from ..protocols.job import Collected, Shard, Shards, Summary
from ..records.hashes import DataHash
from ..running.planned_metrics import PlannedMetric
from ..running.scoring import PieceScores, Scored, corpora, merge_scores
from ..statistics.rated_rows import first_seen
from .folders import Folder
from .shards import ShardFiles, ShardScores

PARTS = 32
"""Parts of a corpus' state, such as ranges of n-grams; only one part of all shards is in memory at a time."""


@dataclass(frozen=True)
class ShardRef:
    """A shard whose texts are in files.

    Attributes:
        number: Its number, from 0.
        items: Name of the file of its items.
        columns: Name of the file of its rows.
        first_row: Number of its first row.
        first_item: Number of its first item.
        n_items: Number of its items.
        images: Hash of its images; None where results do not depend on them.
    """

    number: int
    items: str
    columns: str
    first_row: int
    first_item: int
    n_items: int
    images: str | None = None


class ShardedCorpus:
    """A corpus whose texts are in files, and whose numbers are in memory.

    Args:
        files: The files of items.
        own: The folder of the files of rows, which only this process needs.
        hash_images: Whether results depend on the content of image files.

    Attributes:
        has_images: Whether any item has an image.
        is_in_files: Whether its rows are in files, which are deleted with the run.
    """

    is_in_files = True

    def __init__(self, files: ShardFiles, own: Folder, hash_images: bool) -> None:
        self._files = files
        self._rows_of_shards = ShardFiles(own)
        self._hash_images = hash_images
        self.refs: list[ShardRef] = []
        self.rows = self.n_items = 0
        self._hashes = DataHash()
        self.has_images = False
        self._summary: Summary | None = None
        # Of each shard, by name.
        self._arrays: dict[str, list[np.ndarray]] = defaultdict(list)
        self._numbers: dict[str, list[np.ndarray]] = defaultdict(list)

    def collect(self, shards: Shards) -> Iterator[ShardRef]:
        """Yield each shard once its texts are in files."""

        def every() -> Iterator[Shard]:
            self._summary = yield from shards

        # Holds no shard while it is scored and the next one is made.
        return map(self._add, every())

    def _add(self, shard: Shard) -> ShardRef:
        self._hashes.add(shard)
        self.has_images = self.has_images or bool(shard.items.images)
        arrays = {
            # Half the memory: fewer than 2**31 items fit in memory.
            "item_of_sample": shard.item_of_sample.astype(np.int32) + np.int32(self.n_items),
            "weights": shard.items.weights.astype(np.int32),
            "item_numbers": shard.item_numbers,
            "words": shard.words,
        }
        for name, array in arrays.items():
            if array is not None:
                self._arrays[name].append(array)
        for name, array in shard.numbers.items():
            self._numbers[name].append(array)
        ref = ShardRef(
            len(self.refs),
            self._files.put_named("items", shard.items),
            self._rows_of_shards.put_named("rows", dict(shard.columns)),
            self.rows,
            self.n_items,
            len(shard.items),
            self._hashes.add_images(shard.items) if self._hash_images else None,
        )
        self.rows += shard.rows
        self.n_items += len(shard.items)
        self.refs.append(ref)
        return ref

    @cached_property
    def distinct(self) -> tuple[np.ndarray, np.ndarray] | None:
        """``[k]`` the first index of each distinct item of all shards, ascending; ``[n]`` the distinct item of each.

        None where all items are distinct.
        """
        numbers = self._arrays.pop("item_numbers", [])
        if not numbers:
            return None
        of_item = first_seen(np.concatenate(numbers))
        first = np.unique(of_item, return_index=True)[1]
        return None if len(first) == len(of_item) else (first, of_item)

    @cached_property
    def weights(self) -> np.ndarray:
        """``[k]`` number of samples of each distinct item."""
        every = np.concatenate(self._arrays["weights"]).astype(np.float64)
        return every if self.distinct is None else np.bincount(self.distinct[1], every, len(self.distinct[0]))

    @cached_property
    def collected(self) -> Collected:
        """The items of the rows, and their numbers."""
        assert self._summary is not None  # noqa: S101 - the last shard was collected
        items = np.concatenate(self._arrays["item_of_sample"])
        return Collected(
            items if self.distinct is None else self.distinct[1][items],
            self.weights,
            {name: np.concatenate(numbers) for name, numbers in self._numbers.items()},
            self._summary,
            self.rows,
        )

    @property
    def words(self) -> np.ndarray | None:
        """``[rows]`` words of each caption; None where rows are not single captions."""
        return np.concatenate(words) if (words := self._arrays.get("words")) else None

    @property
    def data_hash(self) -> str:
        """Hash of the scored data."""
        return self._hashes.data

    @property
    def images_hash(self) -> str | None:
        """Hash of its images; None where there are none."""
        return self._hashes.images

    def columns(self) -> Iterator[Mapping[str, Sequence[Any]]]:
        """Yield the columns of the rows, shard by shard."""
        for ref in self.refs:
            yield self._rows_of_shards.read(ref.columns)

    def sample(self, row: int) -> tuple[str, ImageHandle | VideoHandle | None]:
        """Return the id and the image of a row that is a single caption."""
        ref = next(ref for ref in reversed(self.refs) if ref.first_row <= row)
        item = int(self._arrays["item_of_sample"][ref.number][row - ref.first_row]) - ref.first_item
        images = self._files.read(ref.items).images
        return self._rows_of_shards.read(ref.columns)["id"][row - ref.first_row], images[item] if images else None


def map_state(files: ShardFiles, name: str, metric: CorpusMetric, items: Items, context: Context) -> None:
    """Write the states of some items by corpus, in parts that can be read separately.

    Raises:
        MetricError: The metric has no state of them.
    """
    states: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for corpus, which in corpora(items):
        own = items if which is None else items.subset(which)
        parts = metric.partition(metric.state_map(own, context), PARTS)
        arrays = {array: [part[array] for part in parts] for array in parts[0]}
        states[str(corpus)] = {
            array: (np.concatenate(values), np.cumsum([0, *map(len, values)])) for array, values in arrays.items()
        }
    # Derived data that scoring needs again.
    files.put(name, {"states": states, "kept": dict(metric.keep(items)) if items.corpus is None else {}})


def merge_states(files: ShardFiles, name: str, metric: CorpusMetric, shards: Sequence[str]) -> None:
    """Write the merged state of each corpus over all shards, which workers map into memory.

    Args:
        files: The files.
        name: Name of the file to write.
        metric: The metric.
        shards: Names of the states of the shards.

    Raises:
        MetricError: No item of a corpus can be scored.
    """
    condensed: dict[str, list[State]] = defaultdict(list)
    for part in range(PARTS):
        waiting: dict[str, list[tuple[int, State]]] = defaultdict(list)
        for shard in shards:
            for corpus, arrays in files.read(shard)["states"].items():
                state = {array: values[ends[part] : ends[part + 1]] for array, (values, ends) in arrays.items()}
                # Merged pairwise with states of equal numbers of shards: ``log2 n`` copies of each, not ``n``.
                merged, count = waiting[corpus], 1
                while merged and merged[-1][0] == count:
                    state, count = metric.merge([merged.pop()[1], state]), 2 * count
                merged.append((count, state))
        for corpus, merged in waiting.items():
            condensed[corpus].append(metric.condense(metric.merge([state for _, state in merged])))
    files.put(name, {corpus: dict(metric.join(condensed[corpus])) for corpus in list(condensed)})


def merge_results(
    metrics: Sequence[PlannedMetric],
    corpus: ShardedCorpus,
    files: ShardFiles,
    results: Mapping[str, Sequence[str]],
    of_all: Mapping[str, str],
    errors: Mapping[str, str],
    failures: FailureLog,
) -> Scored:
    """Return the scores of all shards by metrics.

    Args:
        metrics: The metrics.
        corpus: The corpus.
        files: The files.
        results: Metric to the names of its results for each shard; '' to those of remarks.
        of_all: Metric to the name of its result for the distinct items of all.
        errors: Metric to the reason why it has no state of the corpus, and so no scores.
        failures: Receives items that metrics cannot score.
    """
    candidates: dict[tuple[int, str], Failure] = {}
    for ref, name in zip(corpus.refs, results[""], strict=True):
        shard: ShardScores = files.read(name)
        for item, text in shard.remarks.items():
            number = ref.first_item + item
            number = number if corpus.distinct is None else int(corpus.distinct[1][number])
            candidates.setdefault((number, text), Failure(shard.ids[item], "candidate", text))

    def pieces(metric: str) -> Iterator[PieceScores]:
        if metric in of_all:
            shards = [(of_all[metric], 0, len(corpus.weights), "")]
        else:
            # None where it has no state.
            refs = zip(results.get(metric, ()), corpus.refs, strict=False)
            shards = [(result, ref.first_item, ref.n_items, ref.items) for result, ref in refs]
        for result, first, size, items in shards:
            shard: ShardScores = files.read(result)
            scored = next(scored for scored in shard.metrics if scored.name == metric)
            ids = files.read(items).ids if scored.scores is None and items else shard.ids
            yield PieceScores(first, size, scored, ids)

    return merge_scores(metrics, corpus, pieces, candidates.values(), failures, of_all=of_all, errors=errors)
