"""Options that say where units run, and how far they are."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UsageError, counted
from .options import positive

if TYPE_CHECKING:
    from ..engines.cluster import ClusterFile
    from ..engines.contract import Advance, Engine
    from ..running.engaging import EngineChoice

ENGINES = ("local", "ray", "slurm")
_LINE_SECONDS = 30.0


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--engine``, ``--processes``, ``--address`` and ``--cluster``."""
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="where units run: this machine (local), a cluster of ray, Slurm (local)",
    )
    parser.add_argument(
        "--processes",
        type=_processes,
        metavar="N",
        help="worker processes of the engine local; 1: all in this process; auto: what cores and memory allow "
        "(auto where no model is named and there is enough to do, else 1)",
    )
    parser.add_argument(
        "--address",
        metavar="ADDRESS",
        help="cluster of ray: auto, HOST:PORT of its head, or local for one of this machine (auto)",
    )
    parser.add_argument(
        "--run_folder",
        type=Path,
        metavar="DIR",
        help="where drivers and workers write how far they are ('bench status DIR'); for slurm a folder that all "
        "nodes see",
    )
    parser.add_argument(
        "--cluster",
        type=Path,
        metavar="FILE",
        help="YAML file that says all that, and what workers take: docs/scale.md",
    )


def _processes(text: str) -> int:
    """Read how many processes are asked for; 0 is auto."""
    if text == "auto":
        return 0
    try:
        return positive(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; or 'auto'") from error


def where_work_is_done(
    options: argparse.Namespace, *, has_models: bool
) -> tuple[str | None, EngineChoice | None]:
    """Return which results are shared, and where the work is done: as the options say, or else as suits this machine.

    Unless they say so, what needs no model and is more than a shard is shared by worker processes, and all else is
    done by this process.

    Args:
        options: The options of :func:`add_engine_options`, and ``--store``.
        has_models: Whether a model is named.

    Raises:
        UsageError: An option is of another engine, or of workers where there are none.
        TaskError: The cluster file is faulty.
    """
    from ..engines.cluster import read_cluster

    cluster = read_cluster(options.cluster) if options.cluster else None
    store = cluster.store if cluster and options.store is None else options.store
    return store, _chosen_engine(options, cluster, has_models)


def _chosen_engine(
    options: argparse.Namespace, cluster: ClusterFile | None, has_models: bool
) -> EngineChoice | None:
    from ..engines.local import LocalEngine
    from ..running.engaging import EngineChoice

    if all(getattr(options, name) is None for name in ("engine", "processes", "address", "cluster")):
        if has_models:
            _refuse_folder(options)
            return None
        engine = LocalEngine(None, has_models=False)
        return EngineChoice(engine, only_shards=True, folder=options.run_folder)
    engine = engine_of(options, cluster)
    if isinstance(engine, LocalEngine):
        if engine.processes == 1:
            _refuse_folder(options)
            return EngineChoice(None, processes=1)
        engine = LocalEngine(engine.processes, list(engine.pools.values()), has_models)
    return EngineChoice(engine, folder=options.run_folder)


def _refuse_folder(options: argparse.Namespace) -> None:
    if options.run_folder is not None:
        raise UsageError(
            "--run_folder is of workers, and this process does all the work alone",
            "Name workers with --processes 2 (or auto), --engine or --cluster, or leave it out.",
        )


def engine_of(options: argparse.Namespace, cluster: ClusterFile | None) -> Engine:
    """Return the engine that the options ask for; they come before what the cluster file says.

    Raises:
        UsageError: An option is of another engine.
    """
    from ..engines.cluster import ClusterFile

    cluster = cluster or ClusterFile(engine="ray" if options.address else "local")
    engine = options.engine or cluster.engine
    for option, of in (("processes", "local"), ("address", "ray")):
        if getattr(options, option) is not None and engine != of:
            raise UsageError(f"--{option} is of the engine '{of}', and this is '{engine}'")
    pools = cluster.make_pools()
    if engine == "ray":
        from ..engines.ray import RayEngine

        return RayEngine(options.address or cluster.address, pools)
    if engine == "slurm":
        from ..engines.slurm import SlurmEngine

        return SlurmEngine(pools, cluster.slurm.slots, cluster.slurm.options)
    from ..engines.local import LocalEngine

    processes = cluster.processes if options.processes is None else options.processes
    return LocalEngine(processes or None, pools)


def duration(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def advance_lines() -> Callable[[Advance], None]:
    """Return what writes a line to stderr every half minute, for logs."""
    told = time.monotonic()

    def report(advance: Advance) -> None:
        nonlocal told
        if time.monotonic() - told >= _LINE_SECONDS:
            told = time.monotonic()
            left = "" if advance.left is None else f", {duration(advance.left)} left"
            done = f"{advance.done:,} of {counted(advance.units, 'unit')} done"
            print(f"{done}, {advance.rate:,.1f} documents a second{left}", file=sys.stderr)

    return report
