"""Items that are scored as a run does it: a shard at a time, in any order, with what the corpus needs in files."""

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


def corpus_state(metric: CorpusMetric, states: Sequence[State], parts: int) -> State:
    """Return the whole state of a corpus, made part by part: the shards' states merged in twos and from the last."""
    of_shards = [list(map(stored, metric.partition(state, parts))) for state in states]
    condensed: list[State] = []
    for part in range(parts):
        merged = of_shards[-1][part]
        for shard in of_shards[-2::-1]:
            merged = metric.merge([merged, shard[part]])
        condensed.append(stored(metric.condense(merged)))
    return stored(metric.join(condensed[::-1]))


def in_order(pieces: Sequence[np.ndarray], of_pieces: Sequence[np.ndarray]) -> np.ndarray:
    """Return what the items of several pieces have, in the order of the items."""
    return np.concatenate(of_pieces)[np.argsort(np.concatenate(pieces))]


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
    state = corpus_state(metric, states, parts)
    scores, sums = [], []
    for which, arrays in zip(pieces, kept, strict=True):
        shard = items.subset(which)
        metric.restore(shard, arrays)
        scores.append(metric.score(shard, context, state))
        sums.append(stored(metric.sums(scores[-1], shard.weights)))
    ordered = Scores(
        in_order(pieces, [part.values for part in scores]),
        {name: in_order(pieces, [part.parts[name] for part in scores]) for name in scores[0].parts},
        {int(which[at]): why for which, part in zip(pieces, scores, strict=True) for at, why in part.failures.items()},
        {int(which[at]): note for which, part in zip(pieces, scores, strict=True) for at, note in part.remarks.items()},
    )
    return ordered, metric.value(add_sums(sums))
