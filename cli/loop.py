"""``bench loop``: self-training: a captioner makes data, the next one is trained on them; tasks evaluate each.

RECIPE is a YAML file, or the name of a loop that ships ('bench loop --list'); docs/data_synthesis.md explains its keys.
DIR gets a folder a turn, which 'bench run --model DIR/turn-1' takes, report.md, report.json and the curve loop.svg.
The same call resumes an interrupted one; a finished turn is not run again.

examples:
  bench loop shapes_loop --dry_run
  bench loop shapes_loop --output looped --set seed=1
  bench loop detailcaps_loop --output looped --set make.data=IMAGES --processes 4
"""

import argparse
from pathlib import Path

from .options import ENGINE, PERMISSIONS, TASK, add_options, task_settings, tell
from .recipe_options import (
    add_recipe_options,
    executor_of,
    print_dry_run,
    print_recipes,
    print_stage,
    recipe_of,
    step_printer,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_recipe_options(parser, kind="loop", such_as="turns=2 or make.limit=100")
    parser.add_argument("--output", metavar="DIR", type=Path, help="where the turns go")
    parser.add_argument(
        "--device", metavar="NAME", help="what trains: cpu or cuda:1; a GPU by default, if there is one"
    )
    add_options(parser, *TASK, *PERMISSIONS, "--store", *ENGINE)


def run(options: argparse.Namespace) -> int:
    """Run the turns, and print the report."""
    from ..progress import bars
    from ..recipes.self_training.rounds import LoopCall, LoopReporter, dry_run, run_loop
    from ..recipes.self_training.schema import list_loops, load_loop
    from ..recipes.training.processes import TrainingProcesses

    if options.list:
        return print_recipes(list_loops(), lambda path: load_loop(path).loop.description)
    recipe, folder = recipe_of(options, "--output DIR is missing")
    executor, run_folder = executor_of(options)
    call = LoopCall(
        load_loop(recipe, options.set),
        TrainingProcesses(options.device),
        executor=executor,
        run_folder=run_folder,
        progress=bars(),
        **task_settings(options, "store"),
    )
    if folder is None or options.dry_run:
        return print_dry_run(call.loaded.requests, lambda: dry_run(call), 34)
    is_first = call.processes.is_first
    run_loop(call, folder, LoopReporter(tell, print_stage, step_printer()) if is_first else LoopReporter())
    if is_first:
        print((folder / "report.md").read_text(encoding="utf-8"))
    return 0
