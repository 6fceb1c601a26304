"""A run that is killed half way is finished by the next one, without doing finished work again."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil

import capbench
from capbench.benchmarks.store.store import Store

ROWS = 6000
COMMAND = """\
from capbench.cli.main import program
from capbench.metrics import contract
# Each batch, so that the run can be caught after one.
contract._KEEP_SECONDS = 0.0
program()
"""
TASK = """\
task: many
dataset_path: json
dataset_kwargs: {data_files: many.jsonl}
output_type: agreement
doc_to_candidate: candidate
doc_to_target: references
doc_to_human: rating
metric_list: [meteor]
statistics: [kendall_b]
metadata: {version: 1.0}
"""


def write_task(folder: Path) -> None:
    things = ["dog", "boat", "child", "horse", "street", "table", "river", "train", "tree", "bird"]
    with (folder / "many.jsonl").open("w") as file:
        for n in range(ROWS):
            a, b, c = things[n % 10], things[n // 10 % 10], things[n // 100 % 10]
            row = {
                "candidate": f"a {a} number {n} stands beside the {b} and looks at a {c}",
                "references": [f"one {a} is standing next to a {b}", f"a {c} seen by a {a} near some {b}s {n}"],
                "rating": n % 5,
            }
            file.write(json.dumps(row) + "\n")
    (folder / "many.yaml").write_text(TASK)


def meteor_entries(store: Path) -> int:
    if not store.is_file():
        return 0
    query = "SELECT COUNT(*) FROM entries JOIN producers ON producer = id WHERE fingerprint LIKE '%meteor%'"
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=30)) as db:
        try:
            return db.execute(query).fetchone()[0]
        except sqlite3.OperationalError:  # the tables are not there yet
            return 0


def test_killed_run_is_finished_by_the_next_without_computing_finished_batches_again(tmp_path: Path):
    write_task(tmp_path)
    store = tmp_path / "store.sqlite"
    command = [sys.executable, "-c", COMMAND, "run", "--task", "many"]
    command += ["--include_path", str(tmp_path), "--store", str(store), "--output_path", str(tmp_path / "runs")]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=tmp_path)
    children: list[psutil.Process] = []
    deadline = time.monotonic() + 120
    while meteor_entries(store) == 0:
        assert first.poll() is None, first.stderr and first.stderr.read().decode()
        assert time.monotonic() < deadline
        children = psutil.Process(first.pid).children(recursive=True) or children
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    finished = meteor_entries(store)
    assert 0 < finished < ROWS, "the run was not caught half way"
    assert not list((tmp_path / "runs").rglob("run.json"))
    with Store(store) as opened:
        assert opened.verify() == []

    run = capbench.evaluate(None, ["many"], include_path=[tmp_path], store=store, resamples=0)
    record = run["many"].record
    assert record.documents.effective == ROWS
    assert record.metric_errors == {}
    meteor_computed = meteor_entries(store) - finished
    assert meteor_computed == ROWS - finished
    assert record.store["computed"] == meteor_computed
    assert record.store["found"] >= finished

    again = capbench.evaluate(None, ["many"], include_path=[tmp_path], store=store, resamples=0)
    assert again["many"].record.store["computed"] == 0
    assert again["many"].record.results == record.results

    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive, f"processes outlive the killed run: {alive}"
