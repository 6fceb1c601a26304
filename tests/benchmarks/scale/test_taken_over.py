"""A run that is killed and started again: what was done is not done again, and the result is the same."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from in_shards import notes
from task_keys import UNSEEN, write_task

pytestmark = pytest.mark.costly

ROWS, SIZE = 48, 4
METRIC = """
import os, time
from pathlib import Path
import numpy as np
from capbench.metrics import Metric, Scores
class Noted(Metric):
    label = "Noted"
    source = "a package of one's own"
    range = (0.0, float("inf"))
    def score(self, items, context):
        folder = Path(os.environ["NOTED"])
        if (folder / "slow").exists():
            time.sleep(0.05)
        with (folder / "scored").open("ab", buffering=0) as file:
            file.write(f"{items.ids[0]}\\n".encode())
        return Scores(np.array([float(len(text)) for text in items.candidates]))
"""
RUN = """
import json, sys
from pathlib import Path
from in_shards import run_in_shards
from capbench.benchmarks.running.execution import Execution
from capbench.benchmarks.scale.executors import LocalExecutor
folder, processes, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
if __name__ == "__main__":
    call = {"tasks": "many", "include_path": [str(folder)]}
    execution = Execution(LocalExecutor(processes) if processes > 1 else None, shard_rows=size)
    record, samples, _ = run_in_shards(call, folder / "runs", execution)
    print(json.dumps([record, samples]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a task, a metric of an installed package, and a program that runs the one by the other."""
    things = ["dog", "boat", "child", "horse", "street"]
    rows = [
        {
            "candidate": f"a {things[n % 5]} beside a {things[n // 5 % 5]} {n}",
            "references": [f"one {things[n % 5]} next to a {things[n // 3 % 5]}"],
            "rating": n % 4,
        }
        for n in range(ROWS)
    ]
    write_task(tmp_path, rows, UNSEEN | {"task": "many", "metric_list": ["noted", "cider"]})
    site = tmp_path / "site"
    info = site / "noted-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[capbench.metrics]\nnoted = noted:Noted\n")
    (site / "noted.py").write_text(METRIC)
    (tmp_path / "run.py").write_text(RUN)
    return tmp_path


def start(folder: Path, processes: int, size: int = SIZE) -> subprocess.Popen[str]:
    places = [str(folder / "site"), str(Path(__file__).parents[3]), *sys.path]
    return subprocess.Popen(
        [sys.executable, str(folder / "run.py"), str(folder), str(processes), str(size)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "NOTED": str(folder)},
    )


def result(process: subprocess.Popen[str]) -> Any:
    printed, said = process.communicate()
    assert process.returncode == 0, said
    return json.loads(printed.splitlines()[-1])


def test_killed_run_is_finished_by_the_next(folder: Path):
    (folder / "slow").touch()
    first = start(folder, 2)
    while len(notes(folder / "scored")) < 4:
        assert first.poll() is None, first.communicate()[1]
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert len(set(notes(folder / "scored"))) < ROWS // SIZE, "the run was not caught half way"
    (folder / "slow").unlink()

    outcome = result(start(folder, 2))
    scored = Counter(notes(folder / "scored"))
    assert set(scored) == {str(row) for row in range(0, ROWS, SIZE)}
    assert sum(scored.values()) <= ROWS // SIZE + 2
    # Nothing is left of what was put aside.
    unfinished = Path(os.environ["BENCH_CACHE"]) / "unfinished"
    assert list(unfinished.iterdir()) == []

    # Undisturbed, in one piece.
    assert outcome == result(start(folder, 1, 10_000))
