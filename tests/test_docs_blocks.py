"""Every block of the documents is of a known kind: carried out here or by the test that is named, planned, or checked.

A new block fails here until it is: ``bench run`` is planned as it stands, recipes and YAML are read, and any other
command is carried out or told of in ``docs_blocks.yaml``.
"""

import ast
import importlib
import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from test_docs import DOCUMENTS, PLACEHOLDER, ROOT, commands
from test_readme import block

from capbench.benchmarks.rate.questions import Questionnaire
from capbench.benchmarks.suites.inputs import RowModel
from capbench.benchmarks.suites.read import load_suite, suite_names
from capbench.cli.cluster_file import ClusterFile
from capbench.cli.main import main
from capbench.errors import BenchError
from capbench.recipes.data_synthesis.schema import SynthesisPipeline, load_pipeline
from capbench.recipes.self_training.schema import SelfLoop, load_loop
from capbench.recipes.training.contract import trainers
from capbench.recipes.training.schema import Recipe, load_recipe
from capbench.tasks.schema import TaskConfig
from capbench.tasks.yaml_files import parse

READ = {"train": load_recipe, "make": load_pipeline, "loop": load_loop}
"""Their recipes are read, with the changes of ``--set``."""
LOOKED_AT = yaml.safe_load(Path(__file__).with_name("docs_blocks.yaml").read_text(encoding="utf-8"))
CARRIED_OUT = [shlex.split(command)[1:] for command in LOOKED_AT["carried_out"]]
TOLD, EXAMPLES = LOOKED_AT["told"], LOOKED_AT["examples"]
SHELL = {"", "bash", "console"}


