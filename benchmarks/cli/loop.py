"""``bench loop``: data are made with a captioner, the next one is trained on them, and so on; tasks judge each."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ...hub import asking_nobody
from .engine_options import add_engine_options, where_work_is_done
from .make import tell_stage
from .options import add_permission_options, add_store_option, add_task_options
from .recipe_options import add_recipe_options, recipe_of, require_folder
from .train import step_lines

_EPILOG = """\
RECIPE is a YAML file, or the name of a loop that ships ('bench loop --list'); docs/making.md explains its keys.
DIR gets a folder a turn, which 'bench run --model DIR/turn-1' takes, report.md, report.json and the curve loop.svg.
The same call goes on where an earlier one was cut off; a turn that is finished is not carried out again.

examples:
  bench loop shapes_loop --dry_run
  bench loop shapes_loop --output looped --set seed=1
  bench loop detailcaps_loop --output looped --set make.data=IMAGES --processes 4"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    add_recipe_options(parser, kind="loop", such_as="turns=2 or make.limit=100")
    parser.add_argument("--output", metavar="DIR", type=Path, help="where the turns go")
    parser.add_argument(
        "--device", metavar="NAME", help="what trains: cpu or cuda:1; a GPU by default, if there is one"
    )
    add_task_options(parser)
    add_permission_options(parser)
    add_store_option(parser)
    add_engine_options(parser)


def run(options: argparse.Namespace) -> int:
    """Carry out the turns, and print what tasks say of each."""
    from ...access import request_lines
    from ...permissions import without_code
    from ...progress import bars
    from ...recipes.looping.call import LoopCall
    from ...recipes.looping.checking import dry_run
    from ...recipes.looping.schema import list_loops, load_loop
    from ...recipes.looping.turns import Told, carry_out
    from ...recipes.training.processes import Processes
    from ...tasks.locate import parse_data_options

    if options.list:
        for name, path in list_loops().items():
            print(f"{name:28} {load_loop(str(path)).loop.description}")
        return 0
    recipe = recipe_of(options)
    folder: Path | None = options.output
    require_folder(options, folder, "--output DIR says where the turns go")
    store, choice = where_work_is_done(options, has_models=True)
    call = LoopCall(
        load_loop(recipe, options.set),
        Processes(options.device),
        parse_data_options(options.data),
        options.include_path,
        options.allow_outside,
        store,
        choice.engine if choice else None,
        choice.folder if choice else None,
        bars(),
    )
    if folder is None or options.dry_run:
        for label, value in request_lines(call.loaded.requests):
            print(f"{label:34} {value}")
        with without_code(), asking_nobody():
            for label, value in dry_run(call):
                print(f"{label:34} {value}")
        return 0
    carry_out(call, folder, Told(_tell_turn, tell_stage, step_lines()))
    print((folder / "report.md").read_text(encoding="utf-8"))
    return 0


def _tell_turn(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
