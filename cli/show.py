"""``bench show``: a task in words, with every choice that moves a number; or a suite, or what else has a name."""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options import REDISTRIBUTION, TASK, add_options, describe_model_folder

if TYPE_CHECKING:
    from ..benchmarks.protocols.contract import Protocol
    from ..tasks.schema import MetricEntry, PublishedTable, TaskConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "task",
        help="a task, group or tag ('bench ls tasks'), or a task's FILE.yaml; a suite ('bench ls suites'); a metric, "
        "statistic, adapter or model, by its name or folder",
    )
    add_options(parser, *TASK)


def run(options: argparse.Namespace) -> int:
    """Print the explanation of each task, of a suite, or of what is registered under the name."""
    from ..benchmarks.suites.inputs import describe
    from ..benchmarks.suites.read import load_suite, suite_names
    from ..errors import UsageError
    from ..tasks.index import build_index, read_entry

    if options.task in suite_names():
        print(describe(load_suite(options.task)))
        return 0
    if model := describe_model_folder(options.task):
        print(model)
        return 0
    if (file := Path(options.task)).suffix in (".yaml", ".yml"):
        if (entry := read_entry(file)) is None or entry.kind == "group":
            raise UsageError(
                f"{file}: declares no task.",
                "For a recipe, pipeline or loop: --dry_run of 'bench train', 'make' or 'loop' prints what it asks for.",
            )
        print(_explain(file))
        return 0
    index = build_index(options.include_path)
    if options.task not in (*index.entries, *index.tags) and (text := describe_registered(options.task)):
        print(text)
        return 0
    entries = index.resolve([options.task])
    print("\n\n".join(_explain(entry.path) for entry in entries))
    return 0


def _explain(path: Path) -> str:
    from ..access import request_lines
    from ..benchmarks.protocols.binding import load_bound
    from ..permissions import is_installed
    from ..tasks.schema import requests_of_task
    from ..tasks.sources import load_source
    from ..tasks.yaml_files import display_path

    task, parsed, protocol = load_bound(path)
    source = load_source(task, path)
    lines = [f"{task.task}  (version {task.version}, {display_path(path)})"]
    if task.description:
        lines += textwrap.wrap(task.description, 100)
    lines += ["", f"data         {source.title if source else task.dataset_path}"]
    lines.append(f"             runs: {REDISTRIBUTION[source.redistribution if source else 'full']}")
    if task.custom_dataset:
        lines.append(f"             read by {task.custom_dataset}")
        if task.custom_dataset.may_run:
            lines += settings_of(task.custom_dataset.resolve(), task.dataset_kwargs)
        else:
            lines += [f"             {name}: {value}" for name, value in task.dataset_kwargs.items()]
    elif task.dataset_path:
        lines.append(f"             dataset_path {task.dataset_path}, split {task.test_split}")
    for join in task.join:
        on = ", ".join(key if key == other else f"{key} = {other}" for key, other in join.on.items())
        mean = f"; means of {', '.join(join.mean)}" if join.mean else ""
        without = "" if join.required else "; documents without a row are used"
        lines.append(f"             joined with {join.named} on {on}{mean}{without}")
    if task.process_docs:
        lines.append(f"             documents made by {task.process_docs}")
    lines += _protocol(task, protocol)
    if task.metric_list:
        listed = (_named(f"{_label(entry)} ({entry.metric})", entry.arguments) for entry in task.metric_list)
        lines.append(f"metrics      {'; '.join(listed)}")
    if task.statistics:
        lines.append("statistics   " + "; ".join(_named(e.called, e.arguments) for e in task.statistics))
    if checks := task.checks.expected():
        text = "checks       " + ", ".join(f"{name} = {value:g}" for name, value in checks.items())
        lines += textwrap.wrap(text, 113, subsequent_indent=" " * 13)
    if task.published:
        lines += _published(task, task.published, protocol)
    for name, meaning in task.category_names.items():
        lines.append(f"{'categories' if name == next(iter(task.category_names)) else '':<13}{name}: {meaning}")
    lines.append(f"shown        × {task.scale:g}" if task.scale != 1 else "shown        as computed")
    if not is_installed(path):
        lines += [f"{kind:<13}{text}" for kind, text in request_lines(requests_of_task(task, parsed))]
    return "\n".join(lines)


def _protocol(task: TaskConfig, protocol: Protocol[Any]) -> list[str]:
    """Return the fields of documents that the protocol reads, and its settings that have an effect."""
    values = {**task.templates, **{key: getattr(task, key) for key in ("image_folder", "video_folder")}}
    lines = [f"protocol     {task.output_type}"]
    for key in protocol.reads:
        if value := values.get(key):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            if isinstance(value, dict):
                shown = ", ".join(f"{name}: {entry}" for name, entry in value.items())
            lines.append(f"             {key}: {shown}")
    if task.video_frames:
        lines.append(f"             video_frames: {task.video_frames.model_dump(exclude_none=True)}")
    if "generation_kwargs" in protocol.reads:
        lines.append(f"             generation_kwargs: {task.generation_kwargs}")
    lines += textwrap.wrap(protocol.about, 105, initial_indent=" " * 13, subsequent_indent=" " * 13)
    settings = protocol.settings
    for name in type(settings).model_fields:
        if name not in settings.idle() and (shown := settings.shown(name)):
            lines += setting(name, shown, settings.meaning(name))
    return lines


