"""What a choice counts, given what people chose and what a metric scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...statistics.near_ties import settle
from ..job import Collected

Ties = Literal["half", "wrong", "right", "leave_out"]
MetricTies = Literal["exact", "as_many"]
HumanTies = Literal["leave_out", "half", "match"]
Votes = Literal["majority", "share"]


@dataclass(frozen=True)
class CreditRule:
    """The choices of a task that decide what a choice counts; see ``PreferenceSettings``."""

    ties: Ties
    metric_ties: MetricTies
    human_ties: HumanTies
    votes: Votes


@dataclass(frozen=True)
class OfSize:
    """The choices among as many captions.

    Attributes:
        rows: ``[k]`` which rows they are.
        scores: ``[k, draws, n]`` what each caption scores, as the mean over its parts; near ties are ties.
        shares: ``[k, n]`` share of the votes of each caption.
    """

    rows: np.ndarray
    scores: np.ndarray
    shares: np.ndarray


def by_size(collected: Collected, item_values: np.ndarray, draws: int) -> Iterator[OfSize]:
    """Yield the choices by the number of their captions.

    Args:
        collected: All choices; ``numbers`` has ``captions`` and ``parts`` of each, and the ``shares`` of all captions.
        item_values: ``[items]`` scores.
        draws: How often each choice stands in the samples.
    """
    numbers = collected.numbers
    sizes, parts = numbers["captions"], numbers["parts"]
    samples = parts * draws * sizes
    values = collected.of_samples(item_values)
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        of_parts = values[_ranges(samples, rows)].reshape(-1, draws, size)
        starts = np.cumsum(parts[rows]) - parts[rows]
        scores = np.add.reduceat(of_parts, starts, axis=0) / parts[rows][:, None, None]
        shares = numbers["shares"][_ranges(sizes, rows)].reshape(-1, size)
        yield OfSize(rows, settle(scores), settle(shares))


def _ranges(lengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return where the elements of some rows stand, where those of all rows of such lengths stand end to end."""
    starts, of_rows = (np.cumsum(lengths) - lengths)[rows], lengths[rows]
    return np.repeat(starts - np.cumsum(of_rows) + of_rows, of_rows) + np.arange(int(of_rows.sum()))


def credit_of(scores: np.ndarray, shares: np.ndarray, rule: CreditRule) -> np.ndarray:
    """Return ``[k]`` what choices count; NaN for one that does not count.

    Args:
        scores: ``[k, n]`` what captions score; more is better, and equal is equal.
        shares: ``[k, n]`` share of the votes of each.
        rule: The task's.
    """
    if rule.metric_ties == "as_many" and scores.shape[1] == 2:
        scores = tied_as_often(scores, int(undecided(shares).sum()))
    best = scores == scores.max(axis=1, keepdims=True)
    first = np.maximum(best.sum(axis=1), 1)
    gain = shares
    if rule.votes == "majority":
        gain = (shares == shares.max(axis=1, keepdims=True)).astype(np.float64)
    credit: np.ndarray = (best * gain).sum(axis=1) / first
    tied = first > 1
    if rule.ties == "right":
        credit = np.where(tied, np.where(best, gain, 0).max(axis=1), credit)
    elif rule.ties != "half":
        credit = np.where(tied, 0.0 if rule.ties == "wrong" else np.nan, credit)
    if rule.votes == "majority":
        of_tie = {
            "leave_out": np.full(len(credit), np.nan),
            "half": np.full(len(credit), 0.5),
            "match": best.all(axis=1).astype(np.float64),
        }
        credit = np.where(undecided(shares), of_tie[rule.human_ties], credit)
    return np.where(np.isfinite(scores).all(axis=1), credit, np.nan)


def undecided(shares: np.ndarray) -> np.ndarray:
    """Return ``[k]`` in which choices people see no difference."""
    return (shares == shares[:, :1]).all(axis=1)


def tied_as_often(scores: np.ndarray, ties: int) -> np.ndarray:
    """Return scores of pairs with as many made equal as people see no difference in: those that differ least."""
    apart = np.abs(scores[:, 0] - scores[:, 1])
    known = np.sort(apart[np.isfinite(apart)])
    least = known[ties] if ties < len(known) else np.inf
    return np.where((apart < least)[:, None], 0.0, scores)
