"""``bench validate``: checks of task files, without scoring.

Checks YAML syntax, keys, metrics, statistics, templates, readers and, where the data is on this machine,
every document and the task's data checks. Without names all tasks are checked. Exit code 1 if one is faulty, or
none of its documents is usable; data that is not here is reported, and is no fault.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TaskError, UsageError
from .options import READING, TASK, add_options, locations_of, names

if TYPE_CHECKING:
    from ..tasks.index import IndexEntry, TaskIndex


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "tasks", nargs="*", metavar="TASK", help="tasks, groups or tags, or a task's FILE.yaml; default: all"
    )
    add_options(parser, *TASK, *READING)


def run(options: argparse.Namespace) -> int:
    """Print a verdict a task."""
    from ..access import request_lines
    from ..benchmarks.inputs.failures import describe
    from ..benchmarks.protocols.checks import faults_of_data
    from ..benchmarks.running.inspection import inspect_task
    from ..tasks.index import build_index
    from ..tasks.schema import load_task, requests_of_task
    from ..tasks.yaml_files import display_path

    index = build_index(options.include_path)
    entries: list[IndexEntry] = [] if options.tasks else index.tasks
    files: list[Path] = []
    faults = dict(index.faults)
    for name in names(options.tasks):
        if Path(name).suffix in (".yaml", ".yml"):
            try:
                declared = _declared(Path(name), index)
                files += [entry.path for entry in declared]
                entries += declared
            except TaskError as error:
                faults[Path(name)] = str(error)
        else:
            entries += index.resolve([name])
    index.entries.update((entry.name, entry) for entry in entries)
    locations = locations_of(options, index)
    faulty = 0
    for path, fault in faults.items():
        faulty += 1
        print(f"faulty   {display_path(path)}\n         {fault}")
    for entry in {entry.path: entry for entry in entries}.values():
        report = inspect_task(entry, locations)
        faulty += report.verdict == "faulty"
        print(f"{report.verdict:<8} {report.task}")
        lines = [*report.detail.splitlines(), *faults_of_data(report.checks), *map(describe, report.failures)]
        lines += [f"counted as empty: {describe(empty)}" for empty in report.empty]
        asked = []
        with suppress(TaskError):
            asked = requests_of_task(*load_task(entry.path))
        if asked or entry.path in files:
            lines += [f"{kind:<12} {text}" for kind, text in request_lines(asked)]
        print("\n".join(f"         {line}" for line in lines))
    for group in index.groups if not options.tasks else ():
        try:
            index.resolve([group.name])
        except UsageError as error:
            faulty += 1
            print(f"faulty   {group.name}\n         {display_path(group.path)}: {error.message}")
    return 1 if faulty else 0


def _declared(path: Path, index: TaskIndex) -> list[IndexEntry]:
    """Return the task that a file declares, or the tasks of its group.

    Raises:
        TaskError: The file cannot be read, or declares neither.
    """
    from ..tasks.index import read_entry

    entry = read_entry(path)
    if entry is None:
        raise TaskError(f"{path}: declares no task and no group: it has neither 'task' nor 'group'")
    return [entry] if entry.kind == "task" else index.resolve(entry.members)
