"""Rows of scores and ratings for statistics, from rated samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from .contract import RatedScores


@dataclass(frozen=True)
class Ratings:
    """The ratings of ``n`` samples, ``r`` in all.

    Attributes:
        values: ``[r]`` float64, those of one sample in a row; NaN stands for a rater who gave none.
        counts: ``[n]`` number of ratings of each sample.
    """

    values: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, rated: Sequence[Sequence[float]]) -> Ratings:
        """Return the ratings of samples, each given as a list."""
        counts = np.fromiter(map(len, rated), np.int64, len(rated))
        return cls(np.fromiter(chain.from_iterable(rated), np.float64, int(counts.sum())), counts)

    @property
    def samples(self) -> np.ndarray:
        """``[r]`` the sample of each rating."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def first_seen(names: Sequence[str] | np.ndarray) -> np.ndarray:
    """Return ``[n]`` int32: names, or integers, numbered in the order in which they first occur."""
    if not isinstance(names, np.ndarray):
        numbers: dict[str, int] = {}
        return np.fromiter((numbers.setdefault(name, len(numbers)) for name in names), np.int32, len(names))
    order = np.argsort(names, kind="stable").astype(np.int32)
    ordered = names[order]
    is_first = np.ones(len(names), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    del ordered
    first = order[is_first]
    if len(first) == len(names):
        return np.arange(len(names), dtype=np.int32)
    # Each name by its place among the sorted ones, and each of these by where it first occurs.
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    codes = np.empty(len(names), np.int32)
    codes[order] = np.repeat(rank, np.diff(np.append(np.flatnonzero(is_first), len(names))))
    return codes


def rated_rows(
    images: Sequence[str] | np.ndarray,
    ratings: Ratings,
    scores: np.ndarray,
    raters: str,
    decimals: int | None = None,
    systems: Sequence[str] | np.ndarray | None = None,
    categories: np.ndarray | None = None,
) -> list[RatedScores]:
    """Return one set of rows, or one a rater, without the samples that have no score.

    Args:
        images: ``[samples]`` image of each sample: its name, or a number that stands for it.
        ratings: The ratings of each sample; each is a row.
        scores: ``[samples]`` its score; not finite where it has none.
        raters: The task's ``protocol.raters``; ``per_rater_mean`` gives one set of rows a rater.
        decimals: The task's ``protocol.round_scores``; None rounds nothing.
        systems: ``[samples]`` the system that wrote each, by name or number; None where the data names none.
        categories: ``[samples]`` the number of each one's category; None without categories.
    """
    if decimals is not None:
        scores = np.round(scores, decimals)
    sample = ratings.samples
    used = np.isfinite(scores)[sample] & ~np.isnan(ratings.values)
    of_row = sample[used]
    score, human, group = scores[of_row], ratings.values[used], first_seen(images)[of_row]
    every = RatedScores(
        score,
        human,
        group,
        None if systems is None else np.unique(first_seen(systems)[of_row], return_inverse=True)[1],
        None if categories is None else categories[of_row],
    )
    if raters != "per_rater_mean" or not len(of_row):
        return [every]
    starts = np.cumsum(ratings.counts) - ratings.counts
    rater = np.flatnonzero(used) - starts[of_row]
    return [every.at(np.flatnonzero(rater == code)) for code in np.unique(rater)]
