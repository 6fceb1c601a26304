"""What ``--log_to`` gives wandb, Trackio and TensorBoard, each without a network, and read back from its own files."""

import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from task_keys import AGREEMENT

from capbench.benchmarks.api import evaluate
from capbench.benchmarks.interchange.trackers import log_run, require_tracker
from capbench.benchmarks.records.task_run import TaskRun
from capbench.errors import DataError, UsageError

KEY = "5e1f" * 10


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskRun:
    rows = [
        {"id": f"r{n}", "candidate": "a dog" + " runs" * n, "references": ["a dog runs"], "rating": n % 3}
        for n in range(4)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = {"task": "small", **AGREEMENT, "doc_to_id": "id", "doc_to_image": "id", "metric_list": ["rouge_l"]}
    (tmp_path / "small.yaml").write_text(json.dumps(task))
    monkeypatch.chdir(tmp_path)
    return evaluate(tasks="small", include_path=[tmp_path], output_path=tmp_path / "runs", resamples=0)["small"]


def events_of(run: TaskRun) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.folder))
    events.Reload()
    return events


@pytest.mark.costly
def test_tensorboard_reads_values_settings_and_tables_from_the_folder_of_the_run(run: TaskRun):
    log_run(run, "tensorboard")
    events = events_of(run)
    (result,) = run.results
    assert events.Tags()["scalars"] == [result.key]
    assert events.Scalars(result.key)[0].value == pytest.approx(result.value)
    texts = {tag: events.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in events.Tags()["tensors"]}
    assert run.record.fingerprint in texts["settings/text_summary"]
    assert str(result.value) in texts["results/text_summary"]
    assert "a dog runs runs" in texts["samples/text_summary"]


@pytest.mark.costly
def test_texts_that_may_not_be_redistributed_are_not_logged(run: TaskRun):
    record = run.record.model_copy(update={"redistribution": "scores"})
    log_run(replace(run, record=record), "tensorboard")
    assert sorted(events_of(run).Tags()["tensors"]) == ["results/text_summary", "settings/text_summary"]


@pytest.mark.costly
def test_command_logs_to_wandb_offline_with_no_key_and_prints_the_table_alone(run: TaskRun, tmp_path: Path):
    words = "run --task small --include_path . --format csv --log_to wandb"
    # 'make setup' installs it there.
    library = str(Path(sys.prefix, "wandb"))
    done = subprocess.run(
        [Path(sys.executable).with_name("bench"), *words.split()],
        env={**os.environ, "WANDB_MODE": "offline", "WANDB_API_KEY": KEY, "PYTHONPATH": library},
        capture_output=True,
        text=True,
        check=True,
    )
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    tables = {path.name.split("_")[0]: json.loads(path.read_text()) for path in tmp_path.rglob("*.table.json")}
    (logged,) = (dict(zip(tables["results"]["columns"], row, strict=True)) for row in tables["results"]["data"])
    assert logged["value"] == float(row["value"]) == run.results[0].value
    candidate = tables["samples"]["columns"].index("candidate")
    assert [row[candidate] for row in tables["samples"]["data"]] == run.samples.column("candidate").to_pylist()
    (log,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert logged["fingerprint"].encode() in log.read_bytes()
    assert (
        "small: logged to wandb: project 'capbench', run 'small no-model', 1 value, results, samples\n" in done.stderr
    )
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


@pytest.mark.costly
def test_trackio_keeps_values_settings_and_tables_on_this_machine(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    # 'make setup' installs it there.
    monkeypatch.syspath_prepend(Path(sys.prefix, "trackio"))
    log_run(run, "trackio")
    assert capsys.readouterr().out == ""
    with sqlite3.connect(tmp_path / "trackio" / "capbench.db") as database:
        ((name, logged),) = database.execute("SELECT run_name, metrics FROM metrics").fetchall()
        ((settings,),) = database.execute("SELECT config FROM configs").fetchall()
    (result,) = run.results
    values = json.loads(logged)
    assert name == "small no-model"
    assert values[result.key] == result.value
    assert [row["id"] for row in values["samples"]["_value"]] == ["r0", "r1", "r2", "r3"]
    assert json.loads(settings)["fingerprint"] == run.record.fingerprint


def test_tracker_that_cannot_log_is_named(run: TaskRun, tmp_path: Path):
    with pytest.raises(DataError, match="not logged to tensorboard: FileExistsError"):
        log_run(replace(run, folder=tmp_path / "small.yaml"), "tensorboard")


def test_tracker_that_is_not_installed_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UsageError, match=r"wandb needs the package.*\npip install 'capbench\[wandb\]'$"):
        require_tracker("wandb")
