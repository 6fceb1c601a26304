"""``bench data``: where a task's data comes from, under which terms, and whether the copy here is right."""

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from .fetch import fetch, nothing_to_fetch
from .options import REDISTRIBUTION, TASK, add_options, locations_of

if TYPE_CHECKING:
    from ..tasks.sources import DataSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("task", help="a task ('bench ls tasks')")
    parser.add_argument(
        "--download",
        action="store_true",
        help="fetch what may be fetched without a login, as 'bench fetch TASK' does, but nothing for its metrics",
    )
    add_options(parser, *TASK, "--allow_outside", "--allow_server")


def run(options: argparse.Namespace) -> int:
    """Print the data card and what was found; exit code 1 if the copy here is wrong."""
    from ..access import require_permitted
    from ..benchmarks.inputs.failures import describe
    from ..benchmarks.running.inspection import inspect_task
    from ..tasks.index import build_index
    from ..tasks.schema import load_task
    from ..tasks.sources import load_source, requests_of_card

    index = build_index(options.include_path)
    (entry, *others) = index.resolve([options.task])
    if others:
        raise UsageError(f"'{options.task}' stands for {len(others) + 1} tasks; name one of them")
    task, _ = load_task(entry.path)
    source = load_source(task, entry.path)
    locations = locations_of(options, index)
    if source is None:
        print(
            f"{task.task}: data from {task.dataset_path or task.custom_dataset}; its file names no data_source\n"
            f"{'runs':<13}{REDISTRIBUTION['full']}"
        )
    else:
        _print_card(source, [] if source.generated else locations.candidates(source), task.task)
        if options.download and not source.generated:
            require_permitted(requests_of_card(task, entry.path))
            if not source.downloads:
                raise nothing_to_fetch(source)
            print()
            fetch([locations.resource(source)], yes=False)
    report = inspect_task(entry, locations)
    print(f"\nfound        {report.origin or 'nothing'}: {report.verdict}")
    print(textwrap.indent(report.detail, " " * 13))
    for check in report.checks:
        mark = "holds" if check.passed else "DOES NOT HOLD"
        print(f"             {check.check}: expected {check.expected:g}, found {check.found}: {mark}")
    for line in (*map(describe, report.failures), *(f"counted as empty: {describe(row)}" for row in report.empty)):
        print(f"             {line}")
    return 0 if report.verdict == "ok" else 1


def _print_card(source: "DataSource", folders: Sequence[Path], task: str) -> None:
    print(source.title)
    for name, text in (
        ("homepage", source.homepage),
        ("licence", source.licence),
        ("terms", source.terms),
        ("runs", REDISTRIBUTION[source.redistribution]),
        ("cite", source.citation),
        ("get it", source.how),
        *(("defect", defect) for defect in source.defects),
    ):
        if text:
            print(textwrap.fill(text, 105, initial_indent=f"{name:<13}", subsequent_indent=" " * 13))
    if source.generated:
        return
    print(f"{'searched':<13}" + f"\n{'':13}".join(map(str, folders)))
    print("files")
    for file in source.files:
        optional = "" if file.required else " (optional)"
        there = next((folder for folder in folders if (folder / file.path).exists()), None)
        print(f"  {file.path}{optional}: {'found' if there else 'not found in the folders searched'}")
        print(textwrap.fill(file.what, 105, initial_indent=" " * 6, subsequent_indent=" " * 6))
    if source.downloads:
        print(f"'bench fetch {task}' fetches into {folders[0]}")
    for download in source.downloads:
        print(f"  {download.about}\n      from {download.origin}")
        if download.note:
            print(f"      {download.note}")
