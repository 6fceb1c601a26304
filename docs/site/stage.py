"""Prepares the pages of the site in ``build/docs``: pages of the repository, and a generated reference.

``mkdocs.yml`` builds the site from there. The tree is that of the repository, so links between pages work in both.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from docstrings import prose
from registries import PAGES, SECTIONS, section
from schemas import alias_keys, page_of, template_keys

import capbench
from capbench.benchmarks.protocols import protocols
from capbench.benchmarks.suites.inputs import RowModel
from capbench.benchmarks.suites.read import Suite
from capbench.cli.cluster_file import ClusterFile
from capbench.recipes.data_synthesis.contract import stages
from capbench.recipes.data_synthesis.schema import SynthesisPipeline
from capbench.recipes.self_training.schema import SelfLoop
from capbench.recipes.training.contract import trainers
from capbench.recipes.training.schema import Recipe
from capbench.tasks.schema import TaskConfig
from capbench.tasks.sources import DataSource

ROOT = Path(__file__).parents[2]
COPIED = (
    *(
        "*.md",
        "NOTICE",
        "docs/*.md",
        "docs/*.svg",
        "docs/*.webp",
        "docs/example/*",
        "docs/site/*.css",
        "docs/site/*.js",
    ),
    *("results/*.md", "results/*.svg", "results/leaderboard/*.md", "adapters/models/*/*.md"),
    *("benchmarks/records/run.schema.json", "tasks/flickr8k/flickr8k_source.yaml"),
)
"""Files of the repository that the site shows or links to."""
MODULES = ("*.py", *(f"{name}/**/*.py" for name in ("adapters", "benchmarks", "cli", "metrics", "recipes", "tasks")))
"""Files of the package, for ``mkdocstrings``, which would walk the whole repository and import it."""
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")


def stage(target: Path) -> None:
    """Write all pages to a folder; an existing folder is replaced.

    Raises:
        LookupError: A page is missing in the navigation of ``mkdocs.yml``, a link is broken, or a key has no docstring.
    """
    copy_files(MODULES, target.parent / "package/capbench")
    copy_files(COPIED, target)
    for page in target.rglob("*.md"):
        # Notebooks become pages.
        page.write_bytes(page.read_bytes().replace(b".ipynb)", b".md)"))
    for book in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
        page = target / "docs/notebooks" / f"{book.stem}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(notebook(book), encoding="utf-8")
    reference = target / "reference"
    reference.mkdir()
    for name, make in PAGES.items():
        (reference / f"{name}.md").write_text(f"# {name.capitalize()}\n\n{prose(make)}\n\n{make()}", encoding="utf-8")
    for name, (columns, leaves) in SECTIONS.items():
        (reference / name).mkdir()
        for file, text in section(name, columns, leaves).items():
            (reference / name / file).write_text(text, encoding="utf-8")
    (reference / "yaml.md").write_text(yaml_page(), encoding="utf-8")
    (reference / "python.md").write_text(python_page(), encoding="utf-8")
    check(target)


def copy_files(patterns: Iterable[str], target: Path) -> None:
    """Copy files of the repository into a folder, where they lie as in the repository; an existing one is replaced."""
    shutil.rmtree(target, ignore_errors=True)
    for source in (path for pattern in patterns for path in ROOT.glob(pattern)):
        copy = target / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)


def check(target: Path) -> None:
    """Raise if pages have broken links, or are not found: by the navigation, or by a link to a page of the reference.

    Raises:
        LookupError: Lists each such page.
    """
    pages = {path.relative_to(target).as_posix(): _links(path) for path in sorted(target.rglob("*.md"))}
    linked = {
        (page, link): os.path.normpath(Path(page).parent / link) for page, links in pages.items() for link in links
    }
    named = {*navigation(), *(path for path in linked.values() if path.startswith("reference/"))}
    if left_out := pages.keys() - named:
        raise LookupError(f"mkdocs.yml: the navigation lacks {', '.join(sorted(left_out))}")
    if broken := [f"{page}: {link}" for (page, link), path in linked.items() if not (target / path).exists()]:
        raise LookupError("these pages link to files that are not on the site:\n" + "\n".join(broken))


def _links(page: Path) -> list[str]:
    """Return the files, including images, that a page links to."""
    return _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))


def navigation() -> list[str]:
    """Return the pages of the navigation."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    return re.findall(r": (\S+\.md)$", nav, re.MULTILINE)


