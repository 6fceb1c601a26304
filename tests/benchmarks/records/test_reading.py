"""Reading records: what is no record is named with its place, and costs no other."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from finished_runs import make_record, write_record

from capbench.benchmarks.records.reading import read_record, read_task_run, read_task_runs
from capbench.errors import DataError


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot be read as a run: it is no JSON that can be used"),
        ('{"schema_version": NaN}', "NaN is no number of JSON"),
        ("[" * 100_000, "it is no JSON that can be used"),
        ('{"schema_version": 1, "task": "\\ud800"}', "it is no JSON that can be used"),
        ('{"schema_version": 1, "task": "\\uDFFF"}', "it is no JSON that can be used"),
        ("[1]", "is not a run record of capbench (it has no schema_version)"),
        ('{"schema_version": true}', "it has no schema_version"),
        ('{"schema_version": 2}', "has schema version 2, this capbench knows 1"),
        ('{"schema_version": 1}', "is not a whole record of a run: the record has no 'task'"),
    ],
)
def test_what_is_no_record_is_named_with_its_file(tmp_path: Path, text: str, reason: str):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(DataError, match=re.escape(reason)) as caught:
        read_record(tmp_path)
    assert caught.value.message.startswith(f"{tmp_path / 'run.json'}: ")


def test_record_of_a_newer_capbench_is_to_be_read_by_that(tmp_path: Path):
    folder = write_record(tmp_path, "run", make_record(schema_version=2))
    with pytest.raises(DataError) as caught:
        read_record(folder)
    assert caught.value.hint == "Update capbench."


def _cut(record: dict[str, Any]) -> None:
    del record["intervals"]["cider.kendall_b"]["label"]


def _rename(record: dict[str, Any]) -> None:
    record["task"] = "other"


def _text(record: dict[str, Any]) -> None:
    record["published"] = {"cider.kendall_b": {"value": "0.4"}}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_cut, "/intervals/cider.kendall_b has no 'label'"),
        (_rename, "/results has no 'other'"),
        (_text, "/published/cider.kendall_b/value: input should be a number between -1e100 and 1e100"),
    ],
)
def test_record_of_a_wrong_inner_shape_costs_itself_alone(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], fault: str
):
    bad = make_record()
    change(bad)
    files = [write_record(tmp_path, "bad", bad) / "run.json", write_record(tmp_path, "good", make_record())]
    (run,), (error,) = read_task_runs(files)
    assert run.folder == tmp_path / "good"
    assert error.message == f"{files[0]}: is not a whole record of a run: {fault}"


def test_keys_that_a_later_capbench_adds_are_kept(tmp_path: Path):
    made = make_record(something={"new": [1]})
    assert read_record(write_record(tmp_path, "later", made)).values == json.loads(json.dumps(made))


def test_run_is_read_with_its_samples_when_they_are_asked_for(tmp_path: Path):
    with_samples = read_task_run(write_record(tmp_path, "one", make_record(), {"id": ["a"], "cider": [0.5]}))
    assert with_samples.samples.to_pydict() == {"id": ["a"], "cider": [0.5]}
    assert [result.metric for result in with_samples.results] == ["cider", "bleu_1"]
    without = read_task_run(write_record(tmp_path, "two", make_record()) / "run.json")
    assert without.folder == tmp_path / "two"
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'two'}: has no samples.parquet")) as caught:
        _ = without.samples
    assert "--no-log_samples" in caught.value.hint
    (tmp_path / "two/samples.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read as the samples of a run"):
        _ = without.samples
