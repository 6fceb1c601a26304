"""Means over categories, which may have categories in turn: ``Object/large/vg``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from ...statistics.contract import UndefinedStatistic


class CategoryMeans:
    """The mean of rows of each category, the mean of these, level by level.

    Each category of a level weighs the same, however few rows it has. A category of which a resample draws no row is in
    no mean of that resample.

    Args:
        names: The categories, with levels separated by ``/``.
        of_row: ``[n]`` which of them a row is of.
        average_over: ``entries`` makes the mean of all rows instead.
        least: Categories with fewer rows are left out.
        left_out: These are, too.
        decimals: The mean of each category is rounded to so many before means are made of it; None rounds nothing.
    """

    def __init__(
        self,
        names: Sequence[str],
        of_row: np.ndarray,
        *,
        average_over: str = "categories",
        least: int = 1,
        left_out: Sequence[str] = (),
        decimals: int | None = None,
    ) -> None:
        self._average_over, self._least, self._decimals = average_over, least, decimals
        self._names, self._all_rows = names, of_row
        sizes = np.bincount(of_row, minlength=len(names))
        kept = np.flatnonzero((sizes >= least) & ~np.isin(names, left_out))
        place = np.full(len(names), -1)
        place[kept] = np.arange(len(kept))
        self._used = place[of_row] >= 0
        self._paths = [tuple(names[one].split("/")) for one in kept.tolist()]
        self._leaf = place[of_row]
        self._parents = _parents(self._paths)
        if average_over == "entries":
            self._leaf, self._parents = np.where(self._used, 0, -1), [np.zeros(1, dtype=np.int64)]

    @property
    def rows(self) -> int:
        """How many rows are in the mean."""
        return int(self._used.sum())

    def names(self, levels: int) -> list[str]:
        """Return the categories of the first levels, parents before their children, in the order of the rows."""
        if len(set(self._paths)) < 2:
            return []
        found = dict.fromkeys(
            "/".join(path[:level]) for path in self._paths for level in range(1, min(levels, len(path)) + 1)
        )
        rank = {name: number for number, name in enumerate(found)}
        return sorted(found, key=lambda name: [rank[part] for part in _prefixes(name)])

    def below(self, name: str) -> tuple[np.ndarray, Self]:
        """Return which rows ``[n]`` are of a category, and the means of these alone.

        Args:
            name: A category of any level.
        """
        inside = np.array([one == name or one.startswith(f"{name}/") for one in self._names])
        mask = inside[self._all_rows] & self._used
        numbers = np.flatnonzero(inside)
        renumbered = np.zeros(len(self._names), dtype=np.int64)
        renumbered[numbers] = np.arange(len(numbers))
        rest = [self._names[one].removeprefix(name).removeprefix("/") for one in numbers.tolist()]
        means = type(self)(
            rest,
            renumbered[self._all_rows[mask]],
            average_over=self._average_over,
            least=self._least,
            decimals=self._decimals,
        )
        return mask, means

    def value(self, credit: np.ndarray, weights: np.ndarray) -> float:
        """Return the mean.

        Args:
            credit: ``[n]`` what each row counts.
            weights: ``[n]`` how often it does.

        Raises:
            UndefinedStatistic: No row counts.
        """
        means, _ = self._leaves(credit, weights)
        for parent in self._parents:
            means = _grouped(means, parent)[0]
        if not len(means) or not np.isfinite(means[0]):
            raise UndefinedStatistic(f"no category has {self._least} entries" if not self.rows else "no entry is drawn")
        return float(means[0])

    def influence(self, credit: np.ndarray) -> np.ndarray:
        """Return ``[n]`` the influence of each row on the mean; rounding is left aside."""
        means, sizes = self._leaves(credit, np.ones(len(credit)))
        share = np.ones(1)
        for parent in reversed(self._parents):
            share = (share / np.bincount(parent))[parent]
        of_row = share[self._leaf] * (credit - means[self._leaf]) / sizes[self._leaf]
        return np.where(self._used, of_row, 0.0)

    def _leaves(self, credit: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of each category, NaN where it has none, and how many rows it has."""
        used, count = self._used, len(self._parents[0])
        sizes = np.bincount(self._leaf[used], weights[used], minlength=count)
        sums = np.bincount(self._leaf[used], (weights * credit)[used], minlength=count)
        means = np.divide(sums, sizes, out=np.full(count, np.nan), where=sizes > 0)
        return (means if self._decimals is None else np.round(means, self._decimals)), sizes


def _prefixes(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _parents(paths: Sequence[tuple[str, ...]]) -> list[np.ndarray]:
    """Return for each level, from the lowest up, the number of each category's parent; there is one at the top."""
    parents: list[np.ndarray] = []
    level: list[tuple[str, ...]] = list(paths)
    for depth in range(max(map(len, paths), default=1) - 1, -1, -1):
        above = list(dict.fromkeys(path[:depth] for path in level))
        parents.append(np.array([above.index(path[:depth]) for path in level], dtype=np.int64))
        level = above
    return parents


def _grouped(means: np.ndarray, parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the children of each parent that have one, and how many these are."""
    there = np.isfinite(means)
    count = int(parent.max()) + 1 if len(parent) else 0
    sizes = np.bincount(parent[there], minlength=count)
    sums = np.bincount(parent[there], means[there], minlength=count)
    return np.divide(sums, sizes, out=np.full(count, np.nan), where=sizes > 0), sizes
