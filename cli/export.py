"""``bench export``: finished runs for papers and other programs, inputs to be scored there, what recipes wrote.

formats:
  csv, parquet   one flat table, a row a result: task, version, model, metric, statistic, category, value, low,
                 high, stderr, published, n, fingerprint, date; values are plain numbers
  latex          a booktabs table with values as papers print them
  lm-eval        a folder as lm-eval writes it: MODEL/results_DATE.json, MODEL/samples_TASK_DATE.jsonl;
                 with --tasks, folders of tasks that lm-eval runs (--include_path DIR there)
  pairs          with --tasks: rows of the images and texts that an encoder of pairs scores there, which 'bench run
                 --model pair_scores:FILE' takes once each has a 'score' (docs/recorded.md)
  prompts        with --tasks: rows of what a judge is asked there, which '--judge responses:FILE' takes once each has
                 a 'response' (docs/captioners.md)
  hub            FOLDER of 'bench train' --to OWNER/NAME: card, weights and results as a model on the hub;
                 --dry_run lists the files, and sends none (docs/recipes.md)
  data           FOLDER of 'bench make' --format webdataset or parquet --output DIR: its rows with their images
                 in shards (docs/data_synthesis.md)

RUN is the folder of a finished run, or a folder below which runs lie.

examples:
  bench export csv runs -o results.csv
  bench export lm-eval --tasks iiw_400 -o lm_eval_tasks
  bench export prompts --tasks flickr8k_expert --metrics clair -o prompts.jsonl
  bench export runs --push_to_hub me/caption-results --samples
  bench export hub trained --to me/captioner --dry_run
  bench export data made --format webdataset --output shards

More: docs/interchange.md
"""

import argparse
import shlex
from pathlib import Path

from ..errors import UsageError, did_you_mean
from .options import PERMISSIONS, TASK, add_options, locations_of, names, refuse, task_settings, tell, tell_rows

