"""Puts together what units made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ....mapped_numbers import let_go, mapped
from ....metrics import Metric, Scores, add_sums
from ...inputs.failures import Failure, FailureLog
from ...protocols.results import ScoredMetric
from ..planned_metrics import PlannedMetric
from ..units import Unit
from .gathering import Gathering, Shelved
from .scoring import attempt
from .shelf import MetricScores
from .work import NOT_SURVIVED


@dataclass(frozen=True)
class Together:
    """What metrics made of all shards.

    Attributes:
        seconds: How long each took.
        errors: Why each failed that did.
        sums: What the system-level value of each is made of, where it is made of sums.
        counted: How many samples each scored.
        lost: Metric to the items that it could not score, shard by shard: id and reason, each once.
        remarks: What is to be remarked.
    """

    seconds: dict[str, float]
    errors: dict[str, str]
    sums: dict[str, Mapping[str, np.ndarray]]
    counted: dict[str, int]
    lost: dict[str, list[tuple[str, str]]]
    remarks: list[Failure]


class Results:
    """What units made, which stays on the shelf until it is asked for.

    Args:
        units: What was carried out, each as it was in the end.
        metrics: The metrics.
        gathering: What was scored.
    """

    def __init__(self, units: Sequence[Unit], metrics: Sequence[PlannedMetric], gathering: Gathering) -> None:
        self.metrics = metrics
        self._gathering = gathering
        self._units = sorted((unit for unit in units if unit.stage == "score"), key=lambda unit: unit.shard)
        # Of a metric that looks at the corpus, the first unit of a shard makes its state alone.
        self._of_metric = {
            one.name: [
                unit
                for unit in self._units
                if one.name in unit.metrics and (unit.needs or unit.whole or not one.metric.has_state)
            ]
            for one in metrics
        }

    def together(self) -> Together:
        """Return what is known of all shards."""
        names = [one.name for one in self.metrics]
        seconds, counted = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0)
        sums: dict[str, list[Mapping[str, np.ndarray]]] = {name: [] for name in names}
        faults: dict[str, list[str]] = {name: [] for name in names}
        lost: dict[str, dict[tuple[str, str], None]] = {name: {} for name in names}
        told: dict[str, dict[tuple[int | str, str], Failure]] = {name: {} for name in [*names, ""]}
        of_model: dict[str, str] = {}
        for unit in self._units:
            shard = self._gathering.shelf.scores(unit.key)
            for one in shard.metrics:
                seconds[one.name] += one.seconds
                counted[one.name] += one.counted
                if one.scores is None:
                    faults[one.name].append(one.error)
                    if one.of_model:
                        of_model.setdefault(one.name, one.error)
                    lost[one.name] |= {(identity, one.error): None for identity in self._ids(unit)}
                    continue
                sums[one.name].append(one.sums or {})
                lost[one.name] |= {(shard.ids[at], why): None for at, why in one.scores.failures.items()}
                for at, why in one.scores.remarks.items():
                    key = self._number(unit, at, shard.ids[at]), why
                    told[one.name].setdefault(key, Failure(shard.ids[at], "image", why))
            for at, why in shard.remarks.items():
                key = self._number(unit, at, shard.ids[at]), why
                told[""].setdefault(key, Failure(shard.ids[at], "candidate", why))
        errors = of_model | {
            one.name: next(iter(faults[one.name]), one.error) for one in self.metrics if not sums[one.name]
        }
        added: dict[str, Mapping[str, np.ndarray]] = {
            one.name: add_sums(sums[one.name])
            for one in self.metrics
            if one.aggregate.has_sums and sums[one.name] and all(sums[one.name])
        }
        counted |= dict.fromkeys(of_model, 0)
        remarks = [one for of_metric in told.values() for one in of_metric.values()]
        for one in self.metrics:
            if one.name not in errors and type(one.metric).review is not Metric.review:
                said, error = attempt(partial(one.metric.review, self._reviewed(one.name)))
                remarks += [Failure(one.name, "metric", text) for text in said or ()]
                errors |= {one.name: error} if error else {}
        found = {name: list(one) for name, one in lost.items() if name not in errors}
        return Together(seconds, errors, added, counted, found, list(dict.fromkeys(remarks)))

    def _reviewed(self, name: str) -> Iterator[tuple[Scores, Mapping[int, str]]]:
        """Yield what a metric made of each shard, and the ids of the items that it could not score."""
        for unit in self._of_metric[name]:
            shard = self._gathering.shelf.scores(unit.key)
            (made,) = (one for one in shard.metrics if one.name == name)
            if made.scores is not None:
                yield made.scores, {at: shard.ids[at] for at in made.scores.failures}

    def scored(self, together: Together, failures: FailureLog) -> list[ScoredMetric]:
        """Return each metric with its scores of the distinct items; what has none goes into the log."""
        found: list[ScoredMetric] = []
        for one in self.metrics:
            if one.name in together.errors:
                error = together.errors[one.name]
                found.append(ScoredMetric(one.name, one.metric, one.aggregation, None, error))
                continue
            sums = together.sums.get(one.name)
            scores = self.scores(one, parts=sums is None and one.aggregation == "corpus")
            names = self._names(one.name) if scores.failures else {}
            for item, reason in scores.failures.items():
                failures.add(names[item], "metric", f"{one.name}: {reason}")
            if sums is not None and together.lost[one.name]:
                sums = add_sums([sums, *self._sums_of_found(one)])
            terms = None if sums is None else partial(self.terms, one)
            found.append(ScoredMetric(one.name, one.metric, one.aggregation, scores, "", sums, terms))
            let_go()
        return found

    def scores(self, planned: PlannedMetric, parts: bool) -> Scores:
        """Return the scores of the distinct items by a metric that has some.

        Args:
            planned: The metric.
            parts: Keep all parts, as the corpus' value is made of them; else what is counted alone.
        """
        units = self._of_metric[planned.name]
        like = self._like(planned)
        whole = Scores.concatenate(
            _whole(unit, self._of_unit(unit, planned.name), like, parts) for unit in units
        )
        if units[0].whole:
            return whole
        # Also where the metric failed on what was left of the unit.
        left = dict.fromkeys(self._left_out(planned.name), NOT_SURVIVED)
        whole = replace(whole, failures=whole.failures | left)
        if self._gathering.distinct.is_each:
            return replace(whole, failures=dict(sorted(whole.failures.items())))
        chosen = self._gathering.distinct.chosen(whole.values)
        faulty = np.flatnonzero(np.isin(chosen, list(whole.failures))).tolist()
        reasons = {at: whole.failures[int(chosen[at])] for at in faulty}
        parts_of_chosen = {name: mapped(part[chosen]) for name, part in whole.parts.items()}
        return Scores(mapped(whole.values[chosen]), parts_of_chosen, reasons)

    def terms(self, planned: PlannedMetric) -> Iterator[np.ndarray]:
        """Yield ``[m, t]`` what distinct items add to the sums of a metric: those of all, some after the other."""
        units = self._of_metric[planned.name]
        width = planned.aggregate.terms(self._like(planned)).shape[1]
        pieces = (self._terms_of_unit(planned, unit, width) for unit in units)
        if units[0].whole:
            yield from pieces
            return
        chosen, first = self._chosen(planned.name), 0
        if not (np.diff(chosen) > 0).all():
            # An item has its score in a later shard than others that occur after it.
            yield np.concatenate(list(pieces))[chosen]
            return
        for piece in pieces:
            yield piece[chosen[slice(*np.searchsorted(chosen, [first, first + len(piece)]))] - first]
            first += len(piece)

    def _like(self, planned: PlannedMetric) -> Scores:
        """Return the scores of a unit of a metric, of those that have some."""
        made = (self._of_unit(unit, planned.name).scores for unit in self._of_metric[planned.name])
        return next(one for one in made if one is not None)

    def _terms_of_unit(self, planned: PlannedMetric, unit: Unit, width: int) -> np.ndarray:
        scores = self._of_unit(unit, planned.name).scores
        return (
            np.zeros((unit.rows[1] - unit.rows[0], width))
            if scores is None
            else planned.aggregate.terms(scores)
        )

    def _chosen(self, name: str) -> np.ndarray:
        """Return which item's score each distinct item has, as :meth:`scores` does."""
        distinct = self._gathering.distinct
        return distinct.first if distinct.is_each else distinct.chosen(self._values_of_items(name))

    def _sums_of_found(self, planned: PlannedMetric) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield what sums lack: items without a score in their shard that have the score of another."""
        distinct = self._gathering.distinct
        if self._of_metric[planned.name][0].whole or distinct.is_each:
            return
        has_score = np.isfinite(self._values_of_items(planned.name))
        weights = self._gathering.weights - self._gathering.weights_of(has_score)
        if weights.any():
            yield planned.aggregate.sums(self.scores(planned, parts=True), weights)

    def _values_of_items(self, name: str) -> np.ndarray:
        """Return the values of the items of all shards by a metric, NaN where it has none."""
        return np.concatenate([self._values_of_unit(unit, name) for unit in self._of_metric[name]])

    def values(self, shard: Shelved, name: str) -> np.ndarray:
        """Return the values of a shard's items by a metric, NaN where it has none."""
        units = self._of_metric[name]
        if not units[0].whole:
            return self._values_of_unit(units[shard.number], name)
        items = slice(shard.first_item, shard.first_item + shard.n_items)
        return self._values_of_unit(units[0], name)[self._gathering.distinct.of_item[items]]

    def _values_of_unit(self, unit: Unit, name: str) -> np.ndarray:
        scores = self._of_unit(unit, name).scores
        return np.full(unit.rows[1] - unit.rows[0], np.nan) if scores is None else scores.values

    def _of_unit(self, unit: Unit, name: str) -> MetricScores:
        return next(one for one in self._gathering.shelf.scores(unit.key).metrics if one.name == name)

    def _ids(self, unit: Unit) -> Sequence[str]:
        """Return the ids of what a unit scores; none where that is everything."""
        return () if unit.whole else self._gathering.shelf.items(unit.inputs[0]).ids

    def _number(self, unit: Unit, item: int, identity: str) -> int | str:
        """Return what tells an item of a unit from others."""
        return self._distinct(unit, item) if self._gathering.in_memory else identity

    def _distinct(self, unit: Unit, item: int) -> int:
        """Return which of the run's distinct items one of a unit's is."""
        return item if unit.whole else int(self._gathering.distinct.of_item[self._first_item(unit) + item])

    def _first_item(self, unit: Unit) -> int:
        return self._gathering.shards[unit.shard].first_item

    def _names(self, metric: str) -> dict[int, str]:
        """Return the id of each distinct item that a metric could not score, as it first occurs."""
        gathering, names = self._gathering, dict[int, str]()
        for unit in self._of_metric[metric]:
            one = self._of_unit(unit, metric)
            ids = (
                dict(enumerate(self._ids(unit)))
                if one.scores is None
                else gathering.shelf.scores(unit.key).ids
            )
            for item, identity in ids.items():
                names.setdefault(self._distinct(unit, item), identity)
        return names

    def _left_out(self, metric: str) -> list[int]:
        """Return the items that a metric was not given; what is not in a state has no score by it either."""
        return [
            self._first_item(unit) + item
            for unit in self._units
            if metric in unit.metrics and not unit.whole
            for item in unit.without
        ]


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
