"""Runs metrics over items; one metric that fails leaves the others alone."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from ...adapters import Encoder, Judge
from ...errors import BenchError, MetricError
from ...metrics import Cache, Context, Items, Metric, Scores
from ...progress import Progress
from ..inputs.failures import Failure, FailureLog
from ..protocols.results import ScoredMetric
from .planned_metrics import PlannedMetric

_UNSPACED = re.compile(
    # Thai and Lao, Burmese, Khmer, kana, Han: more in a row than a word has.
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]{5}"
)
_UNSPACED_REMARK = "is written without spaces between words, and metrics that count words take it for one"


def score_items(
    items: Items,
    planned: Sequence[PlannedMetric],
    *,
    cache: Cache,
    failures: FailureLog,
    progress: Progress,
    encoder: Encoder | None = None,
    judge: Judge | None = None,
) -> tuple[list[ScoredMetric], dict[str, float]]:
    """Score all items with each metric.

    Args:
        items: The unique items.
        planned: The metrics.
        cache: Where costly results are kept.
        failures: Receives the items that a metric could not score.
        progress: Gives a reporter for a step of that name.
        encoder: The model that encodes, for the metrics that need one.
        judge: The model that judges, for the metrics that need one.

    Returns:
        A scored metric each (with an error where it failed as a whole), and the seconds each took.
    """
    scored, seconds = [], {}
    for plan in planned:
        start = perf_counter()
        context = Context(cache=cache, progress=progress(plan.name), encoder=encoder, judge=judge)
        scores, error = None, plan.error
        if not error:
            try:
                scores = _score(plan.metric, items, context)
            except BenchError as failure:
                error = str(failure)
            except Exception as failure:  # noqa: BLE001 - a fault in one metric must not cost the others
                place = traceback.extract_tb(failure.__traceback__)[-1]
                error = f"{type(failure).__name__}: {failure} ({place.filename}:{place.lineno})"
        seconds[plan.name] = perf_counter() - start
        if scores is not None:
            for item, reason in scores.failures.items():
                failures.add(items.ids[item], "metric", f"{plan.name}: {reason}")
        scored.append(ScoredMetric(plan.name, plan.metric, plan.aggregation, scores, error))
    return scored, seconds


def _score(metric: Metric, items: Items, context: Context) -> Scores:
    """Score items, each corpus by itself where a metric looks at the other items."""
    if "image" in metric.needs and not items.images:
        raise MetricError(
            "it looks at images, and none of those that the captions are of was found on this machine.",
            "A task names their folder with image_folder, inside the data's own (docs/tasks.md); or 'doc_to_image' "
            "gives paths.",
        )
    corpora = np.unique(items.corpus) if items.corpus is not None and metric.corpus_dependent else ()
    if len(corpora) < 2:
        return _checked(metric.score(items, context), len(items))
    values = np.full(len(items), np.nan)
    parts: dict[str, np.ndarray] = {}
    failures: dict[int, str] = {}
    remarks: dict[int, str] = {}
    for corpus in corpora:
        which = np.flatnonzero(items.corpus == corpus)
        scores = _checked(metric.score(items.subset(which), context), len(which))
        values[which] = scores.values
        failures |= {int(which[item]): reason for item, reason in scores.failures.items()}
        remarks |= {int(which[item]): remark for item, remark in scores.remarks.items()}
        for name, part in scores.parts.items():
            parts.setdefault(name, np.full((len(items), *part.shape[1:]), np.nan))[which] = part
    return Scores(values, parts, failures, remarks)


def _checked(scores: Scores, count: int) -> Scores:
    """Return scores with a reason for each item that has none.

    Raises:
        MetricError: The metric returned something else.
    """
    if not isinstance(scores, Scores) or np.shape(scores.values) != (count,):
        raise MetricError(
            "score() did not return Scores with one value an item", "See capbench.metrics.Metric.score."
        )
    nameless = set(np.flatnonzero(~np.isfinite(scores.values)).tolist()) - scores.failures.keys()
    if not nameless:
        return scores
    reasons = dict.fromkeys(sorted(nameless), "the metric gave no finite value")
    return replace(scores, failures={**scores.failures, **reasons})


def metric_fingerprints(planned: Sequence[PlannedMetric]) -> dict[str, Any]:
    """Return what decides the values of each metric, by name; those that cannot run here have none."""
    return {
        plan.name: {**plan.metric.fingerprint(), "aggregation": plan.aggregation}
        for plan in planned
        if not plan.error
    }


def remarks_of(items: Items, scored: Sequence[ScoredMetric]) -> list[Failure]:
    """Return what is to be remarked on the items that metrics scored, once an item and remark."""
    found = {
        (items.ids[item], remark): None
        for one in scored
        if one.scores is not None
        for item, remark in one.scores.remarks.items()
    }
    remarks = [Failure(identity, "image", remark) for identity, remark in found]
    if any(one.metric.splits_words for one in scored if one.scores is not None):
        remarks += [
            Failure(identity, "candidate", _UNSPACED_REMARK)
            for identity, candidate in zip(items.ids, items.candidates, strict=True)
            if _UNSPACED.search(candidate)
        ]
    return remarks
