"""What the documents tell to type is understood: commands, arguments of models, names; nothing of it is run."""

import argparse
import importlib
import inspect
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from capbench.adapters import adapters
from capbench.adapters.aliases import list_aliases, resolve_model
from capbench.adapters.arguments import parse_arguments
from capbench.benchmarks.inputs.settings import read_metric, split_metrics
from capbench.benchmarks.published.values import load
from capbench.benchmarks.statistics import statistics
from capbench.benchmarks.suites.read import load_suite
from capbench.cli.main import COMMANDS
from capbench.errors import BenchError
from capbench.metrics import build_metric, metrics
from capbench.tasks.index import build_index

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "results/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
PLACEHOLDER = re.compile(r"^[A-Z][A-Z_]*$|^[A-Z_]+=|\.\.\.|^mine|^my_|^run_")
"""What stands for something of the reader's own."""


def commands(document: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield each ``bench ...`` of a document with its line, and whether it is to be typed or is told of."""
    fenced, held = False, ""
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced:
            held += line.strip().removeprefix("$ ")
            if held.endswith("\\"):
                held = held[:-1]
                continue
            if held.startswith("bench "):
                yield number, held, True
            held = ""
        else:
            yield from ((number, command, False) for command in re.findall(r"`(bench [^`]+)`", line))


def parser_of(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    importlib.import_module(f"capbench.cli.{name}").add_arguments(parser)
    return parser


def help_of(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """Return the help of a parser, or of the action of it that is named first."""
    for group in parser._actions:
        if isinstance(group, argparse._SubParsersAction) and words and words[0] in group.choices:
            return help_of(group.choices[words[0]], words[1:])
    return parser.format_help()


def faults_of_command(command: str, is_typed: bool) -> Iterator[str]:
    """Yield what is not understood of a command.

    Raises:
        SystemExit: A word of it is not.
        BenchError: Nor is what an option says.
    """
    _, name, *words = shlex.split(command, comments=True)
    if name.startswith("-"):
        return
    if name not in COMMANDS:
        yield f"no command '{name}'"
    elif is_typed and not any("|" in word for word in words):
        # A number may be left to the reader.
        words = ["1" if word in ("N", "SECONDS") else word for word in words]
        options, unknown = parser_of(name).parse_known_args(words)
        yield from (f"unknown: {word}" for word in unknown)
        yield from faults_of(options)
    else:
        known = help_of(parser_of(name), words)
        options = [word.partition("=")[0] for word in words if word.startswith("--")]
        yield from (f"unknown: {option}" for option in options if option not in known and " " not in option)


def faults_of(options: argparse.Namespace) -> Iterator[str]:
    """Yield what names nothing: models and their arguments, metrics, tasks, suites."""
    for kind in ("model", "encoder", "judge"):
        name, arguments = getattr(options, kind, None), getattr(options, f"{kind}_args", "")
        if not isinstance(name, str) or PLACEHOLDER.search(name):
            continue
        spec = resolve_model(name, arguments)
        known = inspect.signature(adapters[spec.adapter]).parameters
        if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values()):
            yield from (f"{name} has no {key}" for key in spec.arguments if key not in known)
    for text in split_metrics(getattr(options, "metrics", None) or []):
        entry = read_metric(text)
        name = str(entry.metric)
        if name in metrics:
            build_metric(name, entry.arguments)
        elif not (PLACEHOLDER.search(name) or ":" in name):
            yield f"no metric {name}"
    if isinstance(suite := getattr(options, "suite", None), str) and not PLACEHOLDER.search(suite):
        load_suite(suite)
    tasks = getattr(options, "tasks", None) or []
    if not getattr(options, "include_path", None):
        named = [name for listed in ([tasks] if isinstance(tasks, str) else tasks) for name in listed.split(",")]
        build_index().resolve([name for name in named if not PLACEHOLDER.search(name)])
    if gen := getattr(options, "gen_kwargs", ""):
        parse_arguments(gen, "--gen_kwargs")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_is_understood(document: Path, capsys: pytest.CaptureFixture[str]):
    faults = []
    for line, command, is_typed in commands(document):
        try:
            messages = list(faults_of_command(command, is_typed))
        except SystemExit:
            messages = [capsys.readouterr().err.splitlines()[-1]]
        except (BenchError, ValueError) as error:
            messages = [str(error)]
        faults += [f"{document.name}:{line}: {command}: {message}" for message in messages]
    assert not faults, "\n".join(faults)


def test_arguments_of_every_alias_are_those_of_its_adapter():
    for name, spec in list_aliases().items():
        known = inspect.signature(adapters[spec.adapter]).parameters
        assert set(spec.arguments) <= set(known), name


# -- The page on what each figure means has every metric and statistic with its label


FIGURES = (Path(__file__).parents[1] / "docs" / "figures.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading."""
    section = FIGURES.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| `.*", section, flags=re.MULTILINE)
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]


def labels(heading: str) -> dict[str, str]:
    """Return the names in the first cells of a table with their labels."""
    assert all(len(row) == 2 and row[1] for row in rows(heading))
    named = [named for row in rows(heading) for named in re.findall(r"(\w+)` ([^`]+?)(?:, `|$)", row[0])]
    assert len(named) == len(dict(named))
    return dict(named)


def test_every_metric_is_told_of():
    own = [name for name in metrics if metrics[name].__module__.startswith("capbench.")]
    assert labels("Metrics") == {name: metrics[name].label for name in own}


def test_every_statistic_is_told_of():
    assert labels("Statistics") == {name: statistics[name].label for name in statistics}


PAPERS = {"PAC-S++": "pacspp", "DetailCaps": "detailcaps", "DBD": "dbd"}


def test_figures_of_papers_are_those_that_they_print():
    checked = 0
    for row in [*rows("Metrics"), *rows("Statistics")]:
        for said, paper, table in re.findall(r"([^.]*(?:\d\.\d[^.]*)*) \(([\w+-]+), table (\d+)\)", row[-1]):
            records = [record for record in load(PAPERS[paper]).records if str(record.table) == table]
            printed = {record.value for record in records} | {record.value / 100 for record in records}
            for number in re.findall(r"(?<![\d.])\d+\.\d+", said):
                digits = len(number.partition(".")[2])
                assert float(number) in {round(value, digits) for value in printed}, (row[0], number)
                checked += 1
    assert checked == 20
