"""The units that score a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ....metrics import Metric, Need
from ...inputs.models import ROLES
from ..planned_metrics import PlannedMetric
from ..units import Stage, Unit
from .gathering import Gathering, Shelved
from .scoring import metric_fingerprints
from .states import PARTS


@dataclass
class Placing:
    """The units that score a run.

    Attributes:
        metrics: The metrics.
        gathering: What is scored.
        models: What tells the models from others, by role: a unit's key follows from those that it needs.

    Raises:
        ValueError: The metrics look at images, and what these hold is not gathered: units could not be told apart.
    """

    metrics: Sequence[PlannedMetric]
    gathering: Gathering
    models: Mapping[str, str]

    def __post_init__(self) -> None:
        if "image" in needs_of(self.metrics) and not self.gathering.hash_images:
            raise ValueError("the units of metrics that look at images have keys of what these hold")

    def units(self, shards: Iterable[Shelved]) -> Iterator[Unit]:
        """Yield the units that score all shards by all metrics, those of a shard as soon as it is there.

        A unit comes after those that it needs.
        """
        first: list[Unit] = []
        alone = True
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
        """Yield what needs the state of the corpus: of each metric the state, part by part, then all shards."""
        for one in (one for one in self.metrics if one.metric.has_state):
            mapped = [unit for unit in first if one.name in unit.metrics]
            shards = self.gathering.shards
            needs = [unit.key for unit in mapped]
            merges = [
                self._unit("frequencies", [one], shards, needs=needs, part=part) for part in range(PARTS)
            ]
            yield from merges
            merged = [unit.key for unit in merges]
            for shard, unit in zip(shards, mapped, strict=True):
                yield self._unit("score", [one], [shard], needs=[*merged, unit.key], pool=pool_of(one))

    def _of_all(self) -> Iterator[Unit]:
        """Yield what must see the whole corpus at once: its distinct items."""
        metrics = [one for one in self.metrics if is_of_all(one.metric)]
        if not metrics:
            return
        gathering = self.gathering
        distinct = {"first": gathering.distinct.first, "weights": gathering.weights}
        key = gathering.shelf.add(distinct)
        for one in metrics:
            unit = self._unit("score", [one], gathering.shards, pool=pool_of(one), whole=True, beside=(key,))
            yield replace(unit, rows=(0, len(distinct["first"])))

    def _unit(
        self,
        stage: Stage,
        metrics: Sequence[PlannedMetric],
        shards: Sequence[Shelved],
        *,
        needs: Sequence[str] = (),
        pool: str = "cpu",
        whole: bool = False,
        beside: tuple[str, ...] = (),
        part: int | None = None,
    ) -> Unit:
        inputs = () if stage == "frequencies" else (*(shard.items for shard in shards), *beside)
        needed = needs_of(metrics)
        parts = [
            stage,
            metric_fingerprints(metrics),
            [one.error for one in metrics],
            inputs,
            list(needs),
            whole,
            part,
            [self.models[role] for role in ROLES if role in needed],
            [shard.images for shard in shards if "image" in needed],
        ]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
        rows = 0, sum(shard.n_items for shard in shards)
        names = tuple(one.name for one in metrics)
        return Unit(
            key, stage, ", ".join(names), shards[0].number, rows, tuple(needs), pool, (), inputs, names, whole,
            part,
        )  # fmt: skip


def needs_of(metrics: Sequence[PlannedMetric]) -> set[Need]:
    """Return what must be there for metrics, but for those that cannot run."""
    return set().union(*(one.metric.needs for one in metrics if not one.error))


def is_of_all(metric: Metric) -> bool:
    """Return whether a metric must see all items of a corpus at once."""
    return metric.corpus_dependent and not metric.has_state


def pool_of(planned: PlannedMetric) -> str:
    """Return where a metric can run: where the model is that it needs, or anywhere."""
    return next((role for role in ("encoder", "judge") if role in planned.metric.needs), "cpu")
