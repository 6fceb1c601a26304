"""Counts of concordant, discordant and tied pairs of weighted rows, for all Kendall taus."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .contract import dot


@dataclass(frozen=True)
class PairCounts:
    """The pairs of rows, each counted once; a row of weight ``k`` stands for ``k`` equal rows.

    Attributes:
        pairs: All pairs, ``W (W - 1) / 2`` for a total weight ``W``.
        balance: Concordant minus discordant pairs, ``C - D``.
        tied_scores: Pairs of equal score, with any ratings.
        tied_human: Pairs of equal rating, with any scores.
        distinct_scores: Number of distinct scores of positive weight.
        distinct_human: Number of distinct ratings of positive weight.
    """

    pairs: int
    balance: int
    tied_scores: int
    tied_human: int
    distinct_scores: int
    distinct_human: int

    @property
    def rows(self) -> int:
        """Total weight, ``W``; 1 where there is none, which has no pair either."""
        return (1 + math.isqrt(1 + 8 * self.pairs)) // 2


class Concordance:
    """Counts pairs of rows for any weights; the sorting is done once.

    Rows of equal score and rating are merged into one cell. The values of the side with fewer distinct ones
    (mostly the ratings) are the leaves of a binary tree; every pair of rows that differs there is split by
    exactly one node, one row going to its lower and one to its upper half. A node therefore counts its
    pairs with one cumulative sum over its lower cells in the order of the other side. All nodes are laid end
    to end, so that a count is a handful of array operations on ``cells · depth / 2`` numbers. Nodes are
    halved by their number of cells, which makes the mean depth the entropy (in bits) of the values: about 2
    for ratings of four levels, below 16 for 50,000 different ratings. The tree is kept for the weights of a bootstrap;
    rows as they are (all weights 1) are counted level by level, in memory that does not grow with its depth.

    Counts are exact as long as no intermediate sum passes 2^53, which 90 million rows never do.

    Args:
        scores: ``[n]``, finite.
        human: ``[n]``, finite.

    Attributes:
        cell_of_row: ``[n]`` the cell of each row.
        score_code: ``[cells]`` rank of the cell's score among the distinct scores, from 0.
        human_code: ``[cells]`` rank of the cell's rating among the distinct ratings, from 0.
    """

    def __init__(self, scores: np.ndarray, human: np.ndarray) -> None:
        distinct_scores, score_code = np.unique(scores, return_inverse=True)
        distinct_human, human_code = np.unique(human, return_inverse=True)
        self._score_levels = len(distinct_scores)
        self._human_levels = len(distinct_human)
        # In place, and let go of: of a million rows each copy is 8 MB.
        score_code *= self._human_levels
        score_code += human_code
        del human_code, distinct_scores, distinct_human
        cells, self.cell_of_row = np.unique(score_code, return_inverse=True)
        self.score_code, self.human_code = np.divmod(cells, max(self._human_levels, 1))
        self._latest: tuple[np.ndarray, PairCounts] | None = None

    @cached_property
    def rows_of_cell(self) -> np.ndarray:
        """How many rows each cell holds, ``[cells]`` float64."""
        return np.bincount(self.cell_of_row, minlength=len(self.score_code)).astype(np.float64)

    @cached_property
    def balance_of_cell(self) -> np.ndarray:
        """Of a row of each cell: rows that it is concordant with, less those that it is discordant with."""
        balances = np.zeros(len(self.score_code))
        for level in self._levels():
            level.add_balances(self.rows_of_cell, balances)
        return balances

    def cell_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return the total weight of each cell, ``[cells]`` float64, for row weights ``[n]``."""
        return np.bincount(self.cell_of_row, weights, minlength=len(self.score_code))

    def score_weights(self, cell_weights: np.ndarray) -> np.ndarray:
        """Return the total weight of each distinct score in ascending order."""
        return np.bincount(self.score_code, cell_weights, minlength=self._score_levels)

    def human_weights(self, cell_weights: np.ndarray) -> np.ndarray:
        """Return the total weight of each distinct rating in ascending order."""
        return np.bincount(self.human_code, cell_weights, minlength=self._human_levels)

    def counts(self, weights: np.ndarray) -> PairCounts:
        """Count the pairs of rows with integer weights ``[n]``.

        The counts of the latest weights are kept when their array is read-only: tau-b and tau-c of one
        bootstrap resample then count once.
        """
        latest = self._latest
        if latest is not None and latest[0] is weights:
            return latest[1]
        counts = self._count(weights)
        # A writable array may have other values at the next call.
        if not weights.flags.writeable:
            self._latest = (weights, counts)
        return counts

    def _count(self, weights: np.ndarray) -> PairCounts:
        is_rows = bool((weights == 1).all())
        cells = self.rows_of_cell if is_rows else self.cell_weights(weights)
        by_score, by_human = self.score_weights(cells), self.human_weights(cells)
        total = int(by_human.sum())
        fewer = by_human if self._tree_is_human else by_score
        return PairCounts(
            pairs=total * (total - 1) // 2,
            balance=int(dot(cells, self.balance_of_cell)) // 2 if is_rows else self._balance(cells, fewer),
            tied_scores=_pairs_within(by_score, total),
            tied_human=_pairs_within(by_human, total),
            distinct_scores=int(np.count_nonzero(by_score)),
            distinct_human=int(np.count_nonzero(by_human)),
        )

    @property
    def _tree_is_human(self) -> bool:
        return self._human_levels <= self._score_levels

    @cached_property
    def _tree(self) -> tuple[np.ndarray, ...]:
        """All levels of the tree, end to end: attributes as those of a level, but for ``ends``."""
        levels: list[tuple[np.ndarray, ...]] = [(np.zeros(0, np.intp),) * 4 + (np.zeros((0, 3), np.intp),)]
        done = 0
        for level in self._levels():
            levels.append((level.lower, level.upper, level.below + done, level.upto + done, level.bounds))
            done += len(level.lower)
        return tuple(np.concatenate(parts) for parts in zip(*levels, strict=True))

    def _balance(self, cell_weights: np.ndarray, leaf_weights: np.ndarray) -> int:
        """Return concordant minus discordant pairs.

        Of the lower cells of its node, an upper cell is concordant with those below it on the other side and
        discordant with those above. With ``S`` the cumulative weight of all lower cells, a node's from
        ``S[first]`` to ``S[last]``, that is ``(S[below] - S[first]) - (S[last] - S[upto])``.
        """
        lower, upper, below, upto, bounds = self._tree
        cumulative = np.zeros(len(lower) + 1)
        np.cumsum(cell_weights[lower], out=cumulative[1:])
        around = cumulative[below] + cumulative[upto]

        before = np.concatenate([[0.0], np.cumsum(leaf_weights)])
        start, split, stop = before[bounds.T]
        node_lower, node_upper = split - start, stop - split
        # S[first] + S[last] of a node, from the leaves alone.
        edges = 2 * np.cumsum(node_lower) - node_lower
        return int(dot(cell_weights[upper], around) - dot(node_upper, edges))

    def _levels(self) -> Iterator[_Level]:
        if self._tree_is_human:
            return _levels(self.score_code, self.human_code, self._human_levels)
        return _levels(self.human_code, self.score_code, self._score_levels)