def _published(task: TaskConfig, table: PublishedTable, protocol: Protocol[Any]) -> list[str]:
    """Return the paper's title and, for each metric of the task, the values that it prints."""
    from ..benchmarks.published.values import find_in, load

    lines = [f"published    {load(table.paper).title}, table {table.table}, {table.task}"]
    for label, printed in table.metrics.items():
        lines.append(f"             {label}: published as '{printed}', of the run's model, if the table has it")
    for entry in task.metric_list:
        label = _label(entry)
        values = []
        names = [statistic.called for statistic in task.statistics] or [protocol.statistic]
        for name in names:
            for category in [*(table.categories or []), "mean"]:
                if printed := find_in(table, label, name, category):
                    values.append(f"{category if table.categories else name} {printed.printed}")
        lines.append(f"             {label}: {', '.join(values) or 'not printed there'}")
    return lines


def _label(entry: MetricEntry) -> str:
    """Return what tables call a metric; the name of a function, which does not run here, as it stands."""
    from ..benchmarks.running.planned_metrics import build_entry
    from ..tasks.yaml_files import FunctionReference

    if isinstance(entry.metric, FunctionReference) and not entry.metric.may_run:
        return entry.called
    return build_entry(entry, entry.arguments).label


def _named(name: str, arguments: dict[str, object]) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in arguments.items())
    return f"{name} with {settings}" if settings else name


_WIDTH = 105


def describe_registered(name: str) -> str | None:
    """Return what is registered under a name in words; None where nothing is."""
    from ..adapters import adapters
    from ..adapters.aliases import OWN_CODE, list_aliases
    from ..benchmarks.statistics import statistics
    from ..metrics import metrics

    if name in metrics:
        metric = metrics[name]
        facts = {
            "needs": ", ".join(sorted(metric.needs)) or "the caption alone",
            "range": "{:g} to {:g}".format(*metric.range),
            "better": ("more" if metric.higher_is_better else "less") if metric.has_direction else "neither",
            "source": metric.source,
        }
        return _described(f"{name}  (metric, {metric.label})", metric, facts, {})
    if name in statistics:
        statistic = statistics[name]
        better = "more" if statistic.higher_is_better else "less"
        return _described(f"{name}  (statistic, {statistic.label})", statistic, {"better": better}, {})
    if (model := list_aliases().get(name)) is not None:
        facts = {"model": model.description, "size": model.size, "source": model.source}
        facts |= {"licence": model.licence, "released": model.date}
        facts["code"] = f"That of its own repository. {OWN_CODE}" if model.own_code else ""
        return _described(f"{name}  (model, adapter {model.adapter})", adapters[model.adapter], facts, model.arguments)
    return _described(f"{name}  (adapter)", adapters[name], {}, {}) if name in adapters else None


def _described(heading: str, thing: Callable[..., Any], facts: Mapping[str, str], overrides: Mapping[str, Any]) -> str:
    lines = [heading]
    about = re.split(r"\n(?:Args|Raises|Attributes|Returns):\n", inspect.getdoc(thing) or "")[0]
    for paragraph in _plain(about.strip()).split("\n\n"):
        lines += ["", *textwrap.wrap(" ".join(paragraph.split()), _WIDTH)]
    lines.append("")
    for key, value in facts.items():
        if value:
            lines += textwrap.wrap(f"{key:<13}{value}", _WIDTH, subsequent_indent=" " * 13)
    for number, line in enumerate(settings_of(thing, overrides)):
        lines.append(line if number else f"{'settings':<13}{line.strip()}")
    return "\n".join(lines)


def settings_of(function: Callable[..., Any], overrides: Mapping[str, Any]) -> list[str]:
    """Return the settings, each with its value or ``required``, and its meaning from the docstring.

    Args:
        function: A function or class.
        overrides: Values that replace defaults, or are added to them.
    """
    section = re.search(r"^Args:\n((?:[ ]{4}.*\n?)+)", inspect.getdoc(function) or "", flags=re.MULTILINE)
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section[1] if section else "", flags=re.MULTILINE)
    meanings = {name: _plain(" ".join(text.split()).rstrip(".")) for name, text in entries}
    parameters = inspect.signature(function).parameters.values()
    defaults = {
        parameter.name: "required" if parameter.default is parameter.empty else parameter.default
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    settings = {**defaults, **overrides}
    return [line for name in settings for line in setting(name, settings[name], meanings.get(name, ""))]


def setting(name: str, value: object, meaning: str) -> list[str]:
    """Return a setting and its meaning, folded, in the column of the protocol."""
    text = f"{name}: {value}" + (f" ({meaning})" if meaning else "")
    return textwrap.wrap(text, _WIDTH, initial_indent=" " * 13, subsequent_indent=" " * 15)


def _plain(text: str) -> str:
    """Return a text without the marks of code and of references."""
    return re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", text).replace("``", "")
