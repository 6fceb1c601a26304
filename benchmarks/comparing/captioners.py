"""What captioners scored on the same documents, and by how much one changed between two runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..protocols.contract import ComparedRows
from ..statistics import Draws
from ..statistics.contract import UndefinedStatistic
from ..statistics.paired import Difference, difference
from .finished_runs import FinishedRun, read_runs, require_same_references

_RESAMPLES, _SEED = 1000, 1234


def on_shared_documents(
    metric: str, runs: Sequence[FinishedRun], names: Sequence[str]
) -> tuple[ComparedRows, list[str]]:
    """Return the scores of the documents that all runs have, and what a reader must know of them.

    Args:
        metric: By which metric.
        runs: Runs of captioners.
        names: What each is called.

    Raises:
        DataError: A document has other references in one run than in another.
    """
    ids_of = [run.ids() for run in runs]
    others = [set(one) for one in ids_of[1:]]
    ids = [identity for identity in ids_of[0] if all(identity in one for one in others)]
    notes = require_same_references(runs, ids)
    images = dict(zip(ids_of[0], runs[0].images(), strict=True))
    scores = {
        name: np.asarray([by_id[one] for one in ids])
        for name, by_id in zip(names, (run.scores_by_id(metric) for run in runs), strict=True)
    }
    return ComparedRows([images[one] for one in ids], scores), notes


def changes(before: Path, after: Path) -> dict[str, Difference]:
    """Return by how much each metric's mean rose from one run of a captioner to another, by the paired bootstrap.

    Metrics that were not computed alike in both, or whose system value is no mean of single captions, have no change;
    nor has anything of a task whose subject is the metric.

    Args:
        before: Folder of a run.
        after: Folder of the other, of the same task.

    Raises:
        DataError: A run cannot be read, or they are of different tasks or data.
    """
    first, second = runs = read_runs([before, after])
    protocol = first.record.protocol
    if protocol.subject != "model" or not protocol.comparable:
        return {}
    found: dict[str, Difference] = {}
    for metric, made in first.metrics.items():
        if second.metrics.get(metric) != made or made.get("aggregation") == "corpus":
            continue
        rows, _ = on_shared_documents(metric, runs, ("before", "after"))
        try:
            estimates = protocol.compare(rows, None, Draws(_RESAMPLES, _SEED)).estimates
        except UndefinedStatistic:
            continue
        found[metric] = difference(estimates["after"], estimates["before"])
    return found
