"""Options that several subcommands share, the parsing of their values, and output."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..paths import cache_folder
from ..permissions import SERVERS_VARIABLE, Permissions

if TYPE_CHECKING:
    from ..benchmarks.running.execution import Execution
    from ..rows import BadRow
    from ..tasks.index import TaskIndex
    from ..tasks.locate import DataLocations

REDISTRIBUTION = {
    "full": "may be passed on with their samples (redistribution: full)",
    "scores": "may be passed on without captions and ratings: --log_samples scores (redistribution: scores)",
}
"""What the terms allow for runs over a data set, by its card's ``redistribution``."""


def whole_number(least: int, label: str, most: int | None = None) -> Callable[[str], int]:
    """Return what reads a whole number.

    Args:
        least: The smallest that is accepted.
        label: What is expected, for messages.
        most: The largest; None for any.
    """

    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and int(text) >= least and (most is None or int(text) <= most):
            return int(text)
        raise argparse.ArgumentTypeError(f"expected {label}, found '{text}'")

    return read


positive = whole_number(1, "a whole number above 0")
not_negative = whole_number(0, "a whole number, 0 or above")


def share(text: str) -> float:
    """Read a number between 0 and 1, without these."""
    if not 0 < (number := float(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, found '{text}'")
    return number


def number_or_auto(text: str) -> int:
    """Read a number above 0; 0 is auto."""
    if text == "auto":
        return 0
    try:
        return positive(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; or 'auto'") from error


_REPEATED = {"action": "append", "default": []}
_ARGUMENTS = {"metavar": "K=V,...", "default": ""}
_OPTIONS: dict[str, dict[str, Any]] = {
    "--include_path": _REPEATED | {"metavar": "DIR", "help": "folder with your task files (may be repeated)"},
    "--data": _REPEATED
    | {
        "metavar": "TASK=PATH",
        "help": "local data of a task (may be repeated); $CAPBENCH_DATA names a folder with one folder a data set",
    },
    "--allow_outside": _REPEATED
    | {
        "metavar": "DIR",
        "help": "additional folder whose files tasks and rows may name (may be repeated); see docs/tasks.md",
    },
    "--run_functions": {
        "action": "store_true",
        "help": "run the functions and readers that files name (!function); do so for files that you have read",
    },
    "--allow_server": _REPEATED
    | {
        "metavar": "HOST[:PORT]",
        "help": f"server that files may name (may be repeated; ${SERVERS_VARIABLE} holds more, separated by commas)",
    },
    "--trust_remote_code": {
        "action": "store_true",
        "help": "run code that comes with models, as --model_args trust_remote_code=true does for one",
    },
    "--store": {
        "metavar": "FILE|URL",
        "help": "file that keeps what is costly to compute (default: in $BENCH_CACHE); a URL such as "
        "s3://BUCKET/PREFIX, or a folder with / at its end, names results that machines share (docs/store.md)",
    },
    "--model_args": _ARGUMENTS | {"help": "arguments of its adapter"},
    "--judge": {
        "metavar": "NAME",
        "help": "model that judges captions, for metrics that need one: alias, adapter, or responses:FILE for "
        "recorded responses",
    },
    "--judge_args": _ARGUMENTS | {"help": "arguments of its adapter"},
    "--seed": {"type": not_negative, "default": 1234, "metavar": "N", "help": "seed of the bootstrap (1234)"},
    "--intervals": {
        "choices": ("auto", "bootstrap", "influence"),
        "default": "auto",
        "help": "bootstrap: by resamples; influence: by influence functions, where they are known; auto: by these from "
        "a million rows on (docs/compare.md)",
    },
    "--format": {"choices": ("github", "latex", "csv", "json"), "default": "github"},
    "--metrics": {"nargs": "+", "metavar": "NAME"},
    "--port": {
        "type": whole_number(0, "a port, 0 to 65535", 65535),
        "default": 0,
        "metavar": "N",
        "help": "port to listen at (one that is free)",
    },
    "--host": {
        "default": "127.0.0.1",
        "metavar": "ADDRESS",
        "help": "address to listen at (127.0.0.1, which this machine alone reaches)",
    },
    "--engine": {
        "choices": ("local", "ray", "slurm"),
        "help": "where shards are computed: this machine (local), a cluster of ray, Slurm (local)",
    },
    "--processes": {
        "type": number_or_auto,
        "metavar": "N",
        "help": "worker processes of the engine local; 1: all in this process; auto: what cores and memory allow "
        "(auto where no model is named and there is enough to do, else 1)",
    },
    "--address": {
        "metavar": "ADDRESS",
        "help": "cluster of ray: auto, HOST:PORT of its head, or local for one of this machine (auto)",
    },
    "--run_folder": {
        "metavar": "DIR",
        "help": "folder for results of shards and the progress of the run (progress.json); for ray and slurm a "
        "folder that all machines see",
    },
    "--cluster": {
        "type": Path,
        "metavar": "FILE",
        "help": "YAML file with these options and the resources of workers: docs/scale.md",
    },
}
"""Arguments of ``add_argument`` for options that several subcommands share."""

TASK = ("--include_path", "--data")
READING = ("--allow_outside", "--run_functions")
"""Permissions of files, for a command that loads no model."""
PERMISSIONS = (*READING, "--allow_server", "--trust_remote_code")
"""Permissions of files, for a command that loads models."""
JUDGE = ("--judge", "--judge_args")
SERVER = ("--port", "--host")
ENGINE = ("--engine", "--processes", "--address", "--run_folder", "--cluster")


def add_options(parser: argparse.ArgumentParser, *options: str, **settings: Any) -> None:
    """Declare shared options.

    Args:
        parser: The subcommand's.
        *options: Their names.
        **settings: Arguments of ``add_argument``, added to the shared ones or in place of them.
    """
    for option in options:
        parser.add_argument(option, **(_OPTIONS[option] | settings))


def permissions_of(options: argparse.Namespace) -> Permissions:
    """Return what a command line allows: its options, and the folders that it names for task files.

    Raises:
        UsageError: A folder does not exist, or a server is none.
    """
    named = (option.removeprefix("--") for option in (*PERMISSIONS, "--include_path"))
    return Permissions.of(**{name: getattr(options, name) for name in named if hasattr(options, name)})


def locations_of(options: argparse.Namespace, index: TaskIndex | None = None) -> DataLocations:
    """Return where data may be, from ``--data``, ``--allow_outside`` and the environment.

    Args:
        options: The command's.
        index: The tasks, where ``--data`` may name groups and tags.

    Raises:
        UsageError: An option is faulty.
    """
    from ..tasks.locate import DataLocations, parse_data_options

    named = parse_data_options(options.data)
    allowed = getattr(options, "allow_outside", ())
    return DataLocations.from_environment(index.expand_names(named) if index else named, allowed)


def task_settings(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return ``--data``, by task, ``--include_path``, ``--allow_outside`` and other options, by their names.

    Raises:
        UsageError: ``--data`` is not of the form TASK=PATH.
    """
    from ..tasks.locate import parse_data_options

    same = {name: getattr(options, name) for name in ("include_path", "allow_outside", *names)}
    return {"data": parse_data_options(options.data), **same}


def refuse(*faults: tuple[object, str] | tuple[object, str, str]) -> None:
    """Check which options go together.

    Args:
        *faults: Conditions that must not hold, each with a message and perhaps a hint.

    Raises:
        UsageError: With the message of the first condition that holds.
    """
    for is_wrong, message, *hint in faults:
        if is_wrong:
            raise UsageError(message, hint[0] if hint else "")


def names(values: list[str] | None) -> list[str]:
    """Return the names in options that take several, by comma or space."""
    return [name.strip() for value in values or [] for name in value.split(",") if name.strip()]


def tell(*lines: object) -> None:
    """Print lines on stderr."""
    for line in lines:
        print(line, file=sys.stderr, flush=True)


def tell_rows(outcome: str, rows: Iterable[BadRow]) -> None:
    """Print rows on stderr, each with its outcome and the reason."""
    tell(*(f"{outcome}: {row.place}: {row.reason}" for row in rows))


def print_table(rows: Iterable[Mapping[str, object]], style: str = "github") -> None:
    """Print rows as a table whose columns are their keys; values stand as they are written."""
    from tabulate import tabulate

    print(tabulate(rows, headers="keys", tablefmt=style, disable_numparse=True))


def describe_model_folder(name: str | None, overrides: Collection[str] = ()) -> str:
    """Return what the ``model.yaml`` of a folder asks for, in lines; empty for what is no such folder.

    Args:
        name: What ``--model`` names.
        overrides: Arguments that the user gives in place of the file's.
    """
    from ..access import request_lines
    from ..adapters.aliases import ALIAS_FILE, requests_of_model
    from ..paths import is_file

    folder = Path(name).expanduser() if name else None
    if folder is None or not is_file(folder / ALIAS_FILE):
        return ""
    lines = request_lines(requests_of_model(folder, overrides))
    return "\n".join([f"{folder / ALIAS_FILE}  (model)", *(f"{kind:<13}{text}" for kind, text in lines)])


def execution_of(options: argparse.Namespace, *, has_models: bool) -> Execution:
    """Return where a run is executed.

    Options override the cluster file. Without any, worker processes compute what needs no model and is more than a
    shard; this process computes the rest.

    Args:
        options: Those of ``ENGINE``.
        has_models: Whether a model is named.

    Raises:
        UsageError: An option goes with another engine.
        TaskError: The cluster file is faulty.
    """
    from ..benchmarks.running.execution import Execution
    from ..benchmarks.scale.executors import LocalExecutor

    if all(getattr(options, name) is None for name in ("engine", "processes", "address", "cluster")):
        executor = None if has_models else LocalExecutor()
        return Execution(executor, only_shards=True, folder=options.run_folder)
    from .cluster_file import ClusterFile, read_cluster

    usual = ClusterFile(engine="ray" if options.address else "local")
    cluster = read_cluster(options.cluster) if options.cluster else usual
    folder = cluster.run_folder if options.run_folder is None else options.run_folder
    engine = options.engine or cluster.engine
    for option, of in (("processes", "local"), ("address", "ray")):
        if getattr(options, option) is not None and engine != of:
            raise UsageError(f"--{option} goes with the engine '{of}', not '{engine}'")
    pools = cluster.resources()
    if engine == "ray":
        from ..benchmarks.scale.ray import RayExecutor

        return Execution(RayExecutor(options.address or cluster.address, pools=pools), folder=folder)
    if engine == "slurm":
        from ..benchmarks.scale.slurm import SlurmExecutor

        return Execution(SlurmExecutor(cluster.slurm.slots, cluster.slurm.options, pools=pools), folder=folder)
    processes = cluster.processes if options.processes is None else options.processes
    if processes == 1:
        return Execution(folder=folder, processes=1)
    return Execution(LocalExecutor(processes or None, pools=pools), folder=folder)


def serve_pages(
    application: Any, options: argparse.Namespace, visitor: str, links: Mapping[str, str] | None = None
) -> None:
    """Serve pages until interrupted.

    Args:
        application: The ASGI application.
        options: The command's, with those of ``SERVER``.
        visitor: What anyone with the address can do.
        links: Name to the path of a page of its own, which is printed, too.
    """

    def announce(address: str) -> None:
        own, _, token = address.partition("?")
        print(f"Open {address}", *(f"{name}: {own}{path}?{token}" for name, path in (links or {}).items()), sep="\n")
        print("Ctrl-C ends it.", flush=True)

    from ..benchmarks.tables.pages.serving import kept_token, serve

    named = {"command": options.command, "host": options.host, "port": options.port}
    # Links survive a restart.
    token = kept_token(cache_folder() / f"{options.command}.token")
    serve(application, **named, holds=visitor, token=token, announce=announce)
