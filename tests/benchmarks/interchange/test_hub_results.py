"""The data set that is put on the hub: read by ``datasets``, sent to a server that speaks the hub's API."""

import json
from dataclasses import replace

import pyarrow
import pyarrow.parquet
import pytest
from datasets import load_dataset
from hub_server import Hub, served_hub
from huggingface_hub import constants
from task_keys import AGREEMENT

from capbench.benchmarks.api import evaluate
from capbench.benchmarks.interchange.hub_results import push, write_dataset
from capbench.benchmarks.records.reading import find_records, read_task_runs
from capbench.benchmarks.records.record import Record
from capbench.benchmarks.tables.results import flat_rows
from capbench.errors import DataError

TASK = {**AGREEMENT, "doc_to_id": "id", "doc_to_image": "id", "metric_list": ["rouge_l", "bleu_1"]}


@pytest.fixture
def runs(tmp_path):
    """Return the runs of two tasks, the first run twice with other metrics."""
    rows = [
        {"id": f"r{n}", "candidate": "a dog" + " runs" * n, "references": ["a dog runs"], "rating": n % 3}
        for n in range(4)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name in ("first", "second"):
        (tmp_path / f"{name}.yaml").write_text(json.dumps({"task": name, **TASK}))
    for tasks, metrics in (("first,second", []), ("first", ["length"])):
        evaluate(tasks=tasks, metrics=metrics, include_path=[tmp_path], output_path=tmp_path / "runs", resamples=0)
    files, missing = find_records([tmp_path / "runs"])
    assert missing == []
    task_runs, bad = read_task_runs(files)
    assert (len(task_runs), bad) == (3, [])
    return task_runs


@pytest.fixture
def folder(tmp_path):
    """Return an empty folder for a data set."""
    (tmp_path / "data_set").mkdir()
    return tmp_path / "data_set"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """A hub that takes commits of one token."""
    with served_hub(tmp_path / "on_the_hub") as served:
        served.tokens = {"hf_a_token_of_the_test": set()}
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", served.address)
        monkeypatch.setenv("HF_TOKEN", "hf_a_token_of_the_test")
        yield served


def test_datasets_reads_what_is_written(runs, folder, tmp_path):
    assert write_dataset(runs, folder, "me/results", samples=True) == []
    cache = str(tmp_path / "cache")
    results = load_dataset(str(folder), split="train", cache_dir=cache)
    assert results.to_list() == [
        {**row, "date": row["date"].replace(microsecond=row["date"].microsecond // 1000 * 1000)}
        for row in flat_rows(runs)
    ]
    samples = load_dataset(str(folder), "samples_first", split="train", cache_dir=cache)
    assert len(samples) == 8
    assert samples["candidate"] == [*["a dog", "a dog runs", "a dog runs runs", "a dog runs runs runs"] * 2]
    # A metric that a run went without is null in its rows.
    assert [value is None for value in samples["rouge_l"]] == [value is not None for value in samples["length"]]
    assert set(samples["fingerprint"]) == {run.record.fingerprint for run in runs if run.record.task == "first"}


def test_without_samples_no_caption_leaves_the_machine(runs, folder):
    write_dataset(runs, folder, "me/results")
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "results.parquet"]


def test_samples_of_data_that_may_not_be_passed_on_stay_here(runs, folder):
    closed = [
        replace(
            run,
            record=Record({**run.record.values, "redistribution": "scores" if run.record.task == "first" else "full"}),
        )
        for run in runs
    ]
    without = write_dataset(closed, folder, "me/results", samples=True)
    assert [bad.place for bad in without] == [str(run.folder) for run in runs if run.record.task == "first"]
    assert "may not be redistributed" in without[0].reason
    assert not (folder / "samples_first.parquet").exists()
    assert pyarrow.parquet.read_table(folder / "samples_second.parquet").num_rows == 4
    # The values themselves are ours to give.
    assert set(pyarrow.parquet.read_table(folder / "results.parquet")["task"].to_pylist()) == {"first", "second"}


@pytest.mark.parametrize("private", [True, False])
def test_hub_receives_a_repository_and_one_commit(runs, hub: Hub, private: bool):
    address, without = push(runs, "me/results", private, samples=True)
    assert without == []
    repository = hub.repositories["dataset", "me/results"]
    ((commit, files),) = repository.commits.items()
    assert (address, repository.private) == (f"{hub.address}/datasets/me/results/commit/{commit}", private)
    assert sorted(files) == ["README.md", "results.parquet", "samples_first.parquet", "samples_second.parquet"]
    table = pyarrow.parquet.read_table(files["results.parquet"].path)
    assert table["fingerprint"].to_pylist() == [row["fingerprint"] for row in flat_rows(runs)]


def test_refusal_of_the_hub_is_an_error_without_the_token(runs, hub: Hub):
    hub.fault(403)
    with pytest.raises(DataError) as caught:
        push(runs, "me/results", private=True, samples=False)
    assert "me/results" in caught.value.message
    assert "403" in caught.value.message
    assert "the token may write" in caught.value.hint
    assert "hf_a_token" not in str(caught.value)


def test_hub_that_is_not_there_and_names_that_it_does_not_take_are_errors(runs, hub, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(DataError, match="HFValidationError"):
        push(runs, "me/re sults/", private=True, samples=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match="OfflineModeIsEnabled"):
        push(runs, "me/results", private=True, samples=False)
    assert not hub.repositories


def test_missing_token_is_told_before_anything_is_sent(runs, hub, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no_token"))
    with pytest.raises(DataError, match=r"no token.*\n.*HF_TOKEN"):
        push(runs, "me/results", private=True, samples=False)
    assert not hub.repositories