WANTED = ("pairs", "prompts")
"""Formats of what is to be scored, or answered, elsewhere."""
FORMATS = ("csv", "latex", "parquet", "lm-eval", *WANTED)
OF_FOLDERS = ("hub", "data")
"""Formats of folders that recipes wrote."""
_ALL = ", ".join((*FORMATS, *OF_FOLDERS))
_OF_TASKS = {
    **dict.fromkeys(("tasks", "metrics", "include_path", "data", "allow_outside"), ("lm-eval", *WANTED)),
    **dict.fromkeys(("model", "model_args", "images"), WANTED),
    **{"answers": ("prompts",), "text_only": ("lm-eval",)},
}
"""Option to the formats of tasks that it goes with."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "bench export [FORMAT] RUN|FOLDER [...] [-o PATH] [--to OWNER/NAME] [...]"
    parser.add_argument("inputs", nargs="*", metavar="[FORMAT] RUN", help=f"{_ALL}; and runs")
    parser.add_argument("-o", "--output", type=Path, metavar="PATH", help="file to write; for lm-eval a folder")
    parser.add_argument(
        "--tasks", nargs="+", metavar="NAME", help="with lm-eval, pairs and prompts: export these tasks instead of runs"
    )
    add_options(parser, "--metrics", help="with --tasks: metrics in place of those of the tasks")
    parser.add_argument("--text_only", action="store_true", help="with lm-eval --tasks: show lm-eval's model no images")
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="with pairs and prompts: what writes the captions of tasks that score a captioner (captions:FILE)",
    )
    add_options(parser, "--model_args")
    parser.add_argument(
        "--answers",
        type=Path,
        metavar="FILE",
        help="with prompts: existing answers, where other questions depend on them (dcscore)",
    )
    parser.add_argument(
        "--images",
        type=Path,
        metavar="DIR",
        help="with pairs and prompts: folder for images that are not files (drawn, or in rows of the data); rows name "
        "them as 'image_file'",
    )
    add_options(parser, *TASK, *PERMISSIONS)
    parser.add_argument(
        "--push_to_hub",
        metavar="OWNER/NAME",
        help="put the flat table on the Hugging Face hub as a data set, with a card",
    )
    parser.add_argument("--to", metavar="OWNER/NAME", help="with hub: the model's repository there")
    parser.add_argument("--dry_run", action="store_true", help="with hub: list what would be sent")
    parser.add_argument("--format", choices=("webdataset", "parquet"), help="with data: the format of the shards")
    parser.add_argument(
        "--private",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether a repository that is made there is private (it is)",
    )
    parser.add_argument(
        "--samples",
        action="store_true",
        help="with --push_to_hub: captions and their values, too, where the data may be passed on",
    )


def run(options: argparse.Namespace) -> int:
    """Write the export; exit code 1 if a run could not be read (the others are written)."""
    if options.inputs and options.inputs[0] in OF_FOLDERS:
        return _export_folder(options)
    fmt, places = _split(options)
    if options.tasks:
        return _export_lm_eval(options) if fmt == "lm-eval" else _export_wanted(options, options.inputs[0])
    from ..benchmarks.records.reading import find_records, read_task_runs

    files, missing = find_records([Path(place).expanduser() for place in places])
    if missing:
        raise missing[0]
    runs, bad = read_task_runs(files)
    tell(*(f"left out: {error.in_one_line}" for error in bad))
    if not runs:
        tell("bench: error: none of the runs can be read")
        return 1
    if fmt == "lm-eval":
        from ..benchmarks.interchange.lm_eval_results import write_results

        written, without = write_results(runs, options.output)
        tell_rows("without samples", without)
        print(f"{len(runs):,} runs: {len(written):,} files below {options.output}")
    elif fmt is not None:
        from ..benchmarks.tables.results import write_table

        write_table(runs, fmt, options.output)
        print(f"{len(runs):,} runs: {options.output}")
    if options.push_to_hub:
        from ..benchmarks.interchange.hub_results import push

        address, without = push(runs, options.push_to_hub, options.private, options.samples)
        tell_rows("without samples", without)
        print(f"{len(runs):,} runs: {address}")
    return 1 if bad else 0


def _split(options: argparse.Namespace) -> tuple[str | None, list[str]]:
    """Return the format, None for the hub alone, and the runs; refuse options that do not go together."""
    fmt = options.inputs[0] if options.inputs and options.inputs[0] in FORMATS else None
    places = options.inputs[1:] if fmt else options.inputs
    if fmt is None and (options.output or not options.push_to_hub):
        first = options.inputs[0] if options.inputs else ""
        raise UsageError(
            f"bench export: the first argument is a format, not '{first}'.{did_you_mean(first, FORMATS)}",
            f"Formats: {_ALL}. Without one, --push_to_hub OWNER/NAME is needed.",
        )
    of_tasks = (
        (
            getattr(options, option) and not (options.tasks and fmt in formats),
            f"--{option} goes with {', '.join(formats)}",
            "bench export FORMAT --tasks NAME ... -o PATH",
        )
        for option, formats in _OF_TASKS.items()
    )
    refuse(
        (options.to or options.dry_run or options.format, "--to and --dry_run go with 'hub', --format with 'data'"),
        (fmt and not options.output, f"bench export {fmt}: -o PATH is missing"),
        *of_tasks,
        (fmt in WANTED and not options.tasks, f"{fmt}: no task was named", f"bench export {fmt} --tasks NAME -o FILE"),
        (not options.tasks and not places, "bench export: no run was named", "RUN is a folder of runs, such as runs."),
        (options.tasks and (places or options.push_to_hub), "--tasks goes with no RUN and no --push_to_hub"),
        (options.samples and not options.push_to_hub, "--samples goes with --push_to_hub; lm-eval always has samples"),
    )
    return fmt, places


def _export_lm_eval(options: argparse.Namespace) -> int:
    """Write tasks as folders that a stock lm-eval runs, and print the files and the commands that run them."""
    from ..benchmarks.inputs.settings import split_metrics
    from ..benchmarks.interchange.lm_eval_bridge import plan_export, write_tasks
    from ..tasks.index import build_index

    index = build_index(options.include_path)
    exported = plan_export(
        names(options.tasks),
        index,
        metrics=split_metrics(options.metrics or ()),
        locations=locations_of(options, index),
        text_only=options.text_only,
        tell=tell,
    )
    for path in write_tasks(exported, options.output):
        print(path)
    commands = {
        "--model dummy": [task.name for task in exported if not task.generates],
        "--model hf-multimodal --model_args pretrained=MODEL --apply_chat_template": [
            task.name for task in exported if task.images
        ],
        "--model hf --model_args pretrained=MODEL": [
            task.name for task in exported if task.generates and not task.images
        ],
    }
    print("\nRun them where both capbench and lm-eval are installed:")
    for model, tasks in commands.items():
        if tasks:
            folder = shlex.quote(str(options.output))
            print(f"  lm_eval run {model} --include_path {folder} --tasks {shlex.quote(','.join(tasks))}")
    return 0


def _export_wanted(options: argparse.Namespace, fmt: str) -> int:
    """Write the rows to be scored (``pairs``) or answered (``prompts``) elsewhere; print what is left out."""
    from ..benchmarks.inputs.failures import describe
    from ..benchmarks.inputs.settings import split_metrics
    from ..benchmarks.interchange.wanted import write_wanted
    from ..progress import bars

    call = task_settings(options, "images", "model", "model_args")
    call |= {"metrics": split_metrics(options.metrics or []), "progress": bars()}
    count, failures = write_wanted(fmt, options.output, names(options.tasks), answers=options.answers, **call)
    tell(*(f"left out: {describe(failure)}" for failure in failures))
    print(f"{count:,} {fmt}: {options.output}")
    return 0


def _export_folder(options: argparse.Namespace) -> int:
    """Push the folder of a training to the hub, or write that of a pipeline as shards."""
    kind, *folders = options.inputs
    needed, usage = {
        "hub": (options.to, "bench export hub FOLDER --to OWNER/NAME"),
        "data": (options.format and options.output, "bench export data FOLDER --format FORMAT --output DIR"),
    }[kind]
    if len(folders) != 1 or not needed:
        raise UsageError(f"bench export {kind}: names one folder, and where it goes.", usage)
    refuse(
        (kind == "data" and (options.to or options.dry_run), "--to and --dry_run go with 'hub'", usage),
        (kind == "hub" and (options.format or options.output), "--format and --output go with 'data'", usage),
        (options.tasks or options.push_to_hub or options.samples, "--tasks, --push_to_hub and --samples go with runs"),
    )
    return (_push if kind == "hub" else _write)(Path(folders[0]).expanduser(), options)


def _push(folder: Path, options: argparse.Namespace) -> int:
    from ..hub import upload
    from ..recipes.training.publishing import files_for_hub

    files = files_for_hub(folder)
    for name, content in sorted(files.items()):
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        print(f"{size:>15,}  {name}")
    if not options.dry_run:
        message = f"{folder.absolute().name}, trained by capbench"
        print(upload(options.to, "model", files, options.private, message))
    return 0


def _write(folder: Path, options: argparse.Namespace) -> int:
    from ..recipes.data_synthesis.exporting import export_rows

    total = export_rows(folder, options.format, options.output)
    print(f"{total:,} rows: {options.output}")
    return 0
