"""Merges shards: the corpus that they are of, what metrics must know of all of it, and the scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from ...adapters import ImageHandle, VideoHandle
from ...metrics import Context, CorpusMetric, Items, Scores, State, add_sums
from ..inputs.failures import Failure, FailureLog
from ..protocols.job import Collected, ScoredMetric, Shard, Summary
from ..records.hashes import DataHash
from ..running.planned_metrics import PlannedMetric
from ..running.scoring import MetricScores, Scored, States, attempt, corpora, reviews
from ..statistics.rated_rows import first_seen
from .folders import Folder
from .shards import ShardFiles, ShardScores

PARTS = 32
"""Parts of a corpus' state, each of some n-grams, say: no more than one of all shards is in memory at a time."""


@dataclass(frozen=True)
class ShardRef:
    """A shard whose texts are in files.

    Attributes:
        number: Its number, from 0.
        items: Name of the file of its items.
        columns: Name of the file of its rows.
        first_row: Number of its first row.
        first_item: Number of its first item.
        n_items: How many items it has.
        images: Hash of its images; None where they do not matter.
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
        own: Where files of rows are, which only this process needs.
        hash_images: Whether something depends on what the files of images hold.

    Attributes:
        has_images: Whether any item has an image.
        is_in_files: Whether its rows lie in files, which go with the run.
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

    def collect(self, shards: Generator[Shard, None, Summary]) -> Iterator[ShardRef]:
        """Yield each shard once its texts are in files."""
        while True:
            try:
                shard = next(shards)
            except StopIteration as end:
                self._summary = end.value
                return
            ref = self._add(shard)
            # Nothing holds its texts while it is scored, and the next one made.
            del shard
            yield ref

    def _add(self, shard: Shard) -> ShardRef:
        self._hashes.add(shard)
        self.has_images = self.has_images or bool(shard.items.images)
        arrays = {
            # Half the memory: nobody has 2**31 items in memory.
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
        """``[k]`` where each distinct item of all shards occurs first, ascending, and ``[n]`` which of them each is.

        None where each item is one of its own.
        """
        numbers = self._arrays.pop("item_numbers", [])
        if len(self.refs) < 2 or not numbers:
            return None
        of_item = first_seen(np.concatenate(numbers))
        if not len(of_item) or of_item[-1] == len(of_item) - 1:
            return None
        # The first of each number is where the numbers reach a new height.
        return np.flatnonzero(np.diff(np.maximum.accumulate(of_item), prepend=-1)), of_item

    def number(self, item: int) -> int:
        """Return which distinct item one of all shards is."""
        return item if self.distinct is None else int(self.distinct[1][item])

    @cached_property
    def weights(self) -> np.ndarray:
        """``[k]`` how many samples each distinct item stands for."""
        every = np.concatenate(self._arrays["weights"]).astype(np.float64)
        return every if self.distinct is None else np.bincount(self.distinct[1], every, len(self.distinct[0]))

    @cached_property
    def collected(self) -> Collected:
        """Which items the rows are of, and their numbers."""
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
        """``[rows]`` words of each caption; None where rows are no single captions."""
        return np.concatenate(words) if (words := self._arrays.get("words")) else None

    @property
    def data_hash(self) -> str:
        """Hash of what is scored."""
        return self._hashes.data

    @property
    def images_hash(self) -> str | None:
        """Hash of the images that it is of; None where there are none."""
        return self._hashes.images

    def columns(self) -> Iterator[Mapping[str, Sequence[Any]]]:
        """Yield what the protocol says of the rows, shard by shard."""
        for ref in self.refs:
            yield self._rows_of_shards.read(ref.columns)

    def sample(self, row: int) -> tuple[str, ImageHandle | VideoHandle | None]:
        """Return the id and the image of a row that is a single caption."""
        ref = next(one for one in reversed(self.refs) if one.first_row <= row)
        item = int(self._arrays["item_of_sample"][ref.number][row - ref.first_row]) - ref.first_item
        images = self._files.read(ref.items).images
        return self._rows_of_shards.read(ref.columns)["id"][row - ref.first_row], images[item] if images else None


def map_state(files: ShardFiles, name: str, metric: CorpusMetric, items: Items, context: Context) -> None:
    """Write what some items say of their corpora: in parts, of which each can be read by itself.

    Raises:
        MetricError: The metric cannot tell.
    """
    states: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for corpus, which in corpora(items):
        own = items if which is None else items.subset(which)
        parts = metric.partition(metric.state_map(own, context), PARTS)
        arrays = {array: [part[array] for part in parts] for array in parts[0]}
        states[str(corpus)] = {
            array: (np.concatenate(values), np.cumsum([0, *map(len, values)])) for array, values in arrays.items()
        }
    # What was derived of them, and is needed again to score them.
    files.put(name, {"states": states, "kept": dict(metric.keep(items)) if items.corpus is None else {}})


def merge_states(files: ShardFiles, name: str, metric: CorpusMetric, shards: Sequence[str]) -> None:
    """Write the state of each corpus, that of all shards together, which workers map.

    Args:
        files: The files.
        name: That of what is written.
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
                # To those of as many shards: of ``n`` each is copied ``log2 n`` times, not ``n``.
                merged, count = waiting[corpus], 1
                while merged and merged[-1][0] == count:
                    state, count = metric.merge([merged.pop()[1], state]), 2 * count
                merged.append((count, state))
        for corpus, merged in waiting.items():
            condensed[corpus].append(metric.condense(metric.merge([state for _, state in merged])))
    files.put(name, {corpus: dict(metric.join(condensed[corpus])) for corpus in list(condensed)})


