"""``bench ls``: what there is.

A list fits the terminal: the last column is cut, and some columns are left out. 'bench show NAME' describes a task,
metric or model in full; '--format json' prints every column in full.
"""

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path

from ..hub import asking_nobody
from .options import TASK, add_options, locations_of, print_table, tell

_LEFT_OUT = {"tasks": {"tags"}, "groups": {"about"}, "metrics": {"source"}, "models": {"adapter", "source", "code"}}
_OWN = "own"
_WIDTH = 100
"""Columns of a line where the output is no terminal."""
_LEAST = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", nargs="?", choices=sorted(_LISTS), default="tasks", help="default: tasks")
    parser.add_argument("--format", choices=("plain", "json"), default="plain")
    parser.add_argument(
        "--recorded", metavar="DIR", help="what you have for rows of suites, as 'bench run --suite' takes it"
    )
    add_options(parser, *TASK)


@asking_nobody()
def run(options: argparse.Namespace) -> int:
    """Print the list."""
    rows = _LISTS[options.what](options)
    if options.format == "json":
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif rows:
        left_out = _LEFT_OUT.get(options.what, set())
        print_table(_fitted([row for row in rows if row.get("code") != _OWN], left_out), "plain")
        if apart := [row for row in rows if row.get("code") == _OWN]:
            print("\nOnly code of their own repositories runs these; 'bench show NAME' says what to do.\n")
            print_table(_fitted(apart, left_out), "plain")
    else:
        print(f"there are no {options.what}")
    return 0


def _fitted(rows: list[dict[str, str]], left_out: set[str]) -> list[dict[str, str]]:
    """Return the columns of rows that fit a line, the last one cut to what room is left."""
    *first, last = (name for name in rows[0] if name not in left_out)
    # Two spaces stand behind a column, and behind its name.
    taken = sum(max(len(name) + 2, *(len(row[name]) for row in rows)) + 2 for name in first)
    room = max(shutil.get_terminal_size((_WIDTH, 24)).columns - taken, _LEAST)
    return [
        {
            **{name: row[name] for name in first},
            last: text if len(text := row[last]) <= room else f"{text[: room - 1]}…",
        }
        for row in rows
    ]


def _tasks(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..tasks.index import build_index
    from ..tasks.yaml_files import display_path

    index = build_index(options.include_path)
    if options.what == "groups":
        return [{"group": e.name, "tasks": ", ".join(e.members), "about": e.description} for e in index.groups]
    if options.what == "tags":
        return [{"tag": tag, "tasks": ", ".join(tasks)} for tag, tasks in index.tags.items()]
    tell(*(f"bench: {display_path(path)} could not be read: {fault}" for path, fault in index.faults.items()))
    return [
        {"task": e.name, "protocol": e.output_type, "tags": ", ".join(e.tags), "about": f"{e.alias}: {e.description}"}
        for e in index.tasks
    ]


def _metrics(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..metrics import metrics

    return [
        {
            "metric": name,
            "label": getattr(metric, "label", name),
            "needs": ", ".join(sorted(metric.needs)) or "the caption alone",
            "range": "{:g} to {:g}".format(*metric.range),
            "source": getattr(metric, "source", ""),
        }
        for name, metric in metrics.items()
    ]


def _statistics(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..benchmarks.statistics import statistics

    return [
        {
            "statistic": name,
            "label": getattr(statistic, "label", name),
            "better": "higher" if statistic.higher_is_better else "lower",
            "about": _first_line(statistic),
        }
        for name, statistic in statistics.items()
    ]


def _models(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..adapters.aliases import ModelSpec, list_aliases

    captions = ModelSpec("captions:FILE", "captions", description="Captions recorded elsewhere.")
    specs = (*list_aliases().values(), captions)
    return [
        {
            **{"model": s.name, "adapter": s.adapter, "size": s.size, "source": s.source},
            **{"code": _OWN if s.own_code else "", "about": s.description},
        }
        for s in specs
    ]


def _registered(options: argparse.Namespace) -> list[dict[str, str]]:
    """Return what is registered, by name, with what its docstring begins with."""
    from ..adapters import adapters
    from ..benchmarks.protocols import protocols
    from ..recipes.training.contract import trainers

    registry = {"adapters": adapters, "protocols": protocols, "trainers": trainers}[options.what]
    return [{registry.kind: name, "about": _first_line(entry)} for name, entry in registry.items()]


def _suites(options: argparse.Namespace) -> list[dict[str, str]]:
    """Return the suites, with how many of their cells can be measured here."""
    from ..benchmarks.suites.inputs import NOTHING, read_inputs
    from ..benchmarks.suites.plan import count_cells
    from ..benchmarks.suites.read import list_suites
    from ..tasks.index import build_index

    index = build_index(options.include_path)
    locations = locations_of(options, index)
    rows: list[dict[str, str]] = []
    for suite in list_suites():
        inputs = read_inputs(suite, Path(options.recorded)) if options.recorded else NOTHING
        here, total = count_cells(suite, index, locations, inputs)
        rows.append({"suite": suite.suite, "here": f"{here} of {total}", "about": suite.description})
    return rows


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().partition("\n")[0]


def _stages(options: argparse.Namespace) -> list[dict[str, str]]:
    from ..recipes.data_synthesis.contract import stages

    return [
        {"stage": name, "asks": ", ".join(stage.roles), "about": _first_line(stage)} for name, stage in stages.items()
    ]


_LISTS: dict[str, Callable[[argparse.Namespace], list[dict[str, str]]]] = {
    "adapters": _registered,
    "groups": _tasks,
    "metrics": _metrics,
    "models": _models,
    "protocols": _registered,
    "stages": _stages,
    "statistics": _statistics,
    "suites": _suites,
    "tags": _tasks,
    "tasks": _tasks,
    "trainers": _registered,
}
