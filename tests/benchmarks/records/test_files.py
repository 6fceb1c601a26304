"""Records of runs: what run.json and samples.parquet hold, and what is said of files that are neither."""

import hashlib
import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow.parquet
import pytest
from in_shards import Broken
from own_entries import own_entries

import capbench
from capbench.adapters import ImageHandle
from capbench.benchmarks.records.files import require_files, write_run
from capbench.benchmarks.records.hashes import DataHash, plain, verify
from capbench.benchmarks.records.reading import find_records
from capbench.benchmarks.records.record import Record
from capbench.benchmarks.records.schema import SCHEMA_PATH
from capbench.benchmarks.records.task_run import TaskRun
from capbench.errors import DataError, TaskError
from capbench.metrics import Context, Items, Metric, Scores, metrics

TASK = """
task: small
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
output_type: agreement
doc_to_id: id
doc_to_image: image
doc_to_candidate: candidate
doc_to_human: rating
metric_list: [length]
statistics: [kendall_b, pearson]
metadata: {version: 1.0, published: 2024-05-01, weight: .nan}
"""


class Picky(Metric):
    """Has no score for captions of one word, nor a plain number among its settings."""

    label = "Picky"
    source = "here"

    def __init__(self, threshold: int = 1, folder: str = "a") -> None:
        self.threshold = np.int64(threshold)
        self.folder = Path(folder)

    def score(self, items: Items, context: Context) -> Scores:
        counts = [len(candidate.split()) for candidate in items.candidates]
        failures = {n: "is too short" for n, count in enumerate(counts) if count <= self.threshold}
        return Scores(np.array([math.nan if n in failures else c for n, c in enumerate(counts)]), failures=failures)


