"""Options that say where the shards of a run are worked on."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from .options import positive

if TYPE_CHECKING:
    from ..benchmarks.running.execution import Execution
    from ..benchmarks.scale.cluster import ClusterFile
    from ..benchmarks.scale.executors import Executor

ENGINES = ("local", "ray", "slurm")


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--engine``, ``--processes``, ``--address`` and ``--cluster``."""
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="where shards are worked on: this machine (local), a cluster of ray, Slurm (local)",
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
        metavar="DIR",
        help="where results of shards lie, and how far the run is ('bench status DIR'); for ray and slurm a folder "
        "that all machines see",
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


def execution_of_options(options: argparse.Namespace, *, has_models: bool) -> Execution:
    """Return where a run is carried out: as the options say, or else as suits this machine.

    Unless they say so, what needs no model and is more than a shard is shared by worker processes, and all else is
    done by this process.

    Args:
        options: The options of :func:`add_engine_options`.
        has_models: Whether a model is named.

    Raises:
        UsageError: An option is of another engine.
        TaskError: The cluster file is faulty.
    """
    from ..benchmarks.running.execution import Execution
    from ..benchmarks.scale.cluster import read_cluster
    from ..benchmarks.scale.executors import LocalExecutor

    if all(getattr(options, name) is None for name in ("engine", "processes", "address", "cluster")):
        executor = None if has_models else LocalExecutor()
        return Execution(executor, only_shards=True, folder=options.run_folder)
    cluster = read_cluster(options.cluster) if options.cluster else None
    folder = cluster.run_folder if cluster and options.run_folder is None else options.run_folder
    executor = executor_of(options, cluster)
    if isinstance(executor, LocalExecutor) and executor.processes == 1:
        return Execution(folder=folder, processes=1)
    return Execution(executor, folder=folder)


def executor_of(options: argparse.Namespace, cluster: ClusterFile | None) -> Executor:
    """Return the executor that the options ask for; they come before what the cluster file says.

    Raises:
        UsageError: An option is of another engine.
    """
    from ..benchmarks.scale.cluster import ClusterFile
    from ..benchmarks.scale.executors import LocalExecutor

    cluster = cluster or ClusterFile(engine="ray" if options.address else "local")
    engine = options.engine or cluster.engine
    for option, of in (("processes", "local"), ("address", "ray")):
        if getattr(options, option) is not None and engine != of:
            raise UsageError(f"--{option} is of the engine '{of}', and this is '{engine}'")
    pools = cluster.resources()
    if engine == "ray":
        from ..benchmarks.scale.ray import RayExecutor

        return RayExecutor(options.address or cluster.address, pools=pools)
    if engine == "slurm":
        from ..benchmarks.scale.slurm import SlurmExecutor

        return SlurmExecutor(cluster.slurm.slots, cluster.slurm.options, pools=pools)
    processes = cluster.processes if options.processes is None else options.processes
    return LocalExecutor(processes or None, pools=pools)


def local_folder(execution: Execution) -> Path | None:
    """Return the folder of a run, where it is no bucket."""
    from ..benchmarks.store.naming import is_address

    folder = execution.folder
    return None if folder is None or is_address(str(folder)) else Path(folder)
