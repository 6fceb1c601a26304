"""``bench ls``: what there is."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from ..hub import asking_nobody
from .options import add_task_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", nargs="?", choices=sorted(_LISTS), default="tasks", help="default: tasks")
    parser.add_argument("--format", choices=("plain", "json"), default="plain")
    parser.add_argument(
        "--recorded", metavar="DIR", help="what you have for rows of suites, as 'bench run --suite' takes it"
    )
    add_task_options(parser)


@asking_nobody()
def run(options: argparse.Namespace) -> int:
    """Print the list."""
    rows = _LISTS[options.what](options)
    if options.format == "json":
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif rows:
        from tabulate import tabulate

        print(tabulate(rows, headers="keys", tablefmt="plain", disable_numparse=True))
    else:
        print(f"there are no {options.what}")
    return 0


def _tasks(options: argparse.Namespace) -> list[dict[str, str]]:
    import sys

    from ..tasks.index import build_index
    from ..tasks.yaml_files import display_path

    index = build_index(options.include_path)
    for path, fault in index.faults.items():
        print(f"bench: {display_path(path)} could not be read: {fault}", file=sys.stderr)
    return [
        {"task": e.name, "protocol": e.output_type, "tags": ", ".join(e.tags), "about": e.description}
        for e in index.tasks
    ]


def _groups(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..tasks.index import build_index

    groups = build_index(options.include_path).groups
    return [{"group": e.name, "tasks": ", ".join(e.members), "about": e.description} for e in groups]


def _tags(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..tasks.index import build_index

    tags = build_index(options.include_path).tags
    return [{"tag": tag, "tasks": ", ".join(tasks)} for tag, tasks in tags.items()]


def _metrics(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..metrics import metrics

    return [
        {
            "metric": name,
            "label": getattr(metrics[name], "label", name),
            "needs": ", ".join(sorted(metrics[name].needs)) or "the caption alone",
            "range": "{:g} to {:g}".format(*metrics[name].range),
            "source": getattr(metrics[name], "source", ""),
        }
        for name in metrics
    ]


def _statistics(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..benchmarks.statistics import statistics

    return [
        {
            "statistic": name,
            "label": getattr(statistics[name], "label", name),
            "better": "higher" if getattr(statistics[name], "higher_is_better", True) else "lower",
            "about": _first_line(statistics[name]),
        }
        for name in statistics
    ]


def _models(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..adapters.aliases import ModelSpec, list_aliases

    captions = ModelSpec("captions:FILE", "captions", description="Captions recorded elsewhere.")
    return [
        {"model": s.name, "adapter": s.adapter, "size": s.size, "source": s.source, "about": s.description}
        for s in (*list_aliases().values(), captions)
    ]


def _adapters(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..adapters import adapters

    return [{"adapter": name, "about": _first_line(adapters[name])} for name in adapters]


def _suites(options: argparse.Namespace) -> list[dict[str, str]]:
    """Return the suites, with how many of their cells can be measured here."""
    from ..benchmarks.suites.given import NOTHING, read_inputs
    from ..benchmarks.suites.plan import count_cells
    from ..benchmarks.suites.read import list_suites
    from ..tasks.index import build_index
    from ..tasks.locate import DataLocations, parse_data_options

    index = build_index(options.include_path)
    locations = DataLocations.from_environment(index.expand_names(parse_data_options(options.data)))
    rows: list[dict[str, str]] = []
    for suite in list_suites():
        given = read_inputs(suite, Path(options.recorded)) if options.recorded else NOTHING
        here, total = count_cells(suite, index, locations, given)
        rows.append({"suite": suite.suite, "here": f"{here} of {total}", "about": suite.description})
    return rows


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().partition("\n")[0]


def _protocols(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..benchmarks.protocols import protocols

    return [{"protocol": name, "about": (protocols[name].__doc__ or "").strip().splitlines()[0]} for name in protocols]


def _stages(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..recipes.making.contract import stages

    found = {name: stages[name] for name in stages}
    return [
        {"stage": name, "asks": ", ".join(kind.roles), "about": (kind.__doc__ or "").partition("\n")[0]}
        for name, kind in found.items()
    ]


_LISTS: dict[str, Callable[[argparse.Namespace], list[dict[str, str]]]] = {
    "adapters": _adapters,
    "groups": _groups,
    "metrics": _metrics,
    "models": _models,
    "protocols": _protocols,
    "stages": _stages,
    "statistics": _statistics,
    "suites": _suites,
    "tags": _tags,
    "tasks": _tasks,
}
