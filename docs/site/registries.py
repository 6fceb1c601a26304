"""Reference pages of the registries: metrics, statistics, protocols, models, tasks, recipes, commands.

The docstring of a generator here heads its page.
"""

import contextlib
import importlib
import inspect
import io
import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from math import isinf
from pathlib import Path
from unittest.mock import patch

from docstrings import in_a_cell, items, plain, prose, sections

import capbench
from capbench.adapters import adapters
from capbench.adapters.aliases import list_aliases
from capbench.benchmarks.protocols import protocols
from capbench.benchmarks.published.values import Published, load
from capbench.benchmarks.statistics import statistics
from capbench.benchmarks.suites.read import list_suites
from capbench.benchmarks.suites.run import suite_cells
from capbench.cli.main import COMMANDS, epilog_of, main
from capbench.metrics import metrics
from capbench.metrics.contract import CorpusMetric, Metric
from capbench.recipes.data_synthesis.schema import LoadedPipeline
from capbench.recipes.self_training.schema import LoadedLoop
from capbench.recipes.training.schema import LoadedRecipe
from capbench.tasks.index import build_index
from capbench.tasks.schema import TaskConfig, load_task
from capbench.tasks.sources import DataSource, load_source

LEADERBOARD = Path(__file__).parents[2] / "results" / "leaderboard"
Leaf = tuple[str, str, Sequence[str], str]
"""A page of a section: its name, its title, its cells in the section's table after the name, and its text."""


def section(name: str, columns: str, leaves: Callable[[], Iterator[Leaf]]) -> dict[str, str]:
    """Return the pages of a section by file name: one for each leaf, and ``index.md`` with a table of them.

    Args:
        name: Of the section.
        columns: Of its table.
        leaves: Generator of the pages; its docstring heads the index.
    """
    title, pages, rows = name.capitalize(), {}, []
    for leaf, heading, cells, text in leaves():
        pages[f"{leaf}.md"] = f"# {heading}\n\n{text}\n\n[{title}: all](index.md)\n"
        rows.append(f"| [`{leaf}`]({leaf}.md) | {' | '.join(map(in_a_cell, cells))} |")
    table = [f"| {columns} |", "|---" * (columns.count("|") + 1) + "|", *rows]
    return {"index.md": "\n".join([f"# {title}", "", prose(leaves), "", *table]) + "\n", **pages}


def _first_line(thing: object) -> str:
    return sections(thing)[""].partition("\n\n")[0]


def metrics_section() -> Iterator[Leaf]:
    """Each metric with definition, settings and source.

    [The page on figures](../../docs/figures.md) explains their values.
    """
    for name, metric in metrics.items():
        needs = ", ".join(sorted(metric.needs)) or "only the caption"
        kind = next(kind for kind in metric.__mro__ if kind.__doc__)
        yield name, f"{metric.label} (`{name}`)", (_first_line(kind), needs), _metric(name, metric, needs)


def _metric(name: str, metric: type[Metric], needs: str) -> str:
    low, high = metric.range
    ends = "no ends" if isinf(low) else f"{low:g} or more" if isinf(high) else f"{low:g} to {high:g}"
    facts = {
        "Needs": needs,
        "Ends": ends,
        "Better": ("more" if metric.higher_is_better else "less") if metric.has_direction else "neither",
        "Value of a system": "of the whole corpus" if metric.aggregation == "corpus" else "mean over captions",
        "Source": plain(metric.source),
    }
    # A variant lists only its differences from its base metric.
    contracts = (Metric, CorpusMetric, *Metric.__mro__, *CorpusMetric.__mro__)
    kinds = [kind for kind in metric.__mro__ if kind not in contracts and "__doc__" in vars(kind)]
    lines = [f"{prose(kind)}\n" for kind in kinds if kind.__doc__]
    lines += [f"- *{key}*: {text}" for key, text in facts.items()]
    arguments = {key: text for kind in reversed(kinds) for key, text in _arguments(kind).items()}
    taken = inspect.signature(metric).parameters
    lines += _list("Settings", {key: arguments[key] for key in taken if key in arguments})
    return "\n".join([*lines, "", f"`bench run --task TASK --metrics {name}` computes it, in tasks that fit."])