def _pairs_within(weights: np.ndarray, total: int) -> int:
    return (int(dot(weights, weights)) - total) // 2


class _Level(NamedTuple):
    """The nodes of one level, end to end, each with its lower and upper cells in the order of the other side.

    Attributes:
        lower: ``[m]`` the lower cells of all nodes.
        upper: ``[k]`` the upper cells of all nodes.
        below: ``[k]`` how many of ``lower`` come before each upper cell: those of earlier nodes, and those
            of the same node that are smaller on the other side.
        upto: ``[k]`` the same, with those of the same node that are equal on the other side.
        bounds: ``[nodes, 3]`` leaves of a node: lower half ``[0]:[1]``, upper half ``[1]:[2]``.
        ends: ``[nodes, 2]`` where the lower and the upper cells of a node end.
    """

    lower: np.ndarray
    upper: np.ndarray
    below: np.ndarray
    upto: np.ndarray
    bounds: np.ndarray
    ends: np.ndarray

    def add_balances(self, cell_weights: np.ndarray, balances: np.ndarray) -> None:
        """Add to ``found [cells]`` what each cell is concordant with in this level, less what it is discordant with.

        Of the lower cells of its node, an upper cell is concordant with those below it on the other side and
        discordant with those above; and a lower cell with the upper ones the other way round.
        """
        sizes = np.diff(self.ends, axis=0, prepend=0)
        (lower_sizes, upper_sizes), (lower_ends, upper_ends) = sizes.T, self.ends.T
        # Term by term: of a million rows each array is 4 MB and more.
        weight = np.concatenate([[0.0], np.cumsum(cell_weights[self.lower])])
        balances[self.upper] += weight[self.below]
        balances[self.upper] += weight[self.upto]
        balances[self.upper] -= np.repeat(weight[lower_ends - lower_sizes] + weight[lower_ends], upper_sizes)
        weight = np.concatenate([[0.0], np.cumsum(cell_weights[self.upper])])
        balances[self.lower] += np.repeat(weight[upper_ends - upper_sizes] + weight[upper_ends], lower_sizes)
        # Upper cells that do not have the lower one at some place below them, and those that have it above them.
        for not_over in (self.below, self.upto):
            balances[self.lower] -= weight[np.cumsum(np.bincount(not_over, minlength=len(self.lower) + 1))[:-1]]


def _levels(other: np.ndarray, leaf: np.ndarray, leaves: int) -> Iterator[_Level]:
    """Yield the levels of the tree of cells with integer codes ``other [cells]`` and ``leaf [cells] < leaves``."""
    cells_before = np.concatenate([[0], np.cumsum(np.bincount(leaf, minlength=leaves))])
    order = np.argsort(other, kind="stable")
    bounds = np.array([[0, leaves]])
    while True:
        bounds = bounds[bounds[:, 1] - bounds[:, 0] > 1]
        if not len(bounds):
            return
        start, stop = bounds.T
        half = (cells_before[start] + cells_before[stop]) / 2
        split = np.clip(np.searchsorted(cells_before, half), start + 1, stop - 1)

        node_of_leaf = np.full(leaves, -1, np.int32)
        sizes = stop - start
        inside = np.repeat(start - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))
        node_of_leaf[inside] = np.repeat(np.arange(len(bounds)), sizes)

        node = node_of_leaf[leaf[order]]
        order, node = order[node >= 0], node[node >= 0]
        by_node = np.argsort(node, kind="stable")
        order, node = order[by_node], node[by_node]
        del by_node
        is_upper = leaf[order] >= split[node]
        place: np.ndarray = node * (other.max() + 1) + other[order]
        lower, upper = place[~is_upper], place[is_upper]
        del place, node
        below, upto = (np.searchsorted(lower, upper, side) for side in ("left", "right"))
        del lower, upper
        halves = np.stack([start, split, stop], axis=1)
        ends = np.cumsum(np.diff(cells_before[halves], axis=1), axis=0)
        yield _Level(order[~is_upper], order[is_upper], below, upto, halves, ends)
        bounds = np.stack([start, split, split, stop], axis=1).reshape(-1, 2)
