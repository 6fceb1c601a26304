"""What ``bench train``, ``bench make`` and ``bench loop`` ask for alike: a recipe, changes to it, and a dry run."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import UsageError


def add_recipe_options(parser: argparse.ArgumentParser, *, kind: str, such_as: str) -> None:
    """Declare RECIPE, ``--list``, ``--dry_run`` and ``--set``.

    Args:
        parser: Of the subcommand.
        kind: What a recipe is there: ``recipe``, ``maker``, ``loop``.
        such_as: Changes that users may want.
    """
    parser.add_argument(
        "recipe", metavar="RECIPE", nargs="?", help=f"a YAML file, or the name of a {kind} that ships"
    )
    parser.add_argument("--list", action="store_true", help=f"list the {kind}s that ship")
    parser.add_argument("--dry_run", action="store_true", help="check everything, and say what would be done")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help=f"change a key of the {kind}, such as {such_as} (may be repeated)",
    )


def recipe_of(options: argparse.Namespace) -> str:
    """Return the recipe that was named.

    Raises:
        UsageError: None was.
    """
    if options.recipe is None:
        command = f"bench {options.command}"
        raise UsageError(f"{command}: names no recipe.", f"'{command} --list' lists those that ship.")
    return options.recipe


def require_folder(options: argparse.Namespace, folder: Path | None, missing: str) -> None:
    """Raise if nobody said where the result goes, though there will be one.

    Args:
        options: What was said.
        folder: Where it goes.
        missing: What the option for it is and says.

    Raises:
        UsageError: There is no folder, and the run is not dry.
    """
    if folder is None and not options.dry_run:
        raise UsageError(f"bench {options.command}: {missing}.", "--dry_run needs none.")