def blocks(document: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the place, the language and the text of each block of a document."""
    text = document.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        yield f"{document.name}:{text[: match.start()].count(chr(10)) + 1}", match[1], match[2]


def typed(document: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the words of each command that a document tells to type."""
    for line, command, is_typed in commands(document):
        if is_typed:
            yield f"{document.name}:{line}", shlex.split(command, comments=True)[1:]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the reader of the documents has."""
    monkeypatch.chdir(tmp_path)
    for name in ("my_tasks", "my_photos/photos"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("docs/example", "my_tasks"):
        shutil.copytree(ROOT / "docs/example", tmp_path / name, dirs_exist_ok=True)
    (tmp_path / "my_photos/my_photos.jsonl").write_text(block("json", "someone cycles", of="docs/tasks.md"))
    (tmp_path / "my_photos/my_photos.yaml").write_text(block("yaml", "task: my_photos", of="docs/tasks.md"))
    captions = (ROOT / "adapters/models/iiw-p5b.jsonl").read_text(encoding="utf-8").splitlines()
    own = [json.loads(line) | {"score": number} for number, line in enumerate(captions)]
    pairs = [("a dog runs", ["a dog is running", "the dog runs"]), ("a red bus", ["a bus on a street"])]
    (tmp_path / "own").mkdir()
    (tmp_path / "own/mine.yaml").write_text(block("yaml", "data_files: refs.json", of="docs/score_a_captioner.md"))
    for name, values in {"refs": [["a dog"], ["a cat"]], "a": ["a dog", "a cow"], "b": ["a dog", "cats"]}.items():
        (tmp_path / f"own/{name}.json").write_text(json.dumps(dict(zip("12", values, strict=True))))
    written = {
        "mine.jsonl": own,
        "fleur.jsonl": own,
        "scores.jsonl": [{"id": str(number), "score": number} for number in range(2)],
        "captions.jsonl": [
            {"id": str(number), "candidate": candidate, "references": references}
            for number, (candidate, references) in enumerate(pairs)
        ],
    }
    for name, rows in written.items():
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


@pytest.mark.costly
def test_commands_are_carried_out(folder: Path, capsys: pytest.CaptureFixture[str]):
    faults = []
    for words in CARRIED_OUT:
        if words[0] == "leaderboard":
            # What stands in results/runs: to score it again, as 'verify' does, needs the data.
            for name in ("flickr8k_expert", "composite"):
                shutil.copytree(ROOT / "results/runs" / name, folder / "runs" / name)
        argv = [path for word in words for path in (sorted(map(str, folder.glob(word))) if "*" in word else [word])]
        few = ["--limit", "4", "--bootstrap", "10"] if words[0] == "run" else []
        if main([*argv, *few]) != 0:
            faults.append(f"{' '.join(words)}: {capsys.readouterr().err}")
    assert not faults, "\n".join(faults)
    for name in ("leaderboard/index.html", "agreement.svg", "table.tex", "scores.csv", "lm_tasks"):
        assert (folder / name).exists(), name
    (folder / "agreement.svg").unlink()
    exec(block("python", "agreement_figure", of="docs/plots.md"), {})  # noqa: S102 - our own page
    assert "Experts" in (folder / "agreement.svg").read_text(encoding="utf-8")


def test_each_command_that_is_carried_out_stands_in_a_document():
    in_documents = [words for document in DOCUMENTS for _, words in typed(document)]
    assert not [" ".join(words) for words in CARRIED_OUT if words not in in_documents]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_are_of_a_known_kind(document: Path, folder: Path, capsys: pytest.CaptureFixture[str]):
    faults = [f"{place}: {fault}" for place, words in typed(document) for fault in faults_of_command(words, capsys)]
    assert not faults, "\n".join(faults)


def faults_of_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    """Yield why nobody carries a command out, and what is wrong with one that is planned or read alone."""
    if words in CARRIED_OUT or any("|" in word for word in words):
        return
    if any(re.match(known, " ".join(words)) for known in TOLD):
        return
    if words[0] == "run":
        yield from faults_of_plan(words, capsys)
    elif words[0] in READ:
        yield from faults_of_recipe(words)
    else:
        yield f"neither carried out nor told why not: bench {' '.join(words)}"


def faults_of_plan(words: list[str], capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    """Yield what stands in the way of a dry run, besides the reader's own files and data and weights not here."""
    code = main([*words, *(() if "--dry_run" in words else ("--dry_run",))])
    said = capsys.readouterr().err
    # The reader's own models, folders and files, which the folder of the test has not all.
    own = any(PLACEHOLDER.search(word) for word in words[1:]) or re.search(
        r"file=[ab]\.|fleur\.csv|polos\.safetensors|facts=FILE", " ".join(words)
    )
    absent = re.search(
        "(is|are|missing) (not )?on this machine|(not|nor) in the hub's cache|spaCy's pipeline .* cannot be loaded",
        said,
    )
    if code and not own and not absent:
        yield f"{' '.join(words)}: {said}"


def faults_of_recipe(words: list[str]) -> Iterator[str]:
    """Yield why a recipe that ships is not read with the changes of a command."""
    name = words[1]
    changes = [value for key, value in pairwise(words) if key == "--set"]
    if not name.endswith(".yaml"):
        try:
            READ[words[0]](name, changes)
        except BenchError as error:
            yield f"{name}: {error}"


def test_every_reason_is_of_a_command():
    in_documents = [" ".join(words) for document in DOCUMENTS for _, words in typed(document)]
    assert not [known for known in TOLD if not any(re.match(known, words) for words in in_documents)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_blocks_are_of_a_known_kind(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    checks = {"yaml": faults_of_yaml, "json": faults_of_json, "toml": faults_of_toml, "csv": lambda text: ()}
    faults = []
    for place, language, text in blocks(document):
        if language in SHELL:
            messages = faults_of_shell(text)
        elif language == "python":
            messages = faults_of_python(text, EXAMPLES.get(document.name, {}))
        elif language in checks:
            messages = checks[language](text)
        else:
            messages = [f"a block of '{language}': nobody looks at such"]
        faults += [f"{place}: {message}" for message in messages]
    assert not faults, "\n".join(faults)


def faults_of_shell(text: str) -> Iterator[str]:
    """Yield the lines of a shell that are neither ``bench``, which others look at, nor known otherwise."""
    lines = text.replace("\\\n", "").splitlines()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    if not commands and not any(re.match(r"bench |make |pip |python |apt-get ", line) for line in lines):
        return  # A listing.
    for line in commands or lines:
        words = shlex.split(line, comments=True)
        if not words or words[0] == "bench":
            continue
        if words[0] == "make":
            yield from (f"no target '{word}'" for word in words[1:] if "=" not in word and word not in targets)
        elif words[:2] == ["pip", "install"]:
            named = re.findall(r"\[([\w,]+)\]", line)
            yield from (f"no extra '{extra}'" for many in named for extra in many.split(",") if extra not in extras)
        elif words[0] in ("python", "torchrun") and "-m" in words[:4]:
            if find_spec(module := words[words.index("-m") + 1]) is None:
                yield f"no module {module}"
        elif words[:2] == ["python", "-c"]:
            yield from faults_of_imports(words[2])
        elif words[0] == "python":
            if not (ROOT / words[1]).is_file():
                yield f"no file {words[1]}"
        elif words[0] not in ("apt-get", "lm_eval"):
            yield f"nobody looks at '{line}'"


def faults_of_python(text: str, examples: Mapping[str, str]) -> Iterator[str]:
    """Yield why an example cannot be right, or that no test carries it out."""
    if not (known := [by for marker, by in examples.items() if marker in text]):
        yield "no test carries the example out: docs_blocks.yaml names those that one does"
    tests = [ROOT / by.partition(";")[0] for by in known if by.startswith("tests/")]
    yield from (f"there is no {path}" for path in tests if not path.exists())
    yield from faults_of_imports(text)


def faults_of_imports(text: str) -> Iterator[str]:
    """Yield names of capbench that code imports and that are not there."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("capbench"):
            module = importlib.import_module(str(node.module))
            yield from (f"no {name.name} in {node.module}" for name in node.names if not hasattr(module, name.name))


def faults_of_json(text: str) -> Iterator[str]:
    """Yield that a block is neither a JSON document nor one a line."""
    try:
        json.loads(text)
    except ValueError:
        try:
            for line in text.splitlines():
                json.loads(line)
        except ValueError as error:
            yield f"no JSON: {error}"


def faults_of_toml(text: str) -> Iterator[str]:
    """Yield entry points of groups that nobody reads."""
    groups = tomllib.loads(text)["project"]["entry-points"]
    known = ("metrics", "adapters", "statistics", "protocols", "tasks", "trainers", "stages")
    yield from (f"no group {name}" for name in groups if name.removeprefix("capbench.") not in known)


KINDS = {
    "task": TaskConfig,
    "recipe": Recipe,
    "pipeline": SynthesisPipeline,
    "loop": SelfLoop,
    "engine": ClusterFile,
    "aspects": Questionnaire,
    "spans": Questionnaire,
}
"""The key that tells what a file is, to what reads it."""


def faults_of_yaml(text: str) -> Iterator[str]:
    """Yield why no class reads a file, or a part of one; it lies here, beside what it includes."""
    Path("my_ratings.yaml").write_text(block("yaml", "task: my_ratings"))
    Path("block.yaml").write_text(text)
    try:
        content = parse(Path("block.yaml")).values
        if kind := next((kind for key, kind in KINDS.items() if key in content), None):
            kind.model_validate(content)
        elif set(content) <= set(suite_names()):
            for suite, rows in content.items():
                names = {
                    name for row in load_suite(suite).rows for name in (row.metric, row.printed, row.printed_model)
                }
                for row, model in rows.items():
                    RowModel.model_validate(model)
                    if not any(name and row.startswith((name, name.upper())) for name in names):
                        yield f"{suite} has no row '{row}'"
        elif "trainer" in content:
            trainers[content["trainer"]].Settings.model_validate(content["objective"])
        else:
            TaskConfig.model_validate(PART_OF_A_TASK | content)
    except (BenchError, ValueError) as error:
        yield str(error)


PART_OF_A_TASK = {"task": "part", "dataset_path": "json", "metadata": {"version": 1}}
