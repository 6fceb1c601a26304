"""``bench make``: data are made of images or texts by a maker, stage by stage, and judged by metrics."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UsageError
from ...hub import asking_nobody
from .engine_options import add_engine_options, where_work_is_done
from .options import add_include_option, add_permission_options, add_store_option, positive
from .recipe_options import add_recipe_options, recipe_of, require_folder

if TYPE_CHECKING:
    from ...recipes.making.facts import StageFacts

_EPILOG = """\
RECIPE is a YAML file, or the name of a maker that ships ('bench make --list'); docs/making.md explains its keys.
DATA is a folder of images, a table of rows (jsonl, json, csv, parquet) with 'image' or texts, a folder as DCI is
distributed, or the name of a task.
OUTPUT gets the data (rows.jsonl, or DCI's own folder), report.md and report.json. What stages made is in the store: the
same call goes on where an earlier one was cut off, and after a change makes only what is new.

examples:
  bench make --list
  bench make sdci_texts --data DCI --output sdci --set models.judge.arguments.pretrained=NAME --dry_run
  bench make pacspp_positives --data images --output positives --limit 100"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    add_recipe_options(
        parser, kind="maker", such_as="seed=1, models.judge.name=NAME or stages.STAGE.KEY=VALUE"
    )
    parser.add_argument("--data", metavar="DATA", help="what is begun with: a folder, a table, or a task")
    parser.add_argument("--output", metavar="DIR", type=Path, help="where the result goes")
    parser.add_argument("--limit", metavar="N", type=positive, help="the first N rows alone")
    add_include_option(parser)
    add_permission_options(parser)
    add_store_option(parser)
    add_engine_options(parser)


def run(options: argparse.Namespace) -> int:
    """Make the data, and print the report."""
    from ...access import request_lines
    from ...permissions import without_code
    from ...progress import bars
    from ...recipes.making.making import MakingCall, dry_run, make
    from ...recipes.making.schema import list_makers, load_maker

    if options.list:
        for name, path in list_makers().items():
            print(f"{name:28} {load_maker(str(path)).maker.description}")
        return 0
    recipe = recipe_of(options)
    if options.data is None:
        raise UsageError(
            "bench make: --data says what is begun with.", "A folder of images, a table, or a task."
        )
    folder: Path | None = options.output
    require_folder(options, folder, "--output DIR says where the result goes")
    store, choice = where_work_is_done(options, has_models=True)
    call = MakingCall(
        load_maker(recipe, options.set),
        options.data,
        options.limit,
        options.include_path,
        options.allow_outside,
        store,
        choice.engine if choice else None,
        choice.folder if choice else None,
        bars(),
    )
    if folder is None or options.dry_run:
        for label, value in request_lines(call.loaded.requests):
            print(f"{label:28} {value}")
        with without_code(), asking_nobody():
            for label, value in dry_run(call):
                print(f"{label:28} {value}")
        return 0
    make(call, folder, tell_stage)
    print((folder / "report.md").read_text(encoding="utf-8"))
    return 0


def tell_stage(facts: StageFacts) -> None:
    """Print how far a maker is."""
    print(
        f"stage {facts.name}: {facts.made:,} of {facts.given:,} rows made, {facts.found:,} of them before",
        file=sys.stderr,
        flush=True,
    )