def notebook(file: Path) -> str:
    """Return a notebook as a page of its text and code cells, with stored outputs."""
    pieces = [f"*A notebook: [{file.name}](https://jupyter.org) in `docs/notebooks` of the repository.*"]
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        pieces.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            for kind, lines in output.get("data", {"text/plain": output.get("text")}).items():
                pieces.append(_SHOWN[kind].format("".join(lines).strip()))
    # The title comes first.
    return "\n\n".join([pieces[1], pieces[0], *pieces[2:]]) + "\n"


_SHOWN = {
    "text/html": "{}",
    "image/jpeg": '<img alt="The image that the cell shows" src="data:image/jpeg;base64,{}">',
    "text/plain": "```text\n{}\n```",
}
"""Kind of a notebook's output to its form on a page."""


def python_page() -> str:
    """Return the page of public names and contracts of extensions; mkdocstrings fills it."""
    names = [f"capbench.{name}" for name in capbench.__all__]
    contracts = ["metrics.contract.Metric", "metrics.items.Items", "metrics.items.Scores"]
    contracts += [f"adapters.contracts.{name}" for name in ("Captioner", "Encoder", "Judge")]
    contracts += ["benchmarks.statistics.contract.Statistic", "benchmarks.protocols.contract.Protocol"]
    lines = ["# Python", "", "The public API of `import capbench`. [In Python](../docs/python.md) explains its use."]
    lines += [f"\n::: {name}" for name in names]
    lines += ["\n## Contracts", "\nBase classes for extensions; [extending](../docs/extending.md) has examples."]
    return "\n".join([*lines, *(f"\n::: capbench.{name}" for name in contracts)]) + "\n"


def _own(registry: Mapping[str, type]) -> list[str]:
    """Return the names that capbench registers; other packages may have registered more."""
    return [name for name in registry if registry[name].__module__.startswith("capbench.")]


def yaml_page() -> str:
    """Return the page of all keys of YAML files."""
    seen: set[type] = set()
    text = (
        "# Keys of YAML files\n\nAll keys of the YAML files that capbench reads, from the classes that read them. An "
        "unknown key is an error with file, line and the nearest known key. Any file may `include` others.\n\n"
    )
    text += page_of(TaskConfig, "Task", seen)
    text += "### Keys `doc_to_*`\n\n[Task files](../docs/tasks.md#documents) explains them.\n\n"
    text += f"{template_keys()}\n\n"
    text += "## Protocols\n\nThe section `protocol` of a task, by its `output_type`.\n\n"
    for name in _own(protocols):
        # List a settings class that several protocols use only once.
        if protocols[name].Settings not in seen:
            text += page_of(protocols[name].Settings, f"`{name}`", seen, 3)
    text += page_of(DataSource, "Data card", seen)
    text += "## Alias of a model\n\nAll other keys are arguments of its [adapter](adapters/index.md).\n\n"
    text += f"{alias_keys()}\n\n"
    text += page_of(Suite, "Suite", seen)
    text += page_of(RowModel, "A row of `models.yaml`, for a suite", seen)
    text += page_of(Recipe, "Training recipe", seen)
    text += "### Trainers\n\nThe section `objective` of a recipe, by its `trainer`.\n\n"
    text += "".join(page_of(trainers[name].Settings, f"`{name}`", seen, 4) for name in _own(trainers))
    text += page_of(SynthesisPipeline, "SynthesisPipeline", seen)
    text += "### Stages\n\nThe keys of an entry of `stages`, by its `stage`.\n\n"
    text += "".join(page_of(stages[name].Settings, f"`{name}`", seen, 4) for name in _own(stages))
    text += page_of(SelfLoop, "Loop", seen)
    return text + page_of(ClusterFile, "Cluster file", seen)


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
