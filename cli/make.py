"""``bench make``: data are made of images or texts by a pipeline, stage by stage, and judged by metrics.

RECIPE is a YAML file, or the name of a pipeline that ships ('bench make --list'); its keys: docs/data_synthesis.md.
DATA is a folder of images, a table of rows (jsonl, json, csv, parquet) with 'image' or texts, a folder as DCI is
distributed, or the name of a task.
OUTPUT gets the data (rows.jsonl, or a folder laid out as DCI's), their images, provenance.json (what made them),
report.md and report.json. Results of stages are cached in the store: the same call resumes an interrupted one, and
after a change computes only what is new.

examples:
  bench make --list
  bench make sdci_texts --data DCI --output sdci --set models.judge.arguments.pretrained=NAME --dry_run
  bench make pacspp_positives --data images --output positives --limit 100
"""

import argparse
from pathlib import Path

from ..errors import UsageError
from .options import ENGINE, PERMISSIONS, add_options, positive
from .recipe_options import add_recipe_options, executor_of, print_dry_run, print_recipes, print_stage, recipe_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_recipe_options(parser, kind="pipeline", such_as="seed=1, models.judge.name=NAME or stages.STAGE.KEY=VALUE")
    parser.add_argument("--data", metavar="DATA", help="the input: a folder, a table, or a task")
    parser.add_argument("--output", metavar="DIR", type=Path, help="where the result goes")
    parser.add_argument("--limit", metavar="N", type=positive, help="the first N rows alone")
    add_options(parser, "--include_path", *PERMISSIONS, "--store", *ENGINE)


def run(options: argparse.Namespace) -> int:
    """Make the data, and print the report."""
    from ..progress import bars
    from ..recipes.data_synthesis.schema import list_pipelines, load_pipeline
    from ..recipes.data_synthesis.synthesis import SynthesisCall, dry_run, make

    if options.list:
        return print_recipes(list_pipelines(), lambda path: load_pipeline(path).pipeline.description)
    recipe, folder = recipe_of(options, "--output DIR is missing")
    if options.data is None:
        raise UsageError("bench make: --data is missing.", "A folder of images, a table, or a task.")
    executor, run_folder = executor_of(options)
    call = SynthesisCall(
        load_pipeline(recipe, options.set),
        options.data,
        options.limit,
        include_path=options.include_path,
        allow_outside=options.allow_outside,
        store=options.store,
        executor=executor,
        run_folder=run_folder,
        progress=bars(),
    )
    if folder is None or options.dry_run:
        return print_dry_run(call.loaded.requests, lambda: dry_run(call), 28)
    make(call, folder, print_stage)
    print((folder / "report.md").read_text(encoding="utf-8"))
    return 0
