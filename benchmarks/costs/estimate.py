"""Works out what a run costs, stage by stage, from measured figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..protocols.job import SHARD
from ..running.planned_metrics import PlannedMetric
from ..running.shards.placing import pool_of
from ..statistics import Intervals
from ..statistics.influence import by_influence
from ..tables.html_table import html_lines, html_output, html_table
from .counting import count_units, shards_of
from .shown import LEFT, cost_lines, cost_rows
from .table import CostTable, Origin

Basis = Literal["measured here", "measured elsewhere", "modelled", "given", "open"]
CPU = "cpu"
"""The pool of what needs no model."""
_LATE = "score, by the corpus"
_OPTIONS = {
    "captioner": "--captions_per_second",
    "encoder": "--images_per_second",
    "judge": "--judgements_per_second",
}
"""By the role of a model, the option that says how fast it is."""


@dataclass(frozen=True)
class Workers:
    """What the units of a pool are carried out by.

    Attributes:
        count: How many there are.
        cpus: Cores of each.
        gpus: GPUs of each.
    """

    count: int = 1
    cpus: float = 1
    gpus: float = 0


@dataclass(frozen=True)
class Demand:
    """What is asked for.

    Attributes:
        rows: Documents.
        metrics: The metrics.
        captioner: Name of the model that is asked for captions; empty where they are at hand.
        encoder: Name of the model that encodes for the metrics.
        shard: Documents of a shard.
        references: References a caption.
        resamples: Of each interval; 0 asks for none.
        intervals: How they are made.
        workers: By pool; one of a core unless named.
        captions_per_second: Of a replica of the captioner; None: as the table has it.
        images_per_second: Images, each with its caption, of a replica of the encoder; likewise.
        judgements_per_second: Of a replica of the judge; no table has any.
        is_elsewhere: Whether units are carried out by workers, not by the process that was called.
    """

    rows: int
    metrics: Sequence[PlannedMetric]
    captioner: str = ""
    encoder: str = ""
    shard: int = SHARD
    references: int = 5
    resamples: int = 1000
    intervals: Intervals = "auto"
    workers: Mapping[str, Workers] = field(default_factory=dict[str, Workers])
    captions_per_second: float | None = None
    images_per_second: float | None = None
    judgements_per_second: float | None = None
    is_elsewhere: bool = False

    @property
    def shards(self) -> int:
        """How many shards the documents are."""
        return shards_of(self.rows, self.shard)

    def workers_of(self, pool: str) -> Workers:
        """Return what carries out the units of a pool."""
        return self.workers.get(pool, Workers())


@dataclass(frozen=True)
class StageCost:
    """What a stage costs; None where nothing is known.

    Attributes:
        stage: What is done.
        pool: Where: ``driver`` is the process that was called.
        units: Units of engines; 0 where the driver does it itself.
        core_seconds: Of all workers.
        gpu_seconds: Of all workers.
        wall_seconds: From its start to its end.
        basis: Where the figures come from.
        why: The same in words.
    """

    stage: str
    pool: str
    units: int
    core_seconds: float | None
    gpu_seconds: float | None
    wall_seconds: float | None
    basis: Basis
    why: str


@dataclass(frozen=True)
class Estimate:
    """What a run costs.

    Attributes:
        stages: One after the other.
        stored_bytes: Written: texts, scores, samples; images are none of it.
        read_bytes: Read; images are none of it.
        driver_bytes: Memory of the process that was called.
        worker_bytes: Memory of a worker, the model of its pool not counted; 0 where there are none.
        bytes_basis: Where these four come from.
    """

    stages: Sequence[StageCost]
    stored_bytes: float
    read_bytes: float
    driver_bytes: float
    worker_bytes: float
    bytes_basis: Basis

    @property
    def units(self) -> int:
        """Units in all."""
        return sum(one.units for one in self.stages)

    def total(self, name: Literal["core_seconds", "gpu_seconds", "wall_seconds"]) -> float | None:
        """Return a sum over all stages; None where one of them is open."""
        values = [getattr(one, name) for one in self.stages]
        return None if None in values else sum(values)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a row a stage, and what is written and held."""
        return html_output(html_table(cost_rows(self), LEFT), html_lines(cost_lines(self)))


def estimate(demand: Demand, table: CostTable, origin: Origin) -> Estimate:
    """Return what a run costs.

    Args:
        demand: What is asked for.
        table: Measured figures.
        origin: On which machine they were measured.
    """
    run, rows = table.run, demand.rows
    basis: Basis = origin if rows <= table.growth[-1].rows else "modelled"
    return Estimate(
        list(_Stages(demand, table, origin, basis).all()),
        rows * run.stored_row_bytes,
        rows * run.read_row_bytes,
        run.driver_bytes + rows * run.driver_row_bytes,
        run.worker_bytes if demand.is_elsewhere else 0,
        basis,
    )


