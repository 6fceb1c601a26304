"""Runs metrics over the items of a shard; one metric that fails leaves the others alone."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ....errors import AdapterError, BenchError, MetricError
from ....metrics import Context, CorpusMetric, Items, Metric, Scores, State
from ..planned_metrics import PlannedMetric
from .shelf import MetricScores, ShardScores

States = Mapping[int, State]
"""The state of each corpus (``Items.corpus``), by its number."""

_UNSPACED = re.compile(
    # Thai and Lao, Burmese, Khmer, kana, Han: more in a row than a word has.
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]{5}"
)
_UNSPACED_REMARK = "is written without spaces between words, and metrics that count words take it for one"


def score_shard(
    items: Items,
    planned: Sequence[PlannedMetric],
    context_of: Callable[[PlannedMetric], Context],
    states: Mapping[str, States] | None = None,
) -> ShardScores:
    """Score items with each metric.

    Args:
        items: The items.
        planned: The metrics.
        context_of: Gives what a metric may use.
        states: Metric that looks at the other items of the run to their state; without it these are ``items``.

    Returns:
        What each metric made of them, with an error where it failed as a whole.
    """
    found = [_attempt(one, items, context_of(one), (states or {}).get(one.name)) for one in planned]
    named = {
        item
        for one in found
        if one.scores is not None
        for item in (*one.scores.failures, *one.scores.remarks)
    }
    return ShardScores(found, {item: items.ids[item] for item in sorted(named)})


def remarked(scores: ShardScores, items: Items, planned: Sequence[PlannedMetric]) -> ShardScores:
    """Return scores with a remark on each candidate that metrics cut, or in which those that count words find none.

    Args:
        scores: The scores.
        items: What they are of.
        planned: The metrics of the unit, those that score later among them.
    """
    remarks: dict[int, str] = {}
    if any(one.metric.splits_words for one in planned):
        remarks = {
            item: _UNSPACED_REMARK
            for item, candidate in enumerate(items.candidates)
            if not candidate.isascii() and _UNSPACED.search(candidate)
        }
    limits: dict[int, list[str]] = {}
    for one in planned:
        if (longest := one.metric.longest_caption) is not None:
            limits.setdefault(longest, []).append(one.metric.label)
    for longest, labels in limits.items():
        cut = f"is cut at {longest:,} characters for {', '.join(dict.fromkeys(labels))}"
        for item, candidate in enumerate(items.candidates):
            if len(candidate) > longest:
                remarks[item] = f"{remarks[item]}; {cut}" if item in remarks else cut
    return replace(scores, ids={**scores.ids, **{item: items.ids[item] for item in remarks}}, remarks=remarks)


def attempt(call: Callable[[], Any]) -> tuple[Any, str]:
    """Return what a call gave, or why it gave nothing: a fault in one metric must not cost the others."""
    try:
        return call(), ""
    except Exception as failure:  # noqa: BLE001 - as said
        return None, _told(failure)


def _told(failure: Exception) -> str:
    if isinstance(failure, BenchError):
        return str(failure)
    place = traceback.extract_tb(failure.__traceback__)[-1]
    return f"{type(failure).__name__}: {failure} ({place.filename}:{place.lineno})"


def _attempt(planned: PlannedMetric, items: Items, context: Context, states: States | None) -> MetricScores:
    start = perf_counter()
    scores, error, of_model = None, planned.error, False
    if not error:
        try:
            scores = _score(planned.metric, items, context, states)
        except Exception as failure:  # noqa: BLE001 - as of attempt()
            error, of_model = _told(failure), isinstance(failure, AdapterError)
    sums = None
    if scores is not None and planned.aggregate.has_sums:
        sums, error = attempt(partial(planned.aggregate.sums, scores, items.weights))
        scores = None if error else scores
    counted = 0 if scores is None else int(items.weights[np.isfinite(scores.values)].sum())
    return MetricScores(planned.name, scores, error, perf_counter() - start, sums, counted, of_model)


def corpora(items: Items) -> Iterator[tuple[int, np.ndarray | None]]:
    """Yield the number of each corpus among items, and ``[n]`` which items are of it; None where all are."""
    numbers = np.unique(items.corpus) if items.corpus is not None else np.zeros(1, np.int64)
    for number in numbers.tolist():
        yield number, None if len(numbers) == 1 else np.flatnonzero(items.corpus == number)


def _score(metric: Metric, items: Items, context: Context, states: States | None) -> Scores:
    """Score items, each corpus by itself where a metric looks at the other items."""
    items = metric.cut(items)
    if "image" in metric.needs and not items.images:
        raise MetricError(
            "it looks at images, and none of those that the captions are of was found on this machine.",
            "A task names their folder with image_folder, inside the data's own (docs/tasks.md); or 'doc_to_image' "
            "gives paths.",
        )
    if not metric.corpus_dependent:
        return _checked(metric.score(items, context), len(items))
    values = np.full(len(items), np.nan)
    parts: dict[str, np.ndarray] = {}
    failures: dict[int, str] = {}
    remarks: dict[int, str] = {}
    for corpus, which in corpora(items):
        own = items if which is None else items.subset(which)
        if states is not None and isinstance(metric, CorpusMetric):
            scores = _checked(metric.score(own, context, states[corpus]), len(own))
        else:
            scores = _checked(metric.score(own, context), len(own))
        if which is None:
            return scores
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
        plan.name: {
            **plan.metric.fingerprint(),
            "aggregation": plan.aggregation,
            **({"code": plan.code} if plan.code else {}),
        }
        for plan in planned
        if not plan.error
    }
