"""Runs that share results: what one has made the other does not make, and what is damaged is made again."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from in_shards import Picky, note, notes, run_in_shards
from task_keys import UNSEEN, write_task

from capbench.benchmarks.running.execution import IN_PROCESS, Execution
from capbench.metrics import Context, Items, Scores, metrics

ROWS, SIZE = 40, 8


class Noted(Picky):
    """Writes down the first item of what it scores."""

    folder: Path

    def score(self, items: Items, context: Context) -> Scores:
        note(self.folder / "scored", items.ids[0])
        return super().score(items, context)


@dataclass(frozen=True)
class Runs:
    """Runs of one task that share results."""

    folder: Path

    def begun(self) -> list[str]:
        """Return the first items of what was scored since the last time, and forget them."""
        shards = notes(self.folder / "scored")
        (self.folder / "scored").unlink(missing_ok=True)
        return sorted(shards, key=int)

    def run(self, name: str, *, shared: bool = True, size: int = SIZE) -> tuple[Any, ...]:
        """Return record and samples of a run."""
        call = {"tasks": "shared", "include_path": [self.folder]}
        execution = Execution(folder=self.folder / "results", shard_rows=size) if shared else IN_PROCESS
        return run_in_shards(call, self.folder / name, execution)

    def results(self) -> list[Path]:
        return sorted(file for file in (self.folder / "results").rglob("*") if file.is_file())


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(metrics._entries, "noted", Noted)
    monkeypatch.setattr(Noted, "folder", tmp_path, raising=False)
    rows = [{"candidate": f"a dog {n}", "references": [f"one dog {n % 5}"], "rating": n % 4} for n in range(ROWS)]
    yield Runs(write_task(tmp_path, rows, UNSEEN | {"task": "shared", "metric_list": ["noted", "cider"]}))


FIRST = [str(row) for row in range(0, ROWS, SIZE)]


def test_run_of_one_shard_is_shared_as_well(runs: Runs):
    alone = runs.run("alone", shared=False)
    assert runs.begun() == ["0"]
    assert runs.run("one", size=ROWS) == alone
    assert runs.begun() == ["0"]
    assert runs.run("two", size=ROWS) == alone
    assert runs.begun() == []


def test_shard_that_is_another_is_computed_and_the_others_are_not(runs: Runs):
    runs.run("one")
    runs.begun()
    file = runs.folder / "rows.jsonl"
    file.write_text(file.read_text().replace("a dog 20", "a cat 20"))
    runs.run("two")
    assert runs.begun() == [str(20 // SIZE * SIZE)]


def test_damaged_results_are_made_again(runs: Runs):
    alone = runs.run("one")
    runs.begun()
    for file in runs.results():
        file.write_bytes(file.read_bytes()[:-1])
    assert runs.run("two") == alone
    assert runs.begun() == FIRST
    assert runs.run("three") == alone
    assert runs.begun() == []


class Stumbling(Picky):
    """Fails where a file says so."""

    folder: Path

    def score(self, items: Items, context: Context) -> Scores:
        if (self.folder / "stumble").exists() and "8" in items.ids:
            raise RuntimeError("it stumbled")
        return super().score(items, context)


def test_shard_on_which_a_metric_failed_is_made_again(runs: Runs, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(metrics._entries, "noted", Stumbling)
    monkeypatch.setattr(Stumbling, "folder", runs.folder, raising=False)
    (runs.folder / "stumble").touch()
    failed, *_ = runs.run("one")
    assert [failure["count"] for failure in failed["failures"]] == [SIZE]
    (runs.folder / "stumble").unlink()
    whole, *_ = runs.run("two")
    assert whole["failures"] == []