def merged_states(files: ShardFiles, name: str) -> States:
    """Return what :func:`merge_states` wrote, by corpus, mapped."""
    return {int(corpus): state for corpus, state in files.read(name).items()}


@dataclass
class _Merged:
    """What a metric made of all shards.

    Attributes:
        pieces: Items of each shard, and what it made of them; of parts, only those that are needed.
        like: The scores of no items, in all parts; None where none were scored.
    """

    pieces: list[tuple[int, Scores | None]] = field(default_factory=list[tuple[int, Scores | None]])
    like: Scores | None = None
    failures: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    remarks: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])
    sums: Mapping[str, np.ndarray] | None = None
    seconds: float = 0.0
    counted: int = 0
    error: str = ""
    of_model: str = ""

    def add(self, made: MetricScores, first: int, ids: Mapping[int, str] | Sequence[str], n: int, every: bool) -> None:
        """Add what was made of a shard of ``n`` items, of which some have ids; ``every`` part is needed, or few are."""
        self.seconds += made.seconds
        self.counted += made.counted
        if (scores := made.scores) is None:
            self.error = self.error or made.error
            self.of_model = self.of_model or (made.error if made.of_model else "")
            # Where it failed on all that there is, its error says so.
            self.failures |= {first + item: (ids[item], made.error) for item in range(len(ids))}
            self.pieces.append((n, None))
            return
        if made.sums is not None:
            self.sums = add_sums([made.sums] if self.sums is None else [self.sums, made.sums])
        self.failures |= {first + item: (ids[item], why) for item, why in scores.failures.items()}
        self.remarks += [(first + item, ids[item], why) for item, why in scores.remarks.items()]
        self.like = self.like or Scores(
            np.array(scores.values[:0]), {name: np.array(part[:0]) for name, part in scores.parts.items()}
        )
        # Copied: a file is mapped no longer than it is looked at.
        parts = {name: np.array(part) for name, part in scores.parts.items() if every or name == "truncated"}
        self.pieces.append((n, Scores(np.array(scores.values), parts)))

    def scores(self) -> Scores:
        """Return the scores of all items; NaN where the metric failed on a shard."""
        known = next((scores for _, scores in self.pieces if scores), Scores(np.zeros(0)))
        parts = {
            name: np.concatenate(
                [scores.parts[name] if scores else np.full((n, *part.shape[1:]), np.nan) for n, scores in self.pieces]
            )
            for name, part in known.parts.items()
        }
        return Scores(
            np.concatenate([scores.values if scores else np.full(n, np.nan) for n, scores in self.pieces]), parts
        )