def _arguments(thing: object) -> dict[str, str]:
    return items(sections(thing).get("Args", ""))


def _list(heading: str, meanings: dict[str, str]) -> list[str]:
    """Return a list of names with meanings, below a heading; empty if there are none."""
    if not meanings:
        return []
    return ["", f"{heading}:", "", *(f"- `{name}`: {plain(text)}" for name, text in meanings.items())]


def statistics_page() -> str:
    """Statistics that compare metrics with human judgements.

    [The page on figures](../docs/figures.md#statistics) explains their values.
    """
    text = ""
    for name in statistics:
        lines = [f"## {statistics[name].label} {{ #{name} }}", "", f"`{name}`", "", prose(statistics[name])]
        text += "\n".join([*lines, *_list("Settings", _arguments(statistics[name]))]) + "\n\n"
    return text


def protocols_page() -> str:
    """A task's `output_type` selects its protocol.

    Settings of protocols are listed with the other [keys of YAML files](yaml.md#protocols).
    """
    text = ""
    for name in protocols:
        protocol = protocols[name]
        keys = ", ".join(f"`{key}`" for key in protocol.reads)
        needed = " and ".join(f"`{key}`" for key in sorted(protocol.needs)) or "none"
        either = f"; one of {', '.join(f'`{key}`' for key in protocol.needs_one)}" if protocol.needs_one else ""
        text += f"## {name}\n\n{prose(protocol)}\n\n- *Reads*: {keys}\n- *Needs*: {needed}{either}\n\n"
    return text


def models_page() -> str:
    """Values for `--model`, `--encoder` and `--judge`.

    [Models and weights](../docs/models.md) and [captioners](../docs/captioners.md) explain their use.
    """
    lines = ["| `--model` | adapter | size | description |", "|---|---|---|---|"]
    for spec in list_aliases().values():
        adapter = f"[{spec.adapter}](adapters/{spec.adapter}.md)"
        lines.append(f"| `{spec.name}` | {adapter} | {spec.size} | {in_a_cell(spec.description)} |")
    return "\n".join(lines) + "\n"


def adapters_section() -> Iterator[Leaf]:
    """Each adapter with its arguments for `--model_args`.

    [Models](../models.md) name their adapter.
    """
    for name, adapter in adapters.items():
        arguments = _arguments(adapter)
        models = [f"`{spec.name}`" for spec in list_aliases().values() if spec.adapter == name]
        lines = [prose(adapter), *_list("Arguments", arguments)]
        lines += ["", f"[Models](../models.md) that use it: {', '.join(models)}."] if models else []
        yield name, f"Adapter `{name}`", (_first_line(adapter), str(len(arguments))), "\n".join(lines)


def tasks_section() -> Iterator[Leaf]:
    """Each task with the output of `bench show TASK`, its data card (`bench data TASK`) and published values."""
    board = json.loads((LEADERBOARD / "leaderboard.json").read_text(encoding="utf-8"))
    anchors = {table["task"]: table["anchor"] for table in board["tables"]}
    for entry in sorted(build_index().tasks, key=lambda entry: entry.name):
        task, _ = load_task(entry.path)
        source = load_source(task, entry.path)
        shown = _printed("show", entry.name).replace(f"{Path(capbench.__file__).parent}/", "")
        text = f"{plain(entry.description)}\n\n```text\n{shown}```\n\n"
        text += f"## Data: {source.title}\n\n{_card(source)}" if source else ""
        text += _published(task)
        if task.task in anchors:
            text += f"## Kept runs\n\n[Our rows](../../results/leaderboard/README.md#{anchors[task.task]}).\n\n"
        data = source.title if source else ""
        yield entry.name, f"Task `{entry.name}`", (entry.description, entry.output_type, data), text


