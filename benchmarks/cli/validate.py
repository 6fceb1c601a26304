"""``bench validate``: task files, checked as far as they can be without scoring."""

from __future__ import annotations

import argparse

from ...errors import UsageError
from .options import add_task_options, names

_EPILOG = """\
Checks YAML syntax, keys, metrics, statistics, templates, readers and, where the data is on this machine,
every document and the task's data checks. Without names all tasks are checked. Exit code 1 if one is faulty;
data that is not here is reported, and is no fault."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="tasks, groups or tags; default: all")
    add_task_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print a verdict a task."""
    from ...tasks.index import build_index
    from ...tasks.locate import DataLocations, parse_data_options
    from ...tasks.yaml_files import display_path
    from ..failures import describe
    from ..inspection import inspect_task

    index = build_index(options.include_path)
    entries = index.resolve(names(options.tasks)) if options.tasks else index.tasks
    locations = DataLocations.from_environment(index.expand_names(parse_data_options(options.data)))
    faulty = 0
    for path, fault in index.faults.items():
        faulty += 1
        print(f"faulty   {display_path(path)}\n         {fault}")
    for entry in entries:
        found = inspect_task(entry, locations)
        faulty += found.verdict == "faulty"
        print(f"{found.verdict:<8} {found.task}")
        print("\n".join(f"         {line}" for line in found.detail.splitlines()))
        for check in found.checks:
            if not check["passed"]:
                print(f"         {check['check']}: expected {check['expected']}, found {check['found']}")
        for failure in found.failures:
            print(f"         {describe(failure)}")
    for group in index.groups if not options.tasks else ():
        try:
            index.resolve([group.name])
        except UsageError as error:
            faulty += 1
            print(f"faulty   {group.name}\n         {display_path(group.path)}: {error.message}")
    return 1 if faulty else 0
