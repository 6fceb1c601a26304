"""Pairs of more rows than fit into memory, counted exactly: a part of the range of the scores at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from .concordance import Concordance, PairCounts

Blocks = Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]]
"""Gives all rows anew at each call, block by block: scores and ratings, ``[b]`` each, finite."""

Cells = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Distinct pairs of a score and a rating, and how many rows have each."""


def counts_by_partitions(blocks: Blocks, rows_in_memory: int = 1_000_000) -> PairCounts:
    """Return the pairs of rows, as :class:`.concordance.Concordance` counts them in one go.

    Rows fall into parts by their score, and into parts by their rating. Two rows whose parts differ on both sides are
    told from the numbers of rows by part; two of one part of scores are counted in it, those of different parts of
    scores and one part of ratings in that, where the part stands for the score. So all rows are read once for the
    bounds, and once for each part; what is in memory at a time are the distinct (score, rating) of one part. Exact for
    as many rows as Concordance is.

    Args:
        blocks: Gives the rows.
        rows_in_memory: About how many rows a part has; about 250 bytes each.

    Raises:
        ValueError: A row is missing where rows are read again.
    """
    rows, sample = _sampled(blocks)
    wanted = -(-rows // rows_in_memory)
    score_bounds, human_bounds = (_bounds(values, wanted) for values in sample)
    by_parts = np.zeros((len(score_bounds) + 1, len(human_bounds) + 1))
    balance = tied_scores = tied_both = distinct_scores = 0
    for part in range(len(by_parts)):
        scores, human, weights = _cells(_of_part(blocks, score_bounds, part, by_score=True))
        counts = _counted(scores, human, weights)
        balance += counts.balance
        tied_scores, tied_both = tied_scores + counts.tied_scores, tied_both + counts.tied_both
        distinct_scores += counts.distinct_scores
        by_parts[part] = np.bincount(
            np.searchsorted(human_bounds, human, "right"), weights, minlength=by_parts.shape[1]
        )
    if int(by_parts.sum()) != rows:
        raise ValueError(f"there were {rows:,} rows, and {int(by_parts.sum()):,} when they were read again")
    tied_human = distinct_human = 0
    for part in range(by_parts.shape[1]):
        coded = (
            (np.searchsorted(score_bounds, scores, "right"), human)
            for scores, human in _of_part(blocks, human_bounds, part, by_score=False)
        )
        counts = _counted(*_cells(coded))
        balance += counts.balance
        tied_human += counts.tied_human
        distinct_human += counts.distinct_human
    of_score, of_human = np.nonzero(by_parts)
    balance += _counted(of_score, of_human, by_parts[of_score, of_human]).balance
    pairs = rows * (rows - 1) // 2
    return PairCounts(pairs, balance, tied_scores, tied_human, tied_both, distinct_scores, distinct_human)


def _counted(scores: np.ndarray, human: np.ndarray, weights: np.ndarray) -> PairCounts:
    return Concordance(scores, human).counts(weights)


_MOST_SAMPLED = 1_000_000


def _sampled(blocks: Blocks) -> tuple[int, tuple[np.ndarray, np.ndarray]]:
    """Return how many rows there are, and scores and ratings of some that stand at equal distances."""
    rows, step = 0, 1
    kept = [np.empty((2, 0))]
    for scores, human in blocks():
        kept.append(np.stack([scores, human])[:, -rows % step :: step])
        rows += len(scores)
        if sum(one.shape[1] for one in kept) > _MOST_SAMPLED:
            kept, step = [np.concatenate(kept, axis=1)[:, ::2]], 2 * step
    scores, human = np.concatenate(kept, axis=1)
    return rows, (scores, human)


def _bounds(values: np.ndarray, parts: int) -> np.ndarray:
    """Return where parts of about as many values begin, rising; a value falls into the part of its last bound."""
    if not len(values):
        return np.empty(0)
    ordered = np.sort(values)
    return np.unique(ordered[len(ordered) * np.arange(1, parts) // parts])


def _of_part(
    blocks: Blocks, bounds: np.ndarray, part: int, *, by_score: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for scores, human in blocks():
        inside = np.searchsorted(bounds, scores if by_score else human, "right") == part
        yield scores[inside], human[inside]


def _cells(blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> Cells:
    """Return the distinct rows and their numbers; equal rows of several blocks are merged as these become many."""
    whole = np.empty((3, 0))
    waiting: list[np.ndarray] = []
    for scores, human in blocks:
        waiting.append(np.stack([scores, human, np.ones(len(scores))]))
        if sum(one.shape[1] for one in waiting) > max(whole.shape[1], 100_000):
            whole, waiting = _merged([whole, *waiting]), []
    scores, human, weights = _merged([whole, *waiting])
    return scores, human, weights


def _merged(cells: list[np.ndarray]) -> np.ndarray:
    together = np.concatenate(cells, axis=1)
    together = together[:, np.lexsort((together[1], together[0]))]
    new = np.ones(together.shape[1], bool)
    new[1:] = (np.diff(together[:2], axis=1) != 0).any(axis=0)
    first = np.flatnonzero(new)
    if not len(first):
        return together
    return np.stack([*together[:2, first], np.add.reduceat(together[2], first)])