_user_metrics = own_entries(metrics, broken=Broken, picky=Picky)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a task: captions of 1, 1, 2, 3 and 4 words (the first two are one item), and a bad one."""
    rows: list[dict[str, Any]] = [
        {"id": f"s{n}", "image": max(n, 1), "candidate": "word " * max(n, 1), "rating": rating}
        for n, rating in enumerate([2, 1, 2, 4, 3])
    ]
    rows.append({"id": "bad", "image": 9, "candidate": "", "rating": 1})
    (tmp_path / "rows.jsonl").write_text("\n".join([*map(json.dumps, rows), "{broken"]))
    (tmp_path / "small.yaml").write_text(TASK)
    return tmp_path


def run(folder: Path, *names: str, **settings: Any) -> TaskRun:
    arguments = {"resamples": 20, "output_path": folder / "runs"} | settings
    return capbench.evaluate(tasks=["small"], metrics=names, include_path=[folder], **arguments)["small"]


def written(task_run: TaskRun) -> str:
    assert task_run.folder is not None
    return (task_run.folder / "run.json").read_text(encoding="utf-8")


def test_record_has_no_nan_and_follows_its_schema(folder: Path):
    text = written(run(folder, "length", "picky", "broken"))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in run.json")

    record = json.loads(text, parse_constant=refuse)
    jsonschema.validate(record, json.loads(SCHEMA_PATH.read_text(encoding="utf-8")))
    assert record["configs"]["small"]["metadata"] == {"version": 1.0, "published": "2024-05-01", "weight": "nan"}
    assert record["fingerprint_parts"]["metrics"]["picky"]["threshold"] == 1
    assert "intervals" not in record["fingerprint_parts"]["settings"]
    assert record["results"]["small"]["broken.kendall_b,none"] is None


def test_numbers_of_a_metric_are_over_the_rows_that_it_scored(folder: Path):
    done = run(folder, "picky")
    assert {result.n for result in done.results} == {3}
    # Of 2, 3, 4 words rated 2, 4, 3: two concordant pairs of three.
    assert done.results[0].value == pytest.approx(1 / 3)


def test_names_and_texts_do_not_change_the_fingerprint(folder: Path):
    first = run(folder).record.fingerprint
    text = TASK.replace("task: small", "task: small\ndescription: Another text.\ntask_alias: Another\nscale: 100")
    (folder / "small.yaml").write_text(text)
    assert run(folder).record.fingerprint == first


@pytest.mark.parametrize("settings", [{"seed": 1}, {"resamples": 21}, {"limit": 4}], ids=str)
def test_settings_that_move_a_number_change_the_fingerprint(folder: Path, settings: dict[str, int]):
    assert run(folder, **settings).record.fingerprint != run(folder).record.fingerprint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[length]", "[picky]"),
        ("[length]", "[{metric: picky, threshold: 2}]"),
        ("[length]", "[{metric: picky, folder: b}]"),
        ("kendall_b, ", ""),
        ("version: 1.0", "version: 1.1"),
        ("doc_to_human: rating", "doc_to_human: rating\nprotocol: {raters: mean}"),
    ],
)
def test_choices_of_the_task_change_the_fingerprint(folder: Path, old: str, new: str):
    seen = {run(folder).record.fingerprint, run(folder, "picky").record.fingerprint}
    assert old in TASK
    (folder / "small.yaml").write_text(TASK.replace(old, new))
    changed = run(folder).record.fingerprint
    # Naming picky on the command line is the same run as listing it in the task.
    assert (changed in seen) == (new == "[picky]")


@pytest.mark.parametrize("column", ["candidate", "rating", "image"])
def test_data_changes_the_fingerprint(folder: Path, column: str):
    first = run(folder).record.fingerprint
    row = {"id": "s0", "image": 1, "candidate": "word ", "rating": 2} | {column: "5"}
    lines = (folder / "rows.jsonl").read_text().splitlines()
    (folder / "rows.jsonl").write_text("\n".join([json.dumps(row), *lines[1:]]))
    assert run(folder).record.fingerprint != first


def test_other_images_have_another_hash_in_whatever_pieces_they_come(tmp_path: Path):
    def hash_of(*pieces: str) -> str | None:
        whole = DataHash()
        for piece in pieces:
            images = [ImageHandle(tmp_path / name) for name in piece if (tmp_path / name).write_text(name)]
            whole.add_images(Items(piece, piece, [()] * len(piece), np.ones(len(piece)), images))
        return whole.images

    assert hash_of("abc") == hash_of("a", "bc", "ab") != hash_of("abd")


@pytest.mark.parametrize("name", ["../../elsewhere", "..", "a/b", "/etc/task"])
def test_task_whose_name_leads_out_of_the_folder_of_runs_is_refused(folder: Path, name: str):
    (folder / "small.yaml").write_text(TASK.replace("task: small", f"task: {name}"))
    with pytest.raises(TaskError, match="a name holds letters, digits"):
        capbench.evaluate(tasks=[name], include_path=[folder], output_path=folder / "deep" / "runs")


def test_runs_of_one_second_do_not_share_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time, "time", lambda: 1.5e9)
    runs = [run(folder, log_samples=content) for content in ("full", "scores", "none")]
    assert len({done.folder for done in runs}) == 3
    read = [capbench.load_run(done.folder or "")["small"].record for done in runs]
    assert [record.samples for record in read] == ["full", "scores", "none"]
    assert len(list((folder / "runs").rglob("samples.parquet"))) == 2


def test_file_in_place_of_the_folder_is_an_error_before_the_work(folder: Path):
    (folder / "taken").write_text("")
    finished: list[object] = []
    with pytest.raises(DataError, match=r"cannot be written.*\nName another folder with --output_path.$"):
        run(folder, output_path=folder / "taken", on_finish=finished.append)
    assert finished == []


# --- what was changed by hand


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("results", "small", "length.kendall_b,none"), 0.99),
        (("intervals", "length.kendall_b", "low"), math.nan),
        (("checksum",), "0" * 64),
        (("added",), 1),
    ],
)
def test_changed_value_is_noticed_by_the_checksum(folder: Path, keys: tuple[str, ...], value: Any):
    record = json.loads(written(run(folder)))
    place = record
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    assert verify(record) == "its checksum does not match its content"


def test_number_that_json_does_not_have_is_noticed_even_under_its_checksum(folder: Path):
    record = json.loads(written(run(folder))) | {"added": math.inf}
    del record["checksum"]
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    record["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    assert verify(record) == "its checksum does not match its content"


def test_record_without_a_checksum_is_held_against_its_fingerprint(folder: Path):
    record = json.loads(written(run(folder)))
    del record["checksum"]
    assert verify(record) is None
    record["fingerprint_parts"]["settings"]["seed"] = 2
    assert verify(record) == "its fingerprint does not match its fingerprint_parts"


def test_run_that_was_edited_is_not_loaded(folder: Path):
    done = run(folder)
    assert done.folder is not None
    text = written(done).replace('"model_name": null', '"model_name": "better"')
    (done.folder / "run.json").write_text(text)
    with pytest.raises(DataError, match="was edited by hand: its checksum does not match its content"):
        capbench.load_run(done.folder)


def test_samples_that_were_changed_are_not_read(folder: Path):
    done = run(folder)
    assert done.folder is not None and done.record.protocol_choices["empty_caption"] == "zero"
    path = done.folder / "samples.parquet"
    read = capbench.load_run(done.folder)["small"]
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(path).slice(1), path)
    with pytest.raises(DataError, match="was changed after the run") as caught:
        read.samples  # noqa: B018
    assert caught.value.message.startswith(f"{path}: ")
    assert "'bench verify' lists all errors" in str(caught.value)
    with pytest.raises(DataError, match="was changed after the run"):
        require_files(done.folder, read.record)
    # Samples that may not be passed on are missing where a run was.
    path.unlink()
    require_files(done.folder, read.record)


# --- written whole, or not at all

_WRITE_UNTIL_KILLED = """
import os, signal, sys
from pathlib import Path
import capbench

