"""What ``bench train``, ``bench make`` and ``bench loop`` share: options, the list, the dry run, lines of progress."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..hub import asking_nobody
from .options import execution_of, tell

if TYPE_CHECKING:
    from ..access import Request
    from ..benchmarks.scale.executors import Executor
    from ..recipes.data_synthesis.contract import StageFacts
    from ..recipes.training.history import StepReport

_SECONDS = 5.0
"""Between two lines of a training's progress."""


def add_recipe_options(parser: argparse.ArgumentParser, *, kind: str, such_as: str) -> None:
    """Declare RECIPE, ``--list``, ``--dry_run`` and ``--set``.

    Args:
        parser: Of the subcommand.
        kind: What a recipe is there: ``recipe``, ``pipeline``, ``loop``.
        such_as: Changes that users may want.
    """
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help=f"a YAML file, or the name of a {kind} that ships")
    parser.add_argument("--list", action="store_true", help=f"list the {kind}s that ship")
    parser.add_argument("--dry_run", action="store_true", help="check everything, and print what would be done")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help=f"change a key of the {kind}, such as {such_as} (may be repeated)",
    )


def recipe_of(options: argparse.Namespace, missing: str) -> tuple[str, Path | None]:
    """Return the recipe that was named, and the folder where the result goes.

    Args:
        options: The command's.
        missing: The message if ``--output`` is not given.

    Raises:
        UsageError: There is no recipe, or no folder although the run is not dry.
    """
    command = f"bench {options.command}"
    if options.recipe is None:
        raise UsageError(f"{command}: names no recipe.", f"'{command} --list' lists those that ship.")
    if options.output is None and not options.dry_run:
        raise UsageError(f"{command}: {missing}.", "--dry_run needs none.")
    return options.recipe, options.output


def executor_of(options: argparse.Namespace) -> tuple[Executor | None, Path | None]:
    """Return the executor, and the folder of the run if it is no bucket."""
    from ..benchmarks.store.store import is_address

    execution = execution_of(options, has_models=True)
    folder = execution.folder
    return execution.executor, None if folder is None or is_address(str(folder)) else Path(folder)


def print_recipes(files: Mapping[str, Path], description: Callable[[str], str]) -> int:
    """Print the recipes that ship, for ``--list``, and return the exit code.

    Args:
        files: The YAML file of each.
        description: Returns the description in a recipe's file.
    """
    for name, path in files.items():
        print(f"{name:28} {description(str(path))}")
    return 0


def print_dry_run(requests: Sequence[Request], check: Callable[[], Iterable[tuple[str, object]]], width: int) -> int:
    """Print what a recipe asks for and would do, and return the exit code; nothing is fetched or executed.

    Args:
        requests: What it asks for that costs.
        check: Checks everything, and gives names and values.
        width: Letters of the column of names.
    """
    from ..access import request_lines
    from ..permissions import without_code

    for label, value in request_lines(requests):
        print(f"{label:{width}} {value}")
    with without_code(), asking_nobody():
        for label, value in check():
            print(f"{label:{width}} {value}")
    return 0


def print_stage(facts: StageFacts) -> None:
    """Print how far a pipeline is."""
    tell(f"stage {facts.name}: {facts.made:,} of {facts.given:,} rows made, {facts.reused:,} of them before")


def step_printer() -> Callable[[StepReport], None]:
    """Return what prints how far a training is, every few seconds and at its end."""
    last = time.monotonic()

    def report(taken: StepReport) -> None:
        nonlocal last
        if time.monotonic() - last < _SECONDS and taken.step < taken.steps:
            return
        last = time.monotonic()
        left = "" if taken.seconds_left is None else f", {taken.seconds_left / 60:.1f} min left"
        tell(f"step {taken.step:,} of {taken.steps:,}: loss {taken.loss:.4f}, rate {taken.rate:.2e}{left}")

    return report
