"""Binned scores of single captions, read from records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import DataError
from ..protocols import names_where
from ..records.histograms import By
from ..records.record import Record
from .runs import PlottedMetric, by_task, choose, limit_note, require_metrics


@dataclass(frozen=True)
class ScoresBy:
    """Scores of a metric, counted in bins, for every human rating or every length of caption.

    Attributes:
        task: The task, as titles name it.
        label: Name of the metric in the plot.
        edges: ``[bins + 1]`` of the scores, rising.
        steps: ``[k]`` ratings; or ``[k + 1]`` edges of bins of words.
        counts: ``[k, bins]`` captions.
    """

    task: str
    label: str
    edges: np.ndarray
    steps: np.ndarray
    counts: np.ndarray

    @property
    def n(self) -> np.ndarray:
        """``[k]`` captions of each rating or length."""
        return self.counts.sum(axis=1)

    def quantile(self, share: float) -> np.ndarray:
        """Return ``[k]`` the score that this share of the captions is below; NaN where there are none.

        Captions are taken to be spread evenly within a bin, so it is exact to the width of one.
        """
        result = np.full(len(self.counts), np.nan)
        for row, counts in enumerate(self.counts):
            if total := counts.sum():
                below = np.concatenate([[0], np.cumsum(counts)]) / total
                bin_ = min(int(np.searchsorted(below, share, side="right")) - 1, len(counts) - 1)
                inside = (share - below[bin_]) / (below[bin_ + 1] - below[bin_])
                result[row] = self.edges[bin_] + inside * (self.edges[bin_ + 1] - self.edges[bin_])
        return result


def scores_by(records: Sequence[Record], by: By, metrics: Sequence[str], notes: list[str]) -> list[ScoresBy]:
    """Return the binned scores of the metrics, by task.

    Args:
        records: Runs.
        by: What they are counted by.
        metrics: Names of metrics; empty for all.
        notes: Is given a text for every task that is left out.

    Raises:
        DataError: No run has such counts.
        UsageError: No run has one of the metrics.
    """
    fitting = [record for record in records if record.binned_by(by)]
    if not fitting:
        raise DataError(*_why_none(records, by))
    for title, group in by_task([record for record in records if record not in fitting]):
        notes.append(f"{title} is left out: {_why_none(group, by)[0]}")
    require_metrics(metrics, (name for record in fitting for name in record.binned_by(by)))
    found = []
    for title, group in by_task(fitting):
        for one in choose(group, lambda record: record.binned_by(by)):
            if not metrics or one.metric in metrics:
                found.append(_read(title + limit_note([one.record]), one, by))
    return found


def _why_none(records: Sequence[Record], by: By) -> tuple[str, str]:
    task, protocol = records[0].task, records[0].output_type
    if not records[0].has_histograms:
        return (
            f"the run of task '{task}' holds no histograms of scores: an older version of capbench made it",
            f"Run the task again: bench run --task {task}",
        )
    if by == "by_rating" and not records[0].protocol.rated:
        rated = " or ".join(names_where(lambda one: one.rated))
        return (
            f"the captions of task '{task}' (protocol {protocol}) have no human ratings",
            f"Plot runs of tasks of protocol {rated}: bench ls tasks --tag agreement",
        )
    single = " or ".join(names_where(lambda one: one.sample == "caption"))
    return (
        f"the run of task '{task}' (protocol {protocol}) holds no scores of single captions",
        f"Run a task of protocol {single}, with a metric that scores captions one by one.",
    )


def _read(title: str, one: PlottedMetric, by: By) -> ScoresBy:
    found = one.record.histograms[one.metric]
    steps, counts = {"by_rating": (found.ratings, found.rating_counts), "by_words": (found.words, found.word_counts)}[
        by
    ]
    return ScoresBy(
        title,
        one.label,
        np.asarray(found.edges),
        np.asarray(steps, dtype=np.float64),
        np.asarray(counts, dtype=np.int64),
    )
