"""Distributions of the scores of single captions, so that a run can be plotted from its record alone."""

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ..inputs.recorded import Count, Finite, RecordEntry
from ..statistics.rated_rows import Ratings

BINS = 20
"""Number of bins of the scores, and the most of the ratings and of the numbers of words."""

By = Literal["by_rating", "by_words"]


class CountsByRating(RecordEntry):
    """A row of counts a distinct rating, or a centre of 20 equal bins where there are more."""

    ratings: Annotated[list[Finite], Field(min_length=1, max_length=BINS)]
    counts: Annotated[list[list[Count]], Field(min_length=1, max_length=BINS)]


class CountsByWords(RecordEntry):
    """A row of counts a bin of the number of words; bins are of equal width, without the upper edge."""

    edges: Annotated[list[int], Field(min_length=2, max_length=BINS + 1)]
    counts: Annotated[list[list[Count]], Field(min_length=1, max_length=BINS)]


class Histogram(RecordEntry):
    """Scores that a metric gave to captions, in equal bins; the last one holds its upper edge."""

    edges: Annotated[list[Finite], Field(min_length=2)]
    counts: list[Count]
    by_rating: CountsByRating | None = None
    by_words: CountsByWords | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        (ratings, of_ratings), (words, of_words) = self.grouped("by_rating"), self.grouped("by_words")
        for edges in (self.edges, ratings, words):
            if any(map(operator.ge, edges, edges[1:])):
                raise ValueError("edges and ratings must be in rising order")
        if {*map(len, (self.counts, *of_ratings, *of_words))} != {len(self.edges) - 1}:
            raise ValueError("the numbers of counts and of bins differ")
        if len(of_ratings) != len(ratings) or len(of_words) != max(len(words) - 1, 0):
            raise ValueError("the numbers of rows and of their labels differ")
        return self

    def grouped(self, by: By) -> tuple[Sequence[float], Sequence[Sequence[int]]]:
        """Return the ratings, or the ends of bins of words (one more than bins), rising; empty where there are none.

        And ``[ratings or bins of words][bins]`` captions.
        """
        if by == "by_rating":
            return (self.by_rating.ratings, self.by_rating.counts) if self.by_rating else ([], [])
        return (self.by_words.edges, self.by_words.counts) if self.by_words else ([], [])

    @property
    def centres(self) -> list[float]:
        """Middle of each bin."""
        return [(low + high) / 2 for low, high in itertools.pairwise(self.edges)]

    def mean(self, counts: Sequence[int]) -> float | None:
        """Return the mean score of a row of counts, each caption at the middle of its bin."""
        total = sum(counts)
        pairs = zip(self.centres, counts, strict=True)
        return sum(score * count for score, count in pairs) / total if total else None


def histograms(
    scores: Mapping[str, np.ndarray], words: np.ndarray | None, ratings: Ratings | None = None
) -> dict[str, Any]:
    """Return the histogram of each metric's scores of single captions.

    Args:
        scores: Metric to ``[n]`` values, not finite where it has none.
        words: ``[n]`` words of each caption between white space; None where samples are not single captions.
        ratings: The ratings of each caption; None where there are none.

    Returns:
        Metric to ``edges`` (21, rising; the last bin holds its upper edge), ``counts`` (20), and counts of the
        same bins ``by_rating`` (a row a distinct rating, or the centres of 20 equal bins where there are more;
        a caption counts once a rating) and ``by_words`` (words of the caption, in bins of
        equal width). A metric without scores has none; nor has any where samples are not single captions.
    """
    if words is None:
        return {}
    rated, row_of_rating, levels = _by_rating(ratings) if ratings else (words, words, [])
    row_of_words, edges_of_words = _by_words(words)
    entries: dict[str, Any] = {}
    for metric, values in scores.items():
        if (edges := _edges(values)) is None:
            continue
        bins = edges[1:-1].searchsorted(values, side="right")
        bins[~np.isfinite(values)] = -1
        by_rating = {"by_rating": {"ratings": levels, "counts": _table(row_of_rating, bins[rated])}} if levels else {}
        entries[metric] = {
            "edges": edges.tolist(),
            "counts": np.bincount(bins[bins >= 0], minlength=BINS).tolist(),
            **by_rating,
            "by_words": {"edges": edges_of_words, "counts": _table(row_of_words, bins)},
        }
    return entries


def _edges(values: np.ndarray) -> np.ndarray | None:
    """Return the edges of equal bins over the finite values; None where there is none, or no bin can hold them."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return None
    low, high = float(finite.min()), float(finite.max())
    for margin in (0.0, max(0.5, abs(low) * 1e-6)):
        # One value, or values that differ in the last bits, would give bins without width.
        with np.errstate(over="ignore", invalid="ignore"):
            edges = np.linspace(low - margin, high + margin, BINS + 1)
        if np.isfinite(edges).all() and (edges[1:] > edges[:-1]).all():
            return edges
    return None


def _table(row: np.ndarray, bins: np.ndarray) -> list[list[int]]:
    """Return ``[rows][BINS]`` how many captions, or their ratings, are in each row and bin (-1: none)."""
    cells = row[bins >= 0].astype(np.int64) * BINS + bins[bins >= 0]
    return np.bincount(cells, minlength=(int(row.max()) + 1) * BINS).reshape(-1, BINS).tolist()


def _by_rating(ratings: Ratings) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Return the sample of each rating and its row, and what the rows are."""
    rated = ~np.isnan(ratings.values)
    sample, values = ratings.samples[rated], ratings.values[rated]
    levels, row = np.unique(values, return_inverse=True)
    if len(levels) > BINS:
        edges: np.ndarray = np.linspace(float(levels[0]), float(levels[-1]), BINS + 1)
        levels = (edges[:-1] + edges[1:]) / 2
        row = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, BINS - 1)
    return sample, row, levels.tolist()


def _by_words(words: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Return the row of each caption, and the edges of the rows."""
    least, most = int(words.min()), int(words.max())
    width = -(-(most - least + 1) // BINS)
    count = -(-(most - least + 1) // width)
    edges = range(least, least + width * count + 1, width)
    return (words - least) // width, list(edges)
