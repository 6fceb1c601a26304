"""Binned scores of single captions, read from records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...errors import DataError
from .runs import Chosen, Record, by_task, choose, limit_note, output_type, require_metrics

By = Literal["by_rating", "by_words"]
_STEPS: dict[By, str] = {"by_rating": "ratings", "by_words": "edges"}


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
        DataError: No run has such counts, or those of one are not in order.
        UsageError: No run has one of the metrics.
    """
    fitting = [record for record in records if _metrics(record, by)]
    if not fitting:
        raise DataError(*_why_none(records, by))
    for title, group in by_task([record for record in records if record not in fitting]):
        notes.append(f"{title} is left out: {_why_none(group, by)[0]}")
    require_metrics(metrics, (name for record in fitting for name in _metrics(record, by)))
    found = []
    for title, group in by_task(fitting):
        for one in choose(group, lambda record: _metrics(record, by)):
            if not metrics or one.metric in metrics:
                found.append(_read(title + limit_note([one.record]), one, by))
    return found


def _metrics(record: Record, by: By) -> list[str]:
    histograms = record.get("histograms")
    if not isinstance(histograms, Mapping):
        return []
    return [name for name, one in histograms.items() if isinstance(one, Mapping) and one.get(by)]


def _why_none(records: Sequence[Record], by: By) -> tuple[str, str]:
    record = records[0]
    task, protocol = record["task"], output_type(record)
    if "histograms" not in record:
        return (
            f"the run of task '{task}' holds no histograms of scores: an older version of capbench made it",
            f"Run the task again: bench run --task {task}",
        )
    if by == "by_rating" and protocol != "agreement":
        return (
            f"the captions of task '{task}' (protocol {protocol}) have no human ratings",
            "Plot runs of tasks of protocol agreement: bench ls tasks --tag agreement",
        )
    return (
        f"the run of task '{task}' (protocol {protocol}) holds no scores of single captions",
        "Run a task of protocol agreement or generate_until, with a metric that scores captions one by one.",
    )


def _read(title: str, one: Chosen, by: By) -> ScoresBy:
    made: Mapping[str, Any] = one.record["histograms"][one.metric]
    try:
        edges = np.asarray(made["edges"], dtype=np.float64)
        steps = np.asarray(made[by][_STEPS[by]], dtype=np.float64)
        counts = np.asarray(made[by]["counts"], dtype=np.int64)
        rows = len(steps) - (by == "by_words")
        sound = (
            edges.ndim == steps.ndim == 1
            and counts.shape == (rows, len(edges) - 1)
            and bool(np.isfinite(edges).all() and np.isfinite(steps).all())
            and bool((np.diff(edges) > 0).all() and (np.diff(steps) > 0).all() and (counts >= 0).all())
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _unsound(one, by) from error
    if not sound or rows < 1:
        raise _unsound(one, by)
    return ScoresBy(title, one.label, edges, steps, counts)


def _unsound(one: Chosen, by: By) -> DataError:
    task = one.record["task"]
    return DataError(
        f"task '{task}': the counts histograms.{one.metric}.{by} of the run are not in order",
        f"Was run.json edited? Run the task again: bench run --task {task}",
    )
