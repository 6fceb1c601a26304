"""``bench train``: a recipe trains a model, and tasks evaluate it before and after.

RECIPE is a YAML file, or the name of one that ships ('bench train --list'); docs/recipes.md explains its keys.
FOLDER gets checkpoints, metrics.jsonl, a figure, a model card and the result, which 'bench run --model FOLDER' takes.
The same call resumes an interrupted one. Several GPUs:
accelerate launch -m capbench.cli.main train RECIPE --output FOLDER

examples:
  bench train shapes_sdci_pick1 --dry_run
  bench train shapes_sdci_pick1 --output trained --set seed=1
"""

import argparse
from pathlib import Path
from typing import Any

from .options import PERMISSIONS, TASK, add_options, task_settings, tell
from .recipe_options import add_recipe_options, print_dry_run, print_recipes, recipe_of, step_printer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_recipe_options(parser, kind="recipe", such_as="seed=1 or objective.batch=64")
    parser.add_argument("--output", metavar="FOLDER", type=Path, help="where the result goes")
    parser.add_argument("--device", metavar="NAME", help="such as cpu or cuda:1; a GPU by default, if there is one")
    parser.add_argument("--no_judge", action="store_true", help="train alone: no task judges the model")
    parser.add_argument(
        "--log_to", choices=("wandb", "trackio", "tensorboard"), help="also log the history of the training there"
    )
    add_options(parser, *TASK, *PERMISSIONS, "--store")


def run(options: argparse.Namespace) -> int:
    """Train, and print the model card with the results before and after."""
    from ..progress import bars
    from ..recipes.training.contract import TrainingCall
    from ..recipes.training.execution import dry_run, run_recipe
    from ..recipes.training.processes import TrainingProcesses
    from ..recipes.training.schema import list_recipes, load_recipe

    if options.list:
        return print_recipes(list_recipes(), lambda path: load_recipe(path).recipe.description)
    recipe, folder = recipe_of(options, "--output FOLDER is missing")
    loaded, processes = load_recipe(recipe, options.set), TrainingProcesses(options.device)
    call = TrainingCall(loaded, processes, progress=bars(), log_to=options.log_to, **task_settings(options))
    if folder is None or options.dry_run:
        return print_dry_run(call.loaded.requests, lambda: dry_run(call, judge=not options.no_judge), 20)
    shared: dict[str, Any] = {"store": options.store, "allow_outside": options.allow_outside}
    trained = run_recipe(call, folder, step_printer(), shared, judge=not options.no_judge)
    tell(*(f"remark: {remark}" for remark in trained.remarks))
    if call.processes.is_first:
        print((folder / "README.md").read_text(encoding="utf-8"))
    return 0
