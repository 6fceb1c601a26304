"""What is registered under a name: metrics, statistics, models, tasks, commands."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from itertools import groupby
from math import isinf
from pathlib import Path
from unittest.mock import patch

from docstrings import in_a_cell, items, plain, prose, sections

from capbench.adapters import adapters
from capbench.adapters.aliases import list_aliases
from capbench.benchmarks.protocols import protocols
from capbench.benchmarks.statistics import statistics
from capbench.cli.main import COMMANDS, main
from capbench.metrics import metrics
from capbench.metrics.contract import CorpusMetric, Metric
from capbench.tasks.index import build_index
from capbench.tasks.schema import load_task
from capbench.tasks.sources import DataSource, load_source


def metric_pages() -> str:
    """Return every metric: what it computes, from what, by which source."""
    return "".join(_metric(name) for name in metrics)


def _metric(name: str) -> str:
    metric = metrics[name]
    low, high = metric.range
    ends = "no ends" if isinf(low) else f"{low:g} or more" if isinf(high) else f"{low:g} to {high:g}"
    facts = {
        "Needs": ", ".join(sorted(metric.needs)) or "the caption alone",
        "Ends": ends,
        "Better": ("more" if metric.higher_is_better else "less") if metric.has_direction else "neither",
        "Value of a system": "of the whole corpus" if metric.aggregation == "corpus" else "mean over captions",
        "Source": plain(metric.source),
    }
    # A variant says what is its own, and what it is a variant of says the rest.
    contracts = (Metric, CorpusMetric, *Metric.__mro__, *CorpusMetric.__mro__)
    kinds = [kind for kind in metric.__mro__ if kind not in contracts and "__doc__" in vars(kind)]
    lines = [f"## {metric.label} {{ #{name} }}", "", f"`{name}`", ""]
    lines += [f"{prose(kind)}\n" for kind in kinds if kind.__doc__]
    lines += [f"- *{key}*: {text}" for key, text in facts.items()]
    arguments = {key: text for kind in reversed(kinds) for key, text in _arguments(kind).items()}
    taken = inspect.signature(metric).parameters
    return "\n".join([*lines, *_list("Settings", {key: arguments[key] for key in taken if key in arguments})]) + "\n\n"


def _arguments(thing: object) -> dict[str, str]:
    return items(sections(thing).get("Args", ""))


def _list(heading: str, told: dict[str, str]) -> list[str]:
    """Return a list of names and what they mean, below a line; nothing of nothing."""
    if not told:
        return []
    return ["", f"{heading}:", "", *(f"- `{name}`: {plain(text)}" for name, text in told.items())]


def statistic_pages() -> str:
    """Return every statistic: what it computes, by which source."""
    text = ""
    for name in statistics:
        lines = [f"## {statistics[name].label} {{ #{name} }}", "", f"`{name}`", "", prose(statistics[name])]
        text += "\n".join([*lines, *_list("Settings", _arguments(statistics[name]))]) + "\n\n"
    return text


def protocol_pages() -> str:
    """Return every protocol: what it does, and which keys of a task it reads."""
    text = ""
    for name in protocols:
        one = protocols[name]
        keys = ", ".join(f"`{key}`" for key in one.reads)
        needed = " and ".join(f"`{key}`" for key in sorted(one.needs)) or "none alone"
        either = f"; one of {', '.join(f'`{key}`' for key in one.needs_one)}" if one.needs_one else ""
        text += f"## {name}\n\n{prose(one)}\n\n- *Reads*: {keys}\n- *Needs*: {needed}{either}\n\n"
    return text


def model_pages() -> str:
    """Return every alias with what it is, and every adapter with its arguments."""
    lines = ["| `--model` | adapter | size | what it is |", "|---|---|---|---|"]
    for one in list_aliases().values():
        lines.append(f"| `{one.name}` | [{one.adapter}](#{one.adapter}) | {one.size} | {in_a_cell(one.description)} |")
    text = "## Names\n\n" + "\n".join(lines) + "\n\n## Adapters\n\nWhat `--model_args` takes, by the adapter.\n\n"
    for name in adapters:
        lines = [f"### {name} {{ #{name} }}", "", prose(adapters[name])]
        text += "\n".join([*lines, *_list("Arguments", _arguments(adapters[name]))]) + "\n\n"
    return text


def task_pages() -> str:
    """Return every task as ``bench show`` explains it, below the card of its data."""
    entries = [(entry, *_source(entry.path)) for entry in build_index().tasks]
    text = ""
    for title, of_data in groupby(sorted(entries, key=lambda one: (one[1].lower(), one[0].name)), lambda one: one[1]):
        listed = list(of_data)
        text += f"## {title}\n\n" + (_card(listed[0][2]) if listed[0][2] else "")
        for entry, _, _ in listed:
            text += f"### {entry.name} {{ #{entry.name} }}\n\n```text\n{_printed('show', entry.name)}```\n\n"
    return text


def _source(path: Path) -> tuple[str, DataSource | None]:
    task, _ = load_task(path)
    source = load_source(task, path)
    return (source.title if source else "Without a data card"), source


def _card(source: DataSource) -> str:
    told = {
        "Homepage": source.homepage and f"<{source.homepage}>",
        "Licence": plain(source.licence),
        "Terms": plain(source.terms),
        "A run may be passed on": {"full": "whole", "scores": "without captions and ratings"}[source.redistribution],
        "Cite": plain(source.citation),
        "Get it": plain(source.how),
        "Folder": source.folder and f"`{source.folder}`, below `$CAPBENCH_DATA`",
    }
    lines = [f"- *{key}*: {' '.join(text.split())}" for key, text in told.items() if text]
    if source.files:
        lines += ["", "| file | holds |", "|---|---|"]
        lines += [
            f"| `{one.path}`{'' if one.required else ' (optional)'} | {in_a_cell(one.what)} |" for one in source.files
        ]
    return "\n".join(lines) + "\n\n"


def command_pages() -> str:
    """Return the help of every command."""
    text = ""
    for name, summary in COMMANDS.items():
        parser = ArgumentParser(f"bench {name}", description=summary, formatter_class=RawDescriptionHelpFormatter)
        importlib.import_module(f"capbench.cli.{name}").add_arguments(parser)
        # As wide as a page, on every machine.
        with patch.dict("os.environ", COLUMNS="100"):
            text += f"## bench {name}\n\n```text\n{parser.format_help()}```\n\n"
    return text


def _printed(*arguments: str) -> str:
    """Return what a command prints.

    Raises:
        RuntimeError: It fails.
    """
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if main(arguments):
            raise RuntimeError(f"bench {' '.join(arguments)} failed")
    return printed.getvalue()


PAGES: dict[str, tuple[str, str, Callable[[], str]]] = {
    "metrics.md": (
        "Metrics",
        "Every metric with what it computes, its settings and its source, from the code. What a value of one means "
        "says [the page on figures](../docs/figures.md).",
        metric_pages,
    ),
    "statistics.md": (
        "Statistics",
        "What metrics are held against people's judgement by. What a value of one means says "
        "[the page on figures](../docs/figures.md#statistics).",
        statistic_pages,
    ),
    "protocols.md": (
        "Protocols",
        "What a task's `output_type` does with model, data and metrics. Their settings are listed with the other "
        "[keys of YAML files](yaml.md#protocols).",
        protocol_pages,
    ),
    "tasks.md": (
        "Tasks",
        "Every task as `bench show TASK` explains it, below the card of its data, which `bench data TASK` prints.",
        task_pages,
    ),
    "models.md": (
        "Models",
        "What `--model`, `--encoder` and `--judge` take. [Models and weights](../docs/models.md) and "
        "[captioners](../docs/captioners.md) say how to use them.",
        model_pages,
    ),
    "commands.md": ("Commands", "What `bench COMMAND --help` prints.", command_pages),
}
"""File of the reference to its title, its first lines and what makes the rest."""
