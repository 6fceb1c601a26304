"""Items that are scored as a run does it: a shard at a time, in any order, with what the corpus needs in files."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import numpy as np

from capbench.metrics import Context, CorpusMetric, Items, Scores, State, add_sums


def shuffled(count: int, shards: int) -> list[np.ndarray]:
    """Return the indices of each shard, in an order that is not that of the items."""
    return np.array_split(np.random.default_rng(shards).permutation(count), shards)


def stored(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays as they come out of a file."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as read:
        return dict(read)


def parts_of_corpus(metric: CorpusMetric, states: Sequence[State], parts: int) -> list[State]:
    """Return the state of a corpus in parts, the shards' states merged in twos and from the last."""
    of_shards = [list(map(stored, metric.partition(state, parts))) for state in states]
    condensed: list[State] = []
    for part in range(parts):
        merged = of_shards[-1][part]
        for shard in of_shards[-2::-1]:
            merged = metric.merge([merged, shard[part]])
        condensed.append(stored(metric.condense(merged)))
    return condensed[::-1]


def corpus_state(metric: CorpusMetric, states: Sequence[State], parts: int) -> State:
    """Return the whole state of a corpus, made part by part."""
    return stored(metric.join(parts_of_corpus(metric, states, parts)))


def scored_in_shards(
    metric: CorpusMetric, items: Items, context: Context, shards: int, parts: int = 3
) -> tuple[Scores, float]:
    """Return the scores of items, in their order, and the corpus value."""
    pieces = shuffled(len(items), shards)
    states, kept = [], []
    for which in pieces:
        shard = items.subset(which)
        states.append(stored(metric.state_map(shard, context)))
        kept.append(stored(metric.keep(shard)))
    corpus = parts_of_corpus(metric, states, parts)
    scores, sums = [], []
    for which, arrays, own in zip(pieces, kept, states, strict=True):
        shard = items.subset(which)
        metric.restore(shard, arrays)
        told = zip(corpus, metric.partition(own, parts)[::-1], strict=True)
        state = metric.join([stored(metric.relevant(part, asked)) for part, asked in told])
        scores.append(metric.score(shard, context, state))
        sums.append(stored(metric.sums(scores[-1], shard.weights)))
    whole = Scores.concatenate(scores)
    back = np.argsort(np.concatenate(pieces))
    ordered = Scores(
        whole.values[back],
        {name: part[back] for name, part in whole.parts.items()},
        {item: whole.failures[at] for item, at in enumerate(back.tolist()) if at in whole.failures},
        {item: whole.remarks[at] for item, at in enumerate(back.tolist()) if at in whole.remarks},
    )
    return ordered, metric.value(add_sums(sums))