def _published(task: TaskConfig) -> str:
    """Return the values that papers print for a task: those of suites and of the table that the task names."""
    tables: dict[str, dict[str, dict[str, str]]] = {}

    def add(cell: Published, label: str, head: str) -> None:
        title = f"{cell.citation}, table {cell.table}" + (f", × {cell.scale:g}" if cell.scale != 1 else "")
        tables.setdefault(title, {}).setdefault(label, {})[head] = cell.printed

    named = task.published
    for suite in list_suites():
        columns = [column for column in suite.columns if column.task == task.task]
        for cell in suite_cells(suite.model_copy(update={"columns": columns}), {}, {}):
            if cell.published:
                add(cell.published, cell.label, cell.head)
                named = None if named and (named.paper, named.table) == (suite.paper, suite.table) else named
    if named:
        categories = {named.task.format(category=name): name for name in (*(named.categories or ()), "mean")}
        for row in load(named.paper).records:
            if row.table == named.table and row.task in categories:
                label = f"{row.metric} ({row.model})" if row.model else row.metric
                add(row, label, f"{categories[row.task]} {row.statistic}" if named.categories else row.statistic)
    text = ""
    for title, rows in tables.items():
        heads = list(dict.fromkeys(head for row in rows.values() for head in row))
        text += f"\n### {title}\n\n| | {' | '.join(map(in_a_cell, heads))} |\n|---{'|---' * len(heads)}|\n"
        for label, row in rows.items():
            text += f"| {in_a_cell(label)} | {' | '.join(row.get(head, '') for head in heads)} |\n"
    return f"## Published\n{text}\n" if text else ""


def recipes_section() -> Iterator[Leaf]:
    """Training recipes, pipelines that make data, and self-training loops that ship.

    [Train](../../docs/recipes.md) and [making data](../../docs/data_synthesis.md) explain them.
    """
    for verb, kind in (("train", LoadedRecipe), ("make", LoadedPipeline), ("loop", LoadedLoop)):
        for name, path in kind.shipped().items():
            loaded = kind.load(name)
            about = in_a_cell(loaded.document.description)
            paper = loaded.document.paper
            lines = [about, "", f"Paper: {plain(paper)}." if paper else "", "", *map(plain, loaded.choices())]
            data = " --data DIR" if verb == "make" else ""
            lines += ["", f"```text\nbench {verb} {name}{data} --dry_run\nbench {verb} {name}{data} --output DIR\n```"]
            lines += [
                "",
                f"[bench {verb}](../commands/{verb}.md) has the options, and [Keys](../yaml.md) the meanings:",
            ]
            lines += ["", f"```yaml\n{path.read_text(encoding='utf-8')}```"]
            yield name, f"Recipe `{name}`", (about, f"bench {verb}", paper), "\n".join(lines)


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
    if source.defects:
        lines += ["", "## Known defects", "", *(f"- {in_a_cell(defect)}" for defect in source.defects)]
    return "\n".join(lines) + "\n\n"


def commands_section() -> Iterator[Leaf]:
    """Each command with its options: the output of `bench COMMAND --help`."""
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"capbench.cli.{name}")
        shown = {"description": summary, "epilog": epilog_of(module.__doc__)}
        parser = ArgumentParser(f"bench {name}", **shown, formatter_class=RawDescriptionHelpFormatter)
        module.add_arguments(parser)
        # Fixed width, independent of the terminal.
        with patch.dict("os.environ", COLUMNS="100"):
            purpose, _, example = summary.partition(": bench ")
            yield name, f"bench {name}", (purpose, f"`bench {example}`"), f"```text\n{parser.format_help()}```"


def _printed(*arguments: str) -> str:
    """Return the output of a command.

    Raises:
        RuntimeError: The command fails.
    """
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if main(arguments):
            raise RuntimeError(f"bench {' '.join(arguments)} failed")
    return printed.getvalue()


PAGES: dict[str, Callable[[], str]] = {
    "statistics": statistics_page,
    "protocols": protocols_page,
    "models": models_page,
}
"""Page of the reference to the generator of its text."""
SECTIONS = {
    "metrics": ("metric | definition | needs", metrics_section),
    "tasks": ("task | question | protocol | data", tasks_section),
    "adapters": ("adapter | what it runs | arguments", adapters_section),
    "recipes": ("recipe | what it does | command | paper", recipes_section),
    "commands": ("command | use | example", commands_section),
}
"""Folder of the reference to the columns of its table, and the generator of its leaves."""
