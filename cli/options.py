"""Options that several subcommands share, and how their values are read."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

from ..drafts import write_whole
from ..errors import UsageError
from ..permissions import SERVERS_VARIABLE, Permissions

REDISTRIBUTION = {
    "full": "may be passed on with their samples (redistribution: full)",
    "scores": "may be passed on without captions and ratings: --log_samples scores (redistribution: scores)",
}
"""What may be done with runs over a data set, by its card's ``redistribution``."""


def add_task_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--include_path`` and ``--data``."""
    add_include_option(parser)
    parser.add_argument(
        "--data",
        metavar="TASK=PATH",
        action="append",
        default=[],
        help="local data of a task (may be repeated); $CAPBENCH_DATA names a folder with one folder a data set",
    )


def add_include_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--include_path``."""
    parser.add_argument(
        "--include_path",
        metavar="DIR",
        action="append",
        default=[],
        help="folder with task files of your own (may be repeated)",
    )


def add_boundary_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--allow_outside``."""
    parser.add_argument(
        "--allow_outside",
        metavar="DIR",
        action="append",
        default=[],
        help="folder whose files tasks and rows may name besides those beside them and their data "
        "(may be repeated); see docs/tasks.md",
    )


def add_permission_options(parser: argparse.ArgumentParser, *, models: bool = True) -> None:
    """Add the options that let files decide what costs: ``--allow_outside``, ``--run_functions`` and those of models.

    Args:
        parser: Of a command that works; what only reads takes ``--allow_outside`` alone.
        models: Whether the command may load models that files name.
    """
    add_boundary_option(parser)
    parser.add_argument(
        "--run_functions",
        action="store_true",
        help="run the functions and readers that files name (!function); do so for files that you have read",
    )
    if not models:
        return
    add_allowed_servers(parser)
    parser.add_argument(
        "--trust_remote_code",
        action="store_true",
        help="run code that comes with models, as --model_args trust_remote_code=true does for one",
    )


def add_allowed_servers(parser: argparse.ArgumentParser) -> None:
    """Add ``--allow_server``."""
    parser.add_argument(
        "--allow_server",
        metavar="HOST[:PORT]",
        action="append",
        default=[],
        help=f"server that files may name (may be repeated; ${SERVERS_VARIABLE} holds more, separated by commas)",
    )


def permissions_of(options: argparse.Namespace) -> Permissions:
    """Return what a command line allows: its options, and the folders that it names for task files.

    Raises:
        UsageError: A folder does not exist, or a server is none.
    """
    named = ("allow_outside", "allow_server", "run_functions", "trust_remote_code", "include_path")
    return Permissions.of(**{name: getattr(options, name) for name in named if hasattr(options, name)})


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--store``."""
    parser.add_argument(
        "--store",
        metavar="FILE|URL",
        help="file that keeps what is costly to compute (default: in $BENCH_CACHE); a URL such as s3://BUCKET/PREFIX, "
        "or a folder with / at its end, names results that machines share (docs/store.md)",
    )


def add_judge_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--judge`` and ``--judge_args``."""
    parser.add_argument(
        "--judge",
        metavar="NAME",
        help="what judges captions, for metrics that ask a model: alias, adapter, or responses:FILE for "
        "responses recorded elsewhere",
    )
    parser.add_argument("--judge_args", metavar="K=V,...", default="", help="arguments of its adapter")


def add_seed_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--seed``."""
    parser.add_argument("--seed", type=not_negative, default=1234, metavar="N", help="seed of the bootstrap (1234)")


def add_intervals_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--intervals``."""
    parser.add_argument(
        "--intervals",
        choices=("auto", "bootstrap", "influence"),
        default="auto",
        help="bootstrap: by resamples; influence: by influence functions, where they are known; auto: by these from "
        "a million rows on (docs/compare.md)",
    )


def add_format_option(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Add ``--format`` of the tables that a command prints."""
    parser.add_argument("--format", choices=("github", "latex", "csv", "json"), default="github", help=help_text)


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--port`` and ``--host``."""
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="port to listen at (one that is free)")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="address to listen at (127.0.0.1, which this machine alone reaches)",
    )  # fmt: skip


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port, 0 to 65535, found '{text}'")
    return int(text)


def names(values: list[str] | None) -> list[str]:
    """Return the names in options that take several, by comma or space."""
    return [name.strip() for value in values or [] for name in value.split(",") if name.strip()]


def positive(text: str) -> int:
    """Read a whole number above 0."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, found '{text}'")
    return int(text)


def not_negative(text: str) -> int:
    """Read a whole number, 0 or above."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a whole number, 0 or above, found '{text}'")
    return int(text)


def write_text(path: Path, text: str) -> None:
    """Write a file that the user named.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        write_whole(path, text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def describe_model_folder(name: str | None, given: Collection[str] = ()) -> str:
    """Return what the ``model.yaml`` of a folder asks for, in lines; empty for what is no such folder.

    Args:
        name: What ``--model`` names.
        given: Arguments that the user gives in place of the file's.
    """
    from ..access import request_lines
    from ..adapters.aliases import ALIAS_FILE, requests_of_model
    from ..paths import is_file

    folder = Path(name).expanduser() if name else None
    if folder is None or not is_file(folder / ALIAS_FILE):
        return ""
    lines = request_lines(requests_of_model(folder, given))
    return "\n".join([f"{folder / ALIAS_FILE}  (model)", *(f"{kind:<13}{text}" for kind, text in lines)])
