"""Merges what shards hold: what metrics must know of a whole corpus, and the scores of all shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ...metrics import Context, CorpusMetric, Items, Scores, State, add_sums
from ..inputs.failures import Failure, FailureLog
from ..protocols.job import ScoredMetric
from ..running.planned_metrics import PlannedMetric
from ..running.scoring import MetricScores, Scored, States, attempt, corpora, reviews
from .collecting import ShardedCorpus
from .shards import ShardFiles

PARTS = 32
"""Parts of a corpus' state, each of some n-grams, say: no more than one of all shards is in memory at a time."""


def map_state(files: ShardFiles, name: str, metric: CorpusMetric, items: Items, context: Context) -> None:
    """Write what some items say of their corpora: in parts, of which each can be read by itself.

    Raises:
        MetricError: The metric cannot tell.
    """
    columns: dict[str, np.ndarray] = {}
    for corpus, which in corpora(items):
        own = items if which is None else items.subset(which)
        parts = metric.partition(metric.state_map(own, context), PARTS)
        for array in parts[0]:
            values = [part[array] for part in parts]
            columns[f"{corpus}/{array}"] = np.concatenate(values)
            columns[f"{corpus}/{array}/ends"] = np.cumsum([0, *map(len, values)])
    if items.corpus is None:
        # What was derived of them, and is needed again to score them.
        columns |= {f"kept/{array}": values for array, values in metric.keep(items).items()}
    files.put(name, columns)


def restore(files: ShardFiles, name: str, metric: CorpusMetric, items: Items) -> None:
    """Give items what was derived of them when their state was mapped."""
    columns, _ = files.read(name)
    if kept := _named(columns, "kept/"):
        metric.restore(items, kept)


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
    condensed: dict[str, list[State]] = {}
    for part in range(PARTS):
        waiting: dict[str, list[tuple[int, State]]] = {}
        for shard in shards:
            for corpus, state in _states_of(files, shard, part).items():
                _add_in_twos(metric, waiting.setdefault(corpus, []), state)
        for corpus, merged in waiting.items():
            whole = metric.merge([state for _, state in merged])
            condensed.setdefault(corpus, []).append(metric.condense(whole))
    joined = {corpus: metric.join(parts) for corpus, parts in condensed.items()}
    condensed.clear()
    files.put(
        name, {f"{corpus}/{array}": values for corpus, state in joined.items() for array, values in state.items()}
    )


def _states_of(files: ShardFiles, shard: str, part: int) -> dict[str, State]:
    """Return a part of what a shard says of its corpora, by these."""
    columns, _ = files.read(shard)
    states: dict[str, dict[str, np.ndarray]] = {}
    for key, ends in columns.items():
        name, _, last = key.rpartition("/")
        corpus, _, array = name.partition("/")
        if last == "ends" and corpus != "kept":
            states.setdefault(corpus, {})[array] = columns[name][ends[part] : ends[part + 1]]
    return dict(states)


def _add_in_twos(metric: CorpusMetric, waiting: list[tuple[int, State]], state: State) -> None:
    """Add the state of a shard to those of as many: of ``n`` shards each is copied ``log2 n`` times, not ``n``."""
    shards = 1
    while waiting and waiting[-1][0] == shards:
        _, other = waiting.pop()
        state, shards = metric.merge([other, state]), 2 * shards
    waiting.append((shards, state))


def merged_states(files: ShardFiles, name: str) -> States:
    """Return what :func:`merge_states` wrote, by corpus, mapped."""
    states: dict[int, dict[str, np.ndarray]] = {}
    for key, values in files.read(name)[0].items():
        corpus, _, array = key.partition("/")
        states.setdefault(int(corpus), {})[array] = values
    return dict(states)


def _named(columns: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): one for name, one in columns.items() if name.startswith(prefix)}


@dataclass
class _Merged:
    """What a metric made of all shards so far."""

    planned: PlannedMetric
    values: list[np.ndarray] = field(default_factory=list[np.ndarray])
    parts: dict[str, list[np.ndarray]] = field(default_factory=dict[str, list[np.ndarray]])
    failures: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    remarks: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])
    sums: Mapping[str, np.ndarray] | None = None
    is_scored: bool = False
    seconds: float = 0.0
    counted: int = 0
    error: str = ""
    of_model: str = ""
    first_scores: Scores | None = None
    unscored: int = 0
    """Items of shards on which the metric failed before any other was scored."""

    def add(self, made: MetricScores, first: int, ids: Mapping[int, str] | Sequence[str], n_items: int) -> None:
        """Add what it made of a shard.

        Args:
            made: That.
            first: Number of the shard's first item.
            ids: Ids of its items, at least of those that have a failure or remark.
            n_items: How many it has.
        """
        self.seconds += made.seconds
        self.counted += made.counted
        if (scores := made.scores) is None:
            self.error = self.error or made.error
            self.of_model = self.of_model or (made.error if made.of_model else "")
            # Where it failed on all that there is, its error says so.
            self.failures |= {first + item: (ids[item], made.error) for item in range(len(ids))}
            self.values.append(np.full(n_items, np.nan))
            self._add_parts(None, n_items)
            return
        self.is_scored = True
        if made.sums is not None:
            self.sums = add_sums([made.sums] if self.sums is None else [self.sums, made.sums])
        self.failures |= {first + item: (ids[item], why) for item, why in scores.failures.items()}
        self.remarks += [(first + item, ids[item], why) for item, why in scores.remarks.items()]
        self.values.append(np.array(scores.values))
        if self.first_scores is None:
            self.first_scores = _no_items(scores)
        self._add_parts(scores, n_items)

    def _add_parts(self, scores: Scores | None, n_items: int) -> None:
        """Keep what is counted, and what a corpus value is made of that must see all scores."""
        if self.first_scores is None:
            self.unscored += n_items
            return
        every = self.planned.aggregation == "corpus" and not self.planned.aggregate.has_sums
        for name, like in self.first_scores.parts.items():
            if not every and name != "truncated":
                continue
            numbers = self.parts.setdefault(name, [])
            if self.unscored:
                numbers.append(np.full((self.unscored, *like.shape[1:]), np.nan))
            part = np.full((n_items, *like.shape[1:]), np.nan) if scores is None else scores.parts[name]
            numbers.append(np.array(part))
        self.unscored = 0


