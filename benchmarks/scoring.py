"""Runs metrics over items; one metric that fails leaves the others alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from ..errors import MetricError
from ..metrics import Cache, Context, Items
from .plan import PlannedMetric
from .protocols.contract import FailureLog, ScoredMetric


def score_items(
    items: Items,
    planned: Sequence[PlannedMetric],
    *,
    cache: Cache,
    failures: FailureLog,
    progress: Callable[[str], Callable[[int, int], None]],
) -> tuple[list[ScoredMetric], dict[str, float]]:
    """Score all items with each metric.

    Args:
        items: The unique items.
        planned: The metrics.
        cache: Where costly results are kept.
        failures: Receives the items that a metric could not score.
        progress: Gives a reporter for a step of that name.

    Returns:
        A scored metric each (with an error where it failed as a whole), and the seconds each took.
    """
    scored, seconds = [], {}
    for plan in planned:
        start = perf_counter()
        context = Context(cache=cache, progress=progress(plan.name))
        scores, error = None, plan.error
        if not error:
            try:
                scores = plan.metric.score(items, context)
            except MetricError as failure:
                error = str(failure)
        seconds[plan.name] = perf_counter() - start
        if scores is not None:
            for item, reason in scores.failures.items():
                failures.add(items.ids[item], "metric", f"{plan.name}: {reason}")
        scored.append(ScoredMetric(plan.name, plan.metric, plan.aggregation, scores, error))
    return scored, seconds


def metric_fingerprints(planned: Sequence[PlannedMetric]) -> dict[str, Any]:
    """Return what decides the values of each metric, by name; those that cannot run here have none."""
    return {
        plan.name: {**plan.metric.fingerprint(), "aggregation": plan.aggregation}
        for plan in planned
        if not plan.error
    }
