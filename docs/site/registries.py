"""Reference pages of the registries: metrics, statistics, protocols, models, tasks, commands."""

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
    """Return the page of all metrics: definition, inputs and source."""
    return "".join(_metric(name) for name in metrics)


def _metric(name: str) -> str:
    metric = metrics[name]
    low, high = metric.range
    ends = "no ends" if isinf(low) else f"{low:g} or more" if isinf(high) else f"{low:g} to {high:g}"
    facts = {
        "Needs": ", ".join(sorted(metric.needs)) or "only the caption",
        "Ends": ends,
        "Better": ("more" if metric.higher_is_better else "less") if metric.has_direction else "neither",
        "Value of a system": "of the whole corpus" if metric.aggregation == "corpus" else "mean over captions",
        "Source": plain(metric.source),
    }
    # A variant lists only its differences from its base metric.
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


def _list(heading: str, meanings: dict[str, str]) -> list[str]:
    """Return a list of names with meanings, below a heading; empty if there are none."""
    if not meanings:
        return []
    return ["", f"{heading}:", "", *(f"- `{name}`: {plain(text)}" for name, text in meanings.items())]


def statistic_pages() -> str:
    """Return the page of all statistics: definition and source."""
    text = ""
    for name in statistics:
        lines = [f"## {statistics[name].label} {{ #{name} }}", "", f"`{name}`", "", prose(statistics[name])]
        text += "\n".join([*lines, *_list("Settings", _arguments(statistics[name]))]) + "\n\n"
    return text


def protocol_pages() -> str:
    """Return the page of all protocols: definition, and the task keys that they read."""
    text = ""
    for name in protocols:
        protocol = protocols[name]
        keys = ", ".join(f"`{key}`" for key in protocol.reads)
        needed = " and ".join(f"`{key}`" for key in sorted(protocol.needs)) or "none"
        either = f"; one of {', '.join(f'`{key}`' for key in protocol.needs_one)}" if protocol.needs_one else ""
        text += f"## {name}\n\n{prose(protocol)}\n\n- *Reads*: {keys}\n- *Needs*: {needed}{either}\n\n"
    return text


def model_pages() -> str:
    """Return the page of all model aliases, and of all adapters with their arguments."""
    lines = ["| `--model` | adapter | size | description |", "|---|---|---|---|"]
    for spec in list_aliases().values():
        lines.append(
            f"| `{spec.name}` | [{spec.adapter}](#{spec.adapter}) | {spec.size} | {in_a_cell(spec.description)} |"
        )
    text = "## Names\n\n" + "\n".join(lines) + "\n\n## Adapters\n\nArguments for `--model_args`, by adapter.\n\n"
    for name in adapters:
        lines = [f"### {name} {{ #{name} }}", "", prose(adapters[name])]
        text += "\n".join([*lines, *_list("Arguments", _arguments(adapters[name]))]) + "\n\n"
    return text


def task_pages() -> str:
    """Return the page of all tasks, as in ``bench show``, grouped by data card."""
    entries = [(entry, *_source(entry.path)) for entry in build_index().tasks]
    text = ""
    for title, of_data in groupby(sorted(entries, key=lambda row: (row[1].lower(), row[0].name)), lambda row: row[1]):
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
    facts = {
        "Homepage": source.homepage and f"<{source.homepage}>",
        "Licence": plain(source.licence),
        "Terms": plain(source.terms),
        "Redistribution of runs": {"full": "whole", "scores": "without captions and ratings"}[source.redistribution],
        "Cite": plain(source.citation),
        "Get it": plain(source.how),
        "Folder": source.folder and f"`{source.folder}`, in `$CAPBENCH_DATA`",
    }
    lines = [f"- *{key}*: {' '.join(text.split())}" for key, text in facts.items() if text]
    if source.files:
        lines += ["", "| file | content |", "|---|---|"]
        lines += [
            f"| `{row.path}`{'' if row.required else ' (optional)'} | {in_a_cell(row.what)} |" for row in source.files
        ]
    return "\n".join(lines) + "\n\n"


def command_pages() -> str:
    """Return the page with the help of all commands."""
    text = ""
    for name, summary in COMMANDS.items():
        parser = ArgumentParser(f"bench {name}", description=summary, formatter_class=RawDescriptionHelpFormatter)
        importlib.import_module(f"capbench.cli.{name}").add_arguments(parser)
        # Fixed width, independent of the terminal.
        with patch.dict("os.environ", COLUMNS="100"):
            text += f"## bench {name}\n\n```text\n{parser.format_help()}```\n\n"
    return text


def _printed(*arguments: str) -> str:
    """Return the output of a command.

    Raises:
        RuntimeError: The command fails.
    """
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if main(arguments):
            raise RuntimeError(f"bench {' '.join(arguments)} failed")
    return printed.getvalue()


PAGES: dict[str, tuple[str, str, Callable[[], str]]] = {
    "metrics.md": (
        "Metrics",
        "All metrics with definition, settings and source, from the code. "
        "[The page on figures](../docs/figures.md) explains their values.",
        metric_pages,
    ),
    "statistics.md": (
        "Statistics",
        "Statistics that compare metrics with human judgements. "
        "[The page on figures](../docs/figures.md#statistics) explains their values.",
        statistic_pages,
    ),
    "protocols.md": (
        "Protocols",
        "A task's `output_type` selects its protocol. Settings of protocols are listed with the other "
        "[keys of YAML files](yaml.md#protocols).",
        protocol_pages,
    ),
    "tasks.md": (
        "Tasks",
        "All tasks with the output of `bench show TASK`, grouped by data card, which `bench data TASK` prints.",
        task_pages,
    ),
    "models.md": (
        "Models",
        "Values for `--model`, `--encoder` and `--judge`. [Models and weights](../docs/models.md) and "
        "[captioners](../docs/captioners.md) explain their use.",
        model_pages,
    ),
    "commands.md": ("Commands", "The output of `bench COMMAND --help`.", command_pages),
}
"""File of the reference to its title, first lines, and generator of the rest."""
