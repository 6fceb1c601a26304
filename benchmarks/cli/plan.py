"""``bench plan``: what a run would cost."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import CodeError, DataError, counted
from ...hub import asking_nobody
from .options import (
    add_boundary_option,
    add_intervals_option,
    add_judge_options,
    add_task_options,
    names,
    not_negative,
    positive,
)

if TYPE_CHECKING:
    from ..costs.estimate import Demand, Estimate, Workers
    from ..running.plan import PlannedRun

_EPILOG = """\
Nothing is run, and no model is loaded. Each line says where its figures come from:
  measured here       by 'make bench-scale' on this machine, which writes them to $BENCH_CACHE/costs.yaml
  measured elsewhere  on the machine that the heading names; its figures come with capbench
  modelled            more captions than were measured, or other numbers of references
  given               worked out from a speed that you name
  open                nobody measured it: the totals that it belongs to are open, too

example:
  bench plan --task iiw_400 --model llava-1.5 --rows 1000000000 --captions_per_second 12 --processes 64

docs/scale.md says how the figures are worked out, and how far they were off."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--task", "--tasks", dest="tasks", nargs="+", required=True, metavar="NAME", help="tasks"
    )
    parser.add_argument("--model", metavar="NAME", help="as of 'bench run'")
    parser.add_argument("--model_args", metavar="K=V,...", default="", help="arguments of its adapter")
    parser.add_argument("--encoder", metavar="NAME", help="what encodes images and texts for the metrics")
    parser.add_argument("--encoder_args", metavar="K=V,...", default="", help="arguments of its adapter")
    add_judge_options(parser)
    parser.add_argument("--metrics", nargs="+", metavar="NAME", help="metrics in place of the task's own")
    parser.add_argument(
        "--rows", type=positive, metavar="N", help="documents, each with a caption (those that the task has)"
    )
    parser.add_argument(
        "--references", type=not_negative, default=5, metavar="N", help="references of a caption (5)"
    )
    parser.add_argument(
        "--bootstrap",
        type=not_negative,
        default=1000,
        metavar="N",
        help="resamples of each interval (1000); 0: no intervals",
    )
    add_intervals_option(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--cluster", metavar="FILE", type=Path, help="cluster file: pools and their workers")
    where.add_argument("--processes", type=positive, default=1, metavar="N", help="of this machine (1)")
    for what, who in (("captions", "the captioner"), ("images", "the encoder"), ("judgements", "the judge")):
        parser.add_argument(
            f"--{what}_per_second", type=_speed, metavar="X", help=f"how fast a worker with {who} is"
        )
    parser.add_argument(
        "--gpus",
        type=not_negative,
        default=1,
        metavar="N",
        help="GPUs of a worker with a model, without --cluster (1)",
    )
    parser.add_argument("--costs", metavar="FILE", type=Path, help="figures of another machine")
    parser.add_argument("--format", choices=("github", "json"), default="github")
    add_task_options(parser)
    add_boundary_option(parser)


def _speed(text: str) -> float:
    """Read a finite number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, found '{text}'")
    return number


@asking_nobody()
def run(options: argparse.Namespace) -> int:
    """Print what each task would cost."""
    from ..costs.estimate import estimate
    from ..costs.table import read_costs

    table, file, origin = read_costs(options.costs)
    try:
        demands = {planned.task.task: _demand(planned, options) for planned in _planned(options)}
    except CodeError as error:
        hint = "'bench plan' runs no code: name metrics of capbench's with --metrics, and the documents with --rows N."
        raise CodeError(error.message, hint) from error
    found = {task: estimate(demand, table, origin) for task, demand in demands.items()}
    if options.format == "json":
        costs = {"file": str(file), "machine": table.machine, "note": table.note, "origin": origin}
        tasks = {task: _values(demands[task], one) for task, one in found.items()}
        print(json.dumps({"costs": costs, "tasks": tasks}, indent=2, ensure_ascii=False))
        return 0
    for task, one in found.items():
        rows, shards = counted(demands[task].rows, "document"), counted(demands[task].shards, "shard")
        print(f"{task}: {rows} in {shards}\n")
        print(_table(one), end="\n\n")
    print(f"Figures {origin}: {table.machine} ({file}).")
    return 0


def _planned(options: argparse.Namespace) -> list[PlannedRun]:
    """Plan the runs; the data need not be on this machine where the number of documents is given."""
    from ...adapters.aliases import resolve_model
    from ...tasks.index import build_index
    from ...tasks.locate import DataLocations, parse_data_options
    from ..inputs.metric_names import split_metrics
    from ..inputs.models import NamedModels
    from ..running.plan import plan_tasks

    index = build_index(options.include_path)
    data = index.expand_names(parse_data_options(options.data))
    locations = DataLocations.from_environment(data, options.allow_outside)
    named = [
        (getattr(options, role), getattr(options, f"{role}_args")) for role in ("model", "encoder", "judge")
    ]
    models = NamedModels.of(*(resolve_model(*one) if one[0] else None for one in named))
    return plan_tasks(index, names(options.tasks), models, split_metrics(options.metrics or []), locations)


def _demand(planned: PlannedRun, options: argparse.Namespace) -> Demand:
    from ..costs.estimate import Demand
    from ..protocols.job import SHARD, SHARD_OF_IMAGES

    captioner = planned.captioner
    workers, is_elsewhere = _workers(options)
    return Demand(
        options.rows or _documents(planned, options),
        planned.metrics,
        # Recorded captions cost nothing to have.
        captioner=captioner.name if captioner and captioner.adapter != "captions" else "",
        encoder=planned.encoder.name if planned.encoder else "",
        shard=SHARD_OF_IMAGES if captioner or planned.looks_at_images else SHARD,
        references=options.references,
        resamples=options.bootstrap,
        intervals=options.intervals,
        workers=workers,
        captions_per_second=options.captions_per_second,
        images_per_second=options.images_per_second,
        judgements_per_second=options.judgements_per_second,
        is_elsewhere=is_elsewhere,
    )


def _documents(planned: PlannedRun, options: argparse.Namespace) -> int:
    """Return how many documents a task has.

    Raises:
        DataError: They are not on this machine, or cannot be read.
    """
    from ...tasks.documents import load_documents
    from ...tasks.locate import DataLocations, parse_data_options

    locations = DataLocations.from_environment(parse_data_options(options.data), options.allow_outside)
    try:
        return len(load_documents(planned.task, planned.path, locations).rows)
    except DataError as error:
        hint = f"{error.hint}\nOr say for how many documents: --rows N.".strip()
        raise DataError(error.message, hint) from error


def _workers(options: argparse.Namespace) -> tuple[dict[str, Workers], bool]:
    """Return the workers of each pool, and whether they are other processes than the one that is called."""
    from ..costs.estimate import Workers
    from ..engines.cluster import read_cluster
    from ..inputs.models import ROLES

    gpu = Workers(1, gpus=options.gpus)
    workers = {"cpu": Workers(options.processes), **dict.fromkeys(ROLES, gpu)}
    if not options.cluster:
        return workers, options.processes > 1
    cluster = read_cluster(options.cluster)
    workers["cpu"] = Workers(cluster.processes)
    workers |= {pool.name: Workers(pool.replicas or 1, pool.cpus, pool.gpus) for pool in cluster.make_pools()}
    return workers, cluster.engine != "local" or cluster.processes > 1


def _values(demand: Demand, found: Estimate) -> dict[str, Any]:
    from ..costs.shown import TOTALS

    return {
        "rows": demand.rows,
        "shards": demand.shards,
        **asdict(found),
        "units": found.units,
        **{name: found.total(name) for name in TOTALS},
    }


def _table(found: Estimate) -> str:
    from tabulate import tabulate

    from ..costs.shown import LEFT, cost_lines, cost_rows

    rows = cost_rows(found)
    sides = ["left" if name in LEFT else "right" for name in rows[0]]
    text = tabulate(rows, headers="keys", tablefmt="github", colalign=sides, disable_numparse=True)
    return "\n".join([text, "", *cost_lines(found)])