def merge_scores(
    metrics: Sequence[PlannedMetric],
    corpus: ShardedCorpus,
    files: ShardFiles,
    results: Mapping[str, Sequence[str]],
    of_all: Mapping[str, str],
    errors: Mapping[str, str],
    failures: FailureLog,
) -> Scored:
    """Return what metrics made of all shards.

    Args:
        metrics: The metrics.
        corpus: What was scored.
        files: The files.
        results: Metric to the names of what it made of each shard; of '' of what is remarked on each.
        of_all: Metric to the name of what it made of the distinct items of all.
        errors: Metric to why it has no state of the corpus, and so no scores.
        failures: Receives what metrics cannot score.
    """
    candidates: dict[tuple[int, str], Failure] = {}
    for ref, name in zip(corpus.refs, results[""], strict=True):
        shard: ShardScores = files.read(name)
        for item, text in shard.remarks.items():
            remarked = Failure(shard.ids[item], "candidate", text)
            candidates.setdefault((corpus.number(ref.first_item + item), text), remarked)
    scored: list[ScoredMetric] = []
    remarks: list[Failure] = []
    seconds, counts = dict[str, float](), dict[str, int]()
    for planned in metrics:
        name, merged = planned.name, _Merged()
        every = planned.aggregation == "corpus" and not planned.aggregate.has_sums
        if is_of_all := name in of_all:
            shards = [(of_all[name], "", 0, len(corpus.weights))]
        else:
            # None where it has no state.
            refs = zip(results.get(name, ()), corpus.refs, strict=False)
            shards = [(result, ref.items, ref.first_item, ref.n_items) for result, ref in refs]
        for result, items, first, n in shards:
            made, ids = _of_metric(files, result, name)
            ids = files.read(items).ids if made.scores is None and not is_of_all else ids
            merged.add(made, first, ids, n, every)
        told: dict[tuple[int, str], Failure] = {}
        for item, identity, text in merged.remarks:
            told.setdefault((item if is_of_all else corpus.number(item), text), Failure(identity, "image", text))
        remarks += told.values()
        error = errors.get(name) or merged.of_model or ("" if merged.like else merged.error)
        if not error and reviews(planned.metric):
            said, error = attempt(partial(planned.metric.review, _pieces(files, name, [one[0] for one in shards])))
            remarks += [Failure(name, "metric", text) for text in said or ()]
        seconds[name], counts[name] = merged.seconds, 0 if error and merged.of_model else merged.counted
        if error:
            scored.append(ScoredMetric(name, planned.metric, planned.aggregation, None, error))
            continue
        if not is_of_all:
            merged.failures = dict(sorted(merged.failures.items()))
        chosen = None if is_of_all or corpus.distinct is None else corpus.distinct[0]
        sizes = [(result, n) for result, _, _, n in shards]
        scored.append(_scored_metric(planned, merged, chosen, failures, files, sizes))
    return Scored(corpus, scored, seconds, counts, list(dict.fromkeys([*remarks, *candidates.values()])))


def _of_metric(files: ShardFiles, result: str, metric: str) -> tuple[MetricScores, Mapping[int, str]]:
    """Return what a metric made of a shard, and the ids of the items that it has something to say of."""
    shard: ShardScores = files.read(result)
    return next(one for one in shard.metrics if one.name == metric), shard.ids


def _scored_metric(
    planned: PlannedMetric,
    merged: _Merged,
    chosen: np.ndarray | None,
    failures: FailureLog,
    files: ShardFiles,
    shards: Sequence[tuple[str, int]],
) -> ScoredMetric:
    """Return the scores of distinct items: each has that of the first."""
    scores, lost = merged.scores(), merged.failures
    if chosen is not None:
        scores = Scores(scores.values[chosen], {name: part[chosen] for name, part in scores.parts.items()})
        lost = {place: lost[item] for place, item in enumerate(chosen.tolist()) if item in lost} if lost else {}
    for identity, reason in lost.values():
        failures.add(identity, "metric", f"{planned.name}: {reason}")
    scores.failures.update({item: reason for item, (_, reason) in lost.items()})
    terms = None
    if merged.sums is not None:
        assert merged.like is not None  # noqa: S101 - it has sums
        width = planned.aggregate.terms(merged.like).shape[1]
        terms = partial(_terms, files, planned, shards, width, chosen)
    return ScoredMetric(planned.name, planned.metric, planned.aggregation, scores, "", merged.sums, terms)


def _pieces(files: ShardFiles, metric: str, names: Iterable[str]) -> Iterator[tuple[Scores, Mapping[int, str]]]:
    """Yield what a metric made of each shard, and the ids of the items that it could not score."""
    for name in names:
        made, ids = _of_metric(files, name, metric)
        if made.scores is not None:
            yield made.scores, {item: ids[item] for item in made.scores.failures}


def _terms(
    files: ShardFiles, planned: PlannedMetric, shards: Sequence[tuple[str, int]], width: int, chosen: np.ndarray | None
) -> Iterator[np.ndarray]:
    """Yield ``[m, t]`` what distinct items add to the sums of a metric, shard by shard."""
    first = 0
    for name, size in shards:
        made, _ = _of_metric(files, name, planned.name)
        piece = np.zeros((size, width)) if made.scores is None else planned.aggregate.terms(made.scores)
        if chosen is None:
            yield piece
        else:
            yield piece[chosen[slice(*np.searchsorted(chosen, [first, first + size]))] - first]
        first += size