@dataclass(frozen=True)
class _Stages:
    demand: Demand
    table: CostTable
    origin: Origin
    """Where figures come from that are the same for any number of documents."""
    basis: Basis
    """Where the others come from."""

    def all(self) -> Iterator[StageCost]:
        run, rows = self.table.run, self.demand.rows
        start = run.start_seconds
        yield StageCost("start", "driver", 0, start, 0, start, self.origin, "imports; models not counted")
        if self.demand.is_elsewhere:
            yield self._start_of_workers()
        if self.demand.captioner:
            yield self._asked("caption", "captioner", self.demand.shards)
        yield self._of_driver(
            "documents", rows * run.row_seconds, "read, checked, hashed, written as samples"
        )
        counted = count_units(self.demand.metrics, self.demand.shards)
        for (stage, pool, late), units in sorted(counted.items(), key=lambda one: (one[0][2], one[0])):
            if stage == "frequencies":
                yield self._merging(units)
            else:
                yield self._scores(pool, units, late)
        yield self._intervals()

    def _intervals(self) -> StageCost:
        demand, run = self.demand, self.table.run
        # What no sums are made of is resampled, whatever is asked for.
        summed = sum(one.aggregate.has_sums for one in demand.metrics)
        influenced = summed if by_influence(demand.intervals, demand.rows) else 0
        resampled = len(demand.metrics) - influenced
        seconds = resampled * run.resample_seconds * demand.resamples / 1000
        seconds += influenced * run.influence_seconds * (demand.resamples > 0)
        ways = [name for name, count in (("influence", influenced), ("resamples", resampled)) if count]
        return self._of_driver("intervals", demand.rows * seconds, f"{' and '.join(ways)} of documents")

    def _of_driver(self, stage: str, seconds: float, why: str) -> StageCost:
        return StageCost(stage, "driver", 0, seconds, 0, seconds, self.basis, why)

    def _start_of_workers(self) -> StageCost:
        pools = {CPU, *(pool_of(one) for one in self.demand.metrics)}
        pools |= {"captioner"} if self.demand.captioner else set()
        count = sum(self.demand.workers_of(pool).count for pool in pools)
        seconds = self.table.run.worker_seconds
        return StageCost(
            "workers", "all", 0, count * seconds, 0, seconds, self.origin, f"{count} are started"
        )

    def _scores(self, pool: str, units: int, late: bool) -> StageCost:
        if pool == CPU:
            return self._scores_of_words(units, late)
        named = [one.name for one in self._metrics(pool) if one.metric.has_state]
        if late and named:
            # Their features are at hand by then.
            return _open(_LATE, pool, units, named)
        return self._asked("score", pool, units)

    def _asked(self, stage: str, pool: str, units: int) -> StageCost:
        """Return what it costs to ask a model once a document."""
        demand, workers = self.demand, self.demand.workers_of(pool)
        given, known, model = {
            "captioner": (demand.captions_per_second, self.table.captions_per_second, demand.captioner),
            "encoder": (demand.images_per_second, self.table.images_per_second, demand.encoder),
            "judge": (demand.judgements_per_second, {}, "the judge"),
        }[pool]
        rate = given or known.get(model)
        if rate is None:
            why = f"how fast {model} is was not measured: name it with {_OPTIONS[pool]}"
            return StageCost(stage, pool, units, None, None, None, "open", why)
        seconds = demand.rows / rate
        return StageCost(
            stage,
            pool,
            units,
            seconds * workers.cpus,
            seconds * workers.gpus,
            _wall(seconds, units, workers.count),
            "given" if given else self.basis,
            f"{model}: {rate:g} a second and worker, {workers.count} of them",
        )

    def _scores_of_words(self, units: int, late: bool) -> StageCost:
        """Return what it costs to score without a model: what metrics share first, what needs the corpus last."""
        known = self.table.metrics
        metrics = self._metrics(CPU)
        if unknown := [one.name for one in metrics if _name(one) not in known]:
            return _open(_LATE if late else "score", CPU, units, unknown)
        is_late = {one.name: one.metric.corpus_dependent and self.demand.shards > 1 for one in metrics}
        own = [one for one in metrics if is_late[one.name] == late]
        # What a metric shares with others is there once the state is that it is scored by.
        first = [one for one in metrics if one.metric.has_state or not is_late[one.name]] if not late else []
        shared = sorted({part for one in first for part in known[_name(one)].parts})
        each = sum(known[_name(one)].seconds for one in own) + sum(self.table.parts[one] for one in shared)
        texts, measured = self.demand.references + 1, self.table.references + 1
        basis = self.basis if texts == measured else "modelled"
        seconds = self.demand.rows * each * texts / measured
        wall = _wall(seconds, units, self.demand.workers_of(CPU).count)
        why = ", ".join([*shared, *(one.name for one in own)])
        return StageCost(_LATE if late else "score", CPU, units, seconds, 0, wall, basis, why)

    def _merging(self, units: int) -> StageCost:
        """Return what it costs to merge what shards say of the corpus, part by part."""
        metrics = [one for one in self.demand.metrics if one.metric.has_state]
        if unknown := [one.name for one in metrics if _name(one) not in self.table.metrics]:
            return _open("frequencies", CPU, units, unknown)
        # What is merged in twos passes so many merges.
        merges = self.demand.rows * math.ceil(math.log2(self.demand.shards))
        seconds = sum(self.table.metrics[_name(one)].merge_seconds * merges for one in metrics)
        wall = _wall(seconds, units, self.demand.workers_of(CPU).count)
        why = ", ".join(one.name for one in metrics)
        return StageCost("frequencies", CPU, units, seconds, 0, wall, self.basis, why)

    def _metrics(self, pool: str) -> list[PlannedMetric]:
        return [one for one in self.demand.metrics if pool_of(one) == pool]


def _open(stage: str, pool: str, units: int, names: Sequence[str]) -> StageCost:
    why = f"not measured: {', '.join(names)}"
    return StageCost(stage, pool, units, None, 0 if pool == CPU else None, None, "open", why)


def _name(planned: PlannedMetric) -> str:
    """Return what a metric is called, without its settings."""
    return planned.name.partition("[")[0]


def _wall(seconds: float, units: int, workers: int) -> float:
    """Return the seconds in which workers do equal units: where some are idle in the last round, they wait."""
    return seconds / units * shards_of(units, workers)
