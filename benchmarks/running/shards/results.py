"""Puts together what units made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ....metrics import Scores, add_sums
from ...inputs.failures import Failure, FailureLog
from ...protocols.results import ScoredMetric
from ..planned_metrics import PlannedMetric
from ..units import Unit
from .gathering import Shelved
from .shelf import MetricScores, Shelf


@dataclass(frozen=True)
class Together:
    """What metrics made of all shards.

    Attributes:
        seconds: How long each took.
        errors: Why each failed that did.
        sums: What the system-level value of each is made of, where it is made of sums.
        counted: How many samples each scored.
        remarks: What is to be remarked.
    """

    seconds: dict[str, float]
    errors: dict[str, str]
    sums: dict[str, Mapping[str, np.ndarray]]
    counted: dict[str, int]
    remarks: list[Failure]


class Results:
    """What units made, which stays on the shelf until it is asked for.

    Args:
        units: What was carried out, each as it was in the end.
        metrics: The metrics.
        shelf: Where the results are.
    """

    def __init__(self, units: Sequence[Unit], metrics: Sequence[PlannedMetric], shelf: Shelf) -> None:
        scored = sorted((unit for unit in units if unit.stage == "score"), key=lambda unit: unit.shard)
        self.metrics = metrics
        self._shelf = shelf
        self._units = scored
        # Of a metric that looks at the corpus, the first unit of a shard makes its state alone.
        self._of_metric = {
            one.name: [
                unit
                for unit in scored
                if one.name in unit.metrics and (unit.needs or unit.whole or not one.metric.has_state)
            ]
            for one in metrics
        }

    def together(self, failures: FailureLog) -> Together:
        """Return what is known of all shards; what could not be scored goes into the log, metric by metric."""
        found = Together({one.name: 0.0 for one in self.metrics}, {}, {}, {}, [])
        lost: dict[str, dict[tuple[str, str], None]] = {one.name: {} for one in self.metrics}
        remarks: dict[str, dict[Failure, None]] = {"": {}, **{one.name: {} for one in self.metrics}}
        sums: dict[str, list[Mapping[str, np.ndarray]]] = {one.name: [] for one in self.metrics}
        faults: dict[str, list[str]] = {one.name: [] for one in self.metrics}
        for unit in self._units:
            shard = self._shelf.scores(unit.key)
            remarks[""] |= dict.fromkeys(shard.remarks)
            for one in shard.metrics:
                found.seconds[one.name] += one.seconds
                found.counted[one.name] = found.counted.get(one.name, 0) + one.counted
                if one.scores is None:
                    faults[one.name].append(one.error)
                    continue
                lost[one.name] |= {(shard.ids[at], why): None for at, why in one.scores.failures.items()}
                told = {Failure(shard.ids[at], "image", why): None for at, why in one.scores.remarks.items()}
                remarks[one.name] |= told
                sums[one.name].append(one.sums or {})
        for planned in self.metrics:
            name = planned.name
            if not sums[name]:
                found.errors[name] = next(iter(faults[name]), "") or planned.error
            elif planned.aggregate.has_sums and all(sums[name]):
                found.sums[name] = add_sums(sums[name])
            for identity, reason in lost[name]:
                failures.add(identity, "metric", f"{name}: {reason}")
        found.remarks.extend(dict.fromkeys(one for of_one in reversed(remarks.values()) for one in of_one))
        return found

    def scores(self, planned: PlannedMetric, parts: bool) -> Scores:
        """Return the scores of all items by a metric that has some.

        Args:
            planned: The metric.
            parts: Keep all parts, as the corpus' value is made of them; else what is counted alone.
        """
        found = [(unit, self._of_unit(unit, planned.name)) for unit in self._of_metric[planned.name]]
        like = next(one.scores for _, one in found if one.scores is not None)
        return Scores.concatenate([_whole(unit, one, like, parts) for unit, one in found])

    def terms(self, planned: PlannedMetric) -> np.ndarray:
        """Return ``[n, k]`` what each item adds to the sums of a metric."""
        found: list[np.ndarray] = []
        for unit in self._of_metric[planned.name]:
            scores = self._of_unit(unit, planned.name).scores
            n = unit.rows[1] - unit.rows[0]
            found.append(np.zeros((n, 0)) if scores is None else planned.aggregate.terms(scores))
        width = max(one.shape[1] for one in found)
        return np.concatenate([one if one.shape[1] else np.zeros((len(one), width)) for one in found])

    def values(self, shard: Shelved, name: str) -> np.ndarray:
        """Return the values of a shard's items by a metric, NaN where it has none."""
        units = self._of_metric[name]
        is_whole = len(units) == 1 and units[0].whole
        scores = self._of_unit(units[0 if is_whole else shard.number], name).scores
        if scores is None:
            return np.full(shard.n_items, np.nan)
        return scores.values[shard.first_item :][: shard.n_items] if is_whole else scores.values

    def _of_unit(self, unit: Unit, name: str) -> MetricScores:
        return next(one for one in self._shelf.scores(unit.key).metrics if one.name == name)


def scored_metrics(results: Results, together: Together) -> list[ScoredMetric]:
    """Return each metric with its scores of all items."""
    scored: list[ScoredMetric] = []
    for one in results.metrics:
        if one.name in together.errors:
            error = together.errors[one.name]
            scored.append(ScoredMetric(one.name, one.metric, one.aggregation, None, error))
            continue
        sums = together.sums.get(one.name)
        scores = results.scores(one, parts=sums is None and one.aggregation == "corpus")
        terms = None if sums is None else partial(results.terms, one)
        scored.append(ScoredMetric(one.name, one.metric, one.aggregation, scores, "", sums, terms))
    return scored


def _whole(unit: Unit, made: MetricScores, like: Scores, keep_all: bool) -> Scores:
    """Return the scores of a unit; where the metric failed on all of it, a reason for each item.

    Args:
        unit: The unit.
        made: What the metric made of it.
        like: Scores of another unit, which say what parts there are.
        keep_all: Keep all parts, as the corpus' value is made of them; else what is counted alone.
    """
    scores, n = made.scores, unit.rows[1] - unit.rows[0]
    if scores is None:
        parts = {name: np.full((n, *part.shape[1:]), np.nan) for name, part in like.parts.items()}
        scores = Scores(np.full(n, np.nan), parts, dict.fromkeys(range(n), made.error))
    kept = {name: part for name, part in scores.parts.items() if keep_all or name == "truncated"}
    return Scores(scores.values, kept, scores.failures)