replace = Path.replace
def killed(self, target):
    if "no-model" in target.parts:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(self, target)
Path.replace = killed
capbench.evaluate(tasks=["small"], include_path=[sys.argv[1]], resamples=0, output_path=sys.argv[1] + "/runs")
"""


def killed_while_writing(folder: Path) -> Path:
    """Kill a process as it is about to name the run that it has written; return what it left."""
    done = subprocess.run([sys.executable, "-c", _WRITE_UNTIL_KILLED, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = (folder / "runs/small/no-model").iterdir()
    return left


def test_kill_leaves_no_half_run_and_the_next_run_removes_what_it_left(folder: Path):
    left = killed_while_writing(folder)
    assert re.fullmatch(r"\.draft-[\w.]+-\d+-[0-9a-f]{8}", left.name)
    assert (left / "run.json").is_file()
    assert find_records([folder / "runs"])[0] == []

    done = run(folder)

    assert done.folder is not None
    assert list((folder / "runs/small/no-model").iterdir()) == [done.folder]
    assert {path.name for path in (folder / "runs").iterdir()} == {"small"}


def test_run_that_cannot_be_written_leaves_nothing(folder: Path):
    done = run(folder)
    with pytest.raises(DataError, match="cannot be written"):
        write_run(folder / "more", done.record, {"samples.parquet/no": b"", "samples.parquet": b""})
    assert list((folder / "more").rglob("*-*")) == [folder / "more/small/no-model"]


@pytest.mark.parametrize("letter", ["m", "é"])
def test_name_of_a_model_that_no_folder_can_have_is_cut_and_stays_its_own(folder: Path, letter: str):
    task_run = run(folder)
    names = [letter * 300 + end for end in ("a", "b")]
    folders = [write_run(folder / "long", Record({**task_run.record.values, "model_name": name}), {}) for name in names]
    assert len({folder.parent for folder in folders}) == 2
    for path, name in zip(folders, names, strict=True):
        assert len(path.parent.name) < 143
        assert json.loads((path / "run.json").read_text(encoding="utf-8"))["model_name"] == name


# --- reading


def test_values_that_json_does_not_have_become_text():
    values = {"path": Path("a/b"), 1: (np.float64(0.5), np.int64(3)), "inf": math.inf, "text": "\ud83d"}
    assert plain(values) == {"path": "a/b", "1": [0.5, 3], "inf": "inf", "text": "\\ud83d"}
    assert plain([None, True, 2, 2.5, "τ"]) == [None, True, 2, 2.5, "τ"]