def _no_items(scores: Scores) -> Scores:
    return Scores(scores.values[:0], {name: part[:0].copy() for name, part in scores.parts.items()})


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
    merged = {one.name: _Merged(one) for one in metrics}
    candidates: dict[tuple[int, str], Failure] = {}
    for number, ref in enumerate(corpus.refs):
        for name in dict.fromkeys(names[number] for names in results.values()):
            shard = files.scores(name)
            for made in shard.metrics:
                ids = shard.ids if made.scores is not None else files.items(ref.items).ids
                merged[made.name].add(made, ref.first_item, ids, ref.n_items)
            for item, text in shard.remarks.items():
                key = corpus.number(ref.first_item + item), text
                candidates.setdefault(key, Failure(shard.ids[item], "candidate", text))
    for metric, name in of_all.items():
        shard = files.scores(name)
        merged[metric].add(shard.metrics[0], 0, shard.ids, len(corpus.weights))
    scored: list[ScoredMetric] = []
    remarks: list[Failure] = []
    for planned in metrics:
        one, is_of_all = merged[planned.name], planned.name in of_all
        told: dict[tuple[int, str], Failure] = {}
        for item, identity, text in one.remarks:
            number = item if is_of_all else corpus.number(item)
            told.setdefault((number, text), Failure(identity, "image", text))
        remarks += told.values()
        names = [of_all[planned.name]] if is_of_all else results.get(planned.name, ())
        error = errors.get(planned.name) or one.of_model or ("" if one.is_scored else one.error)
        if not error and reviews(planned.metric):
            said, error = attempt(partial(planned.metric.review, _pieces(files, planned, names)))
            remarks += [Failure(planned.name, "metric", text) for text in said or ()]
        if error:
            scored.append(ScoredMetric(planned.name, planned.metric, planned.aggregation, None, error))
            one.counted = 0 if one.of_model else one.counted
            continue
        sizes = [len(corpus.weights)] if is_of_all else [ref.n_items for ref in corpus.refs]
        chosen = None if is_of_all or corpus.distinct is None else corpus.distinct[0]
        if not is_of_all:
            one.failures = dict(sorted(one.failures.items()))
        scored.append(_scored_metric(one, chosen, failures, files, list(zip(names, sizes, strict=True))))
    return Scored(
        corpus,
        scored,
        {name: one.seconds for name, one in merged.items()},
        {name: one.counted for name, one in merged.items()},
        list(dict.fromkeys([*remarks, *candidates.values()])),
    )


def _scored_metric(
    one: _Merged, chosen: np.ndarray | None, failures: FailureLog, files: ShardFiles, shards: Sequence[tuple[str, int]]
) -> ScoredMetric:
    """Return the scores of distinct items: each has that of the first."""
    planned, values = one.planned, np.concatenate(one.values)
    parts = {name: np.concatenate(numbers) for name, numbers in one.parts.items()}
    lost = one.failures
    if chosen is not None:
        values = values[chosen]
        parts = {name: part[chosen] for name, part in parts.items()}
        places = {item: place for place, item in enumerate(chosen.tolist()) if item in lost} if lost else {}
        lost = {place: lost[item] for item, place in places.items()}
    for identity, reason in lost.values():
        failures.add(identity, "metric", f"{planned.name}: {reason}")
    scores = Scores(values, parts, {item: reason for item, (_, reason) in lost.items()})
    terms = None
    if one.sums is not None:
        assert one.first_scores is not None  # noqa: S101 - it has sums
        width = planned.aggregate.terms(one.first_scores).shape[1]
        terms = partial(_terms, files, planned, shards, width, chosen)
    return ScoredMetric(planned.name, planned.metric, planned.aggregation, scores, "", one.sums, terms)


def _pieces(
    files: ShardFiles, planned: PlannedMetric, names: Iterable[str]
) -> Iterator[tuple[Scores, Mapping[int, str]]]:
    """Yield what a metric made of each shard, and the ids of the items that it could not score."""
    for name in names:
        shard = files.scores(name)
        made = next(one for one in shard.metrics if one.name == planned.name)
        if made.scores is not None:
            yield made.scores, {item: shard.ids[item] for item in made.scores.failures}


def _terms(
    files: ShardFiles, planned: PlannedMetric, shards: Sequence[tuple[str, int]], width: int, chosen: np.ndarray | None
) -> Iterator[np.ndarray]:
    """Yield ``[m, t]`` what distinct items add to the sums of a metric, shard by shard."""
    first = 0
    for name, size in shards:
        made = next(one for one in files.scores(name).metrics if one.name == planned.name)
        piece = np.zeros((size, width)) if made.scores is None else planned.aggregate.terms(made.scores)
        if chosen is None:
            yield piece
        else:
            yield piece[chosen[slice(*np.searchsorted(chosen, [first, first + size]))] - first]
        first += size
