"""Places the units of a run's metrics, and puts together what they made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ....metrics import Scores
from ...inputs.failures import Failure, FailureLog
from ...protocols.results import ScoredMetric
from ..planned_metrics import PlannedMetric
from ..units import Stage, Unit
from .gathering import Gathering, Shelved
from .scoring import metric_fingerprints
from .shelf import MetricScores, Shelf


@dataclass
class Placing:
    """The units that score a run.

    Attributes:
        metrics: The metrics.
        gathering: What is scored.
    """

    metrics: Sequence[PlannedMetric]
    gathering: Gathering

    def units(self, shards: Iterable[Shelved]) -> Iterator[Unit]:
        """Yield the units that score all shards by all metrics, those of a shard as soon as it is there.

        A unit comes after those that it needs.
        """
        first: list[Unit] = []
        alone = False
        for shard in shards:
            alone = shard.alone
            for unit in self._first(shard, alone):
                first.append(unit)
                yield unit
        if not alone:
            yield from self._by_state(first)
            yield from self._of_all()

    def _first(self, shard: Shelved, alone: bool) -> Iterator[Unit]:
        """Yield what can be done of a shard as soon as it is there, a unit a pool."""
        for pool in dict.fromkeys(map(pool_of, self.metrics)):
            metrics = [
                one
                for one in self.metrics
                if pool_of(one) == pool and (alone or one.metric.has_state or not one.metric.corpus_dependent)
            ]
            if metrics:
                yield self._unit("score", metrics, [shard], pool=pool, whole=alone)

    def _by_state(self, first: Sequence[Unit]) -> Iterator[Unit]:
        """Yield what needs the state of the corpus: of each metric the state, then all shards."""
        for one in (one for one in self.metrics if one.metric.has_state):
            mapped = [unit for unit in first if one.name in unit.metrics]
            shards = self.gathering.shards
            merge = self._unit("frequencies", [one], shards, needs=[unit.key for unit in mapped])
            yield merge
            for shard, unit in zip(shards, mapped, strict=True):
                yield self._unit("score", [one], [shard], needs=[merge.key, unit.key], pool=pool_of(one))

    def _of_all(self) -> Iterator[Unit]:
        """Yield what must see the whole corpus at once."""
        for one in self.metrics:
            if one.metric.corpus_dependent and not one.metric.has_state:
                yield self._unit("score", [one], self.gathering.shards, pool=pool_of(one), whole=True)

    def _unit(
        self,
        stage: Stage,
        metrics: Sequence[PlannedMetric],
        shards: Sequence[Shelved],
        *,
        needs: Sequence[str] = (),
        pool: str = "cpu",
        whole: bool = False,
    ) -> Unit:
        inputs = () if stage == "frequencies" else tuple(shard.items for shard in shards)
        parts = [
            stage,
            metric_fingerprints(metrics),
            [one.error for one in metrics],
            inputs,
            list(needs),
            whole,
        ]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
        rows = 0, sum(shard.n_items for shard in shards)
        names = tuple(one.name for one in metrics)
        return Unit(
            key, stage, ", ".join(names), shards[0].number, rows, tuple(needs), pool, (), inputs, names, whole
        )  # fmt: skip


def pool_of(planned: PlannedMetric) -> str:
    """Return where a metric can run: where the model is that it needs, or anywhere."""
    return next((role for role in ("encoder", "judge") if role in planned.metric.needs), "cpu")


def put_together(
    units: Sequence[Unit],
    metrics: Sequence[PlannedMetric],
    shelf: Shelf,
    failures: FailureLog,
) -> tuple[list[ScoredMetric], dict[str, float], list[Failure]]:
    """Return the scores of all items by each metric.

    Args:
        units: What was carried out, each as it was in the end.
        metrics: The metrics.
        shelf: Where the results are.
        failures: Receives the items that a metric could not score.

    Returns:
        A scored metric each (with an error where it failed as a whole), the seconds each took, and what is to be
        remarked.
    """
    made = [(unit, shelf.scores(unit.key)) for unit in units if unit.stage == "score"]
    scored: list[ScoredMetric] = []
    seconds: dict[str, float] = {}
    remarks: dict[tuple[str, str], Failure] = {}
    for planned in metrics:
        of_metric = sorted(
            (
                (unit, one, shard.ids)
                for unit, shard in made
                for one in shard.metrics
                if one.name == planned.name
            ),
            key=lambda found: found[0].shard,
        )
        seconds[planned.name] = sum(one.seconds for _, one, _ in of_metric)
        if all(one.scores is None for _, one, _ in of_metric):
            error = next((one.error for _, one, _ in of_metric), planned.error)
            scored.append(ScoredMetric(planned.name, planned.metric, planned.aggregation, None, error))
            continue
        for _, one, ids in of_metric:
            for item, reason in (one.scores.failures if one.scores else {}).items():
                failures.add(ids[item], "metric", f"{planned.name}: {reason}")
            for item, remark in (one.scores.remarks if one.scores else {}).items():
                remarks.setdefault((ids[item], remark), Failure(ids[item], "image", remark))
        like = next(one.scores for _, one, _ in of_metric if one.scores is not None)
        keep_all = planned.aggregation == "corpus"
        whole = Scores.concatenate([_of_unit(unit, one, like, keep_all) for unit, one, _ in of_metric])
        scored.append(ScoredMetric(planned.name, planned.metric, planned.aggregation, whole))
    spoken = [remark for _, shard in made for remark in shard.remarks]
    return scored, seconds, [*remarks.values(), *dict.fromkeys(spoken)]


def _of_unit(unit: Unit, made: MetricScores, like: Scores, keep_all: bool) -> Scores:
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
