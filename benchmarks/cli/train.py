"""``bench train``: a model is trained by a recipe, and judged by tasks before and after."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...hub import asking_nobody
from .options import add_permission_options, add_store_option, add_task_options
from .recipe_options import add_recipe_options, recipe_of, require_folder

if TYPE_CHECKING:
    from ...recipes.training.loop import Taken

_EPILOG = """\
RECIPE is a YAML file, or the name of one that ships ('bench train --list'); docs/recipes.md explains its keys.
FOLDER gets checkpoints, metrics.jsonl, a figure, a model card and the result, which 'bench run --model FOLDER' takes.
The same call goes on where an earlier one was cut off. Several GPUs: accelerate launch -m capbench.benchmarks.cli.main
train RECIPE --output FOLDER

examples:
  bench train shapes_sdci_pick1 --dry_run
  bench train shapes_sdci_pick1 --output trained --set seed=1"""
_SECONDS = 5.0
"""Between two lines of progress."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    add_recipe_options(parser, kind="recipe", such_as="seed=1 or objective.batch=64")
    parser.add_argument("--output", metavar="FOLDER", type=Path, help="where the result goes")
    parser.add_argument(
        "--device", metavar="NAME", help="such as cpu or cuda:1; a GPU by default, if there is one"
    )
    parser.add_argument("--no_judge", action="store_true", help="train alone: no task judges the model")
    add_task_options(parser)
    add_permission_options(parser)
    add_store_option(parser)


def run(options: argparse.Namespace) -> int:
    """Train, and print what tasks say of the model before and after."""
    from ...access import request_lines
    from ...permissions import without_code
    from ...progress import bars
    from ...recipes.training.carrying_out import carry_out, dry_run
    from ...recipes.training.contract import TrainingCall
    from ...recipes.training.processes import Processes
    from ...recipes.training.schema import list_recipes, load_recipe
    from ...tasks.locate import parse_data_options

    if options.list:
        for name, path in list_recipes().items():
            print(f"{name:28} {load_recipe(str(path)).recipe.description}")
        return 0
    recipe = recipe_of(options)
    folder: Path | None = options.output
    require_folder(options, folder, "--output FOLDER says where the result goes")
    call = TrainingCall(
        load_recipe(recipe, options.set),
        Processes(options.device),
        parse_data_options(options.data),
        options.include_path,
        options.allow_outside,
        bars(),
    )
    if folder is None or options.dry_run:
        for label, value in request_lines(call.loaded.requests):
            print(f"{label:20} {value}")
        with without_code(), asking_nobody():
            for label, value in dry_run(call, judge=not options.no_judge):
                print(f"{label:20} {value}")
        return 0
    shared: dict[str, Any] = {"store": options.store, "allow_outside": options.allow_outside}
    trained = carry_out(call, folder, step_lines(), shared, judge=not options.no_judge)
    for remark in trained.remarks:
        print(f"remark: {remark}", file=sys.stderr)
    if call.processes.is_first:
        print((trained.folder / "README.md").read_text(encoding="utf-8"))
    return 0


def step_lines() -> Callable[[Taken], None]:
    """Return what prints how far the training is, every few seconds and at its end."""
    last = time.monotonic()

    def tell(taken: Taken) -> None:
        nonlocal last
        if time.monotonic() - last < _SECONDS and taken.step < taken.steps:
            return
        last = time.monotonic()
        left = "" if taken.seconds_left is None else f", {taken.seconds_left / 60:.1f} min left"
        print(
            f"step {taken.step:,} of {taken.steps:,}: loss {taken.loss:.4f}, rate {taken.rate:.2e}{left}",
            file=sys.stderr,
            flush=True,
        )

    return tell
