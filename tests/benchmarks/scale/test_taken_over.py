"""A run that is killed and started again: what was done is not done again, and the result is the same."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from in_shards import note, notes, run_in_shards

from capbench.benchmarks.running.execution import Execution
from capbench.benchmarks.scale.executors import LocalExecutor
from capbench.metrics import Context, Items, Metric, Scores, metrics

pytestmark = pytest.mark.costly

ROWS, SIZE = 48, 4
TASK = {
    "task": "many",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": "rows.jsonl"},
    "output_type": "agreement",
    "doc_to_candidate": "candidate",
    "doc_to_target": "references",
    "doc_to_human": "rating",
    "metric_list": ["noted", "cider"],
    "statistics": ["kendall_b"],
    "metadata": {"version": 1.0},
}


class Noted(Metric):
    """Writes down the first item of what it scores; slow where a file says so."""

    label = "Noted"
    source = "a package of one's own"
    range = (0.0, float("inf"))

    def score(self, items: Items, context: Context) -> Scores:
        folder = Path(os.environ["NOTED"])
        if (folder / "slow").exists():
            time.sleep(0.05)
        note(folder / "scored", items.ids[0])
        return Scores(np.array([float(len(text)) for text in items.candidates]))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a task."""
    things = ["dog", "boat", "child", "horse", "street"]
    rows = [
        {
            "candidate": f"a {things[n % 5]} beside a {things[n // 5 % 5]} {n}",
            "references": [f"one {things[n % 5]} next to a {things[n // 3 % 5]}"],
            "rating": n % 4,
        }
        for n in range(ROWS)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "many.yaml").write_text(json.dumps(TASK))
    monkeypatch.setitem(metrics._entries, "noted", Noted)
    monkeypatch.setenv("NOTED", str(tmp_path))
    return tmp_path


def run(folder: Path, processes: int, size: int = SIZE) -> tuple[Any, Any]:
    execution = Execution(LocalExecutor(processes) if processes > 1 else None, shard_rows=size)
    record, samples, _ = run_in_shards({"tasks": "many", "include_path": [folder]}, folder / "runs", execution)
    return record, samples


@pytest.mark.parametrize(("processes", "in_flight"), [(1, 1), (2, 2)])
def test_killed_run_is_finished_by_the_next(folder: Path, processes: int, in_flight: int):
    (folder / "slow").touch()
    first = forked.start(lambda: run(folder, processes))
    while len(notes(folder / "scored")) < 4:
        assert os.waitpid(first, os.WNOHANG) == (0, 0)
        time.sleep(0.01)
    os.kill(first, signal.SIGKILL)
    assert forked.end_of(first) == -signal.SIGKILL
    # Workers end with it.
    time.sleep(0.5)
    assert len(set(notes(folder / "scored"))) < ROWS // SIZE, "the run was not caught half way"
    (folder / "slow").unlink()

    found = run(folder, processes)
    scored = Counter(notes(folder / "scored"))
    assert set(scored) == {str(row) for row in range(0, ROWS, SIZE)}
    assert sum(scored.values()) <= ROWS // SIZE + in_flight
    # Nothing is left of what was put aside.
    unfinished = Path(os.environ["BENCH_CACHE"]) / "unfinished"
    assert list(unfinished.iterdir()) == []

    # Undisturbed, in one piece.
    assert found == run(folder, 1, 10_000)
