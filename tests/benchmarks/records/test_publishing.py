"""What may be passed on: records without paths of the machine, and runs with scores alone."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow.parquet
import pytest
from own_entries import own_entries
from task_keys import AGREEMENT

import capbench
from capbench.benchmarks.records.hashes import verify
from capbench.benchmarks.records.publishing import origin_name, sample_content, unquoted, without_folders
from capbench.benchmarks.records.schema import SCHEMA_PATH
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.tables.results import render
from capbench.errors import UsageError
from capbench.metrics import Context, Items, Metric, Scores, metrics


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/me/captions.jsonl", "captions.jsonl"),
        ("/home/me/my data/a b.jsonl", "a b.jsonl"),
        ("captions:/home/me/a.jsonl", "captions:a.jsonl"),
        ("TypeError (/usr/lib/python3/x.py:57)", "TypeError (x.py:57)"),
        ("m[idf=/data/train.json,beta=1]", "m[idf=train.json,beta=1]"),
        ("file:///home/me/a.txt is gone", "a.txt is gone"),
        ("C:\\Users\\me\\a.txt", "a.txt"),
        ("/data/a.json, /data/b.json", "a.json, b.json"),
    ],
)
def test_last_part_stands_for_a_path(text: str, expected: str):
    assert without_folders(text) == expected


@pytest.mark.parametrize(
    "text",
    ["org/model", "https://example.org/a/b", "http://host:8000/v1/chat", "{{subset}}/{{image}}", "and/or", "../x/y"],
)
def test_what_is_no_path_of_the_machine_stays(text: str):
    assert without_folders({text: [text, 1, None]}) == {text: [text, 1, None]}


def test_paths_that_differ_stay_different_where_they_must():
    first, other = (without_folders(path, distinct=True) for path in ("/a/x/model.pt", "/a/y/model.pt"))
    assert first != other
    assert first.startswith("model.pt#")
    assert without_folders("/a/x/model.pt", distinct=True) == first
    assert len(without_folders({"/a/x/m": 1, "/a/y/m": 2})) == 2


def test_origin_is_named_by_its_files_or_its_hub_id():
    assert origin_name("/gone/a.jsonl, /gone/b.jsonl") == "a.jsonl, b.jsonl"
    assert origin_name("nlphuji/flickr30k") == "nlphuji/flickr30k"


@pytest.mark.parametrize(
    ("reason", "stage", "expected"),
    [
        ("is not a number: 'a dog'", "rating", "is not a number"),
        ("its image holds 'unicorn', which is unknown", "", "its image holds …, which is unknown"),
        ("clair: the answer: 'a dog' has no number", "metric", "clair: the answer"),
        ('begins "a dog and is cut', "caption", "begins …"),
        ("the model is gone\nA dog.", "", "the model is gone"),
        ("is empty", "candidate", "is empty"),
    ],
)
def test_reasons_quote_nothing(reason: str, stage: str, expected: str):
    assert unquoted(reason, stage) == expected


def test_samples_are_asked_for_by_three_names_or_as_a_truth_value():
    assert [sample_content(value) for value in (True, False, "scores")] == ["full", "none", "scores"]
    with pytest.raises(UsageError, match="full, scores, none, True or False, not 'score'"):
        sample_content("score")


# --- of a run


class Quoting(Metric):
    """Says of a caption that it cannot score what stands in it."""

    label = "Quoting"
    source = "here"

    def __init__(self, words: str = "") -> None:
        self.words = words

    def score(self, items: Items, context: Context) -> Scores:
        failures = {n: f"cannot read: {text}" for n, text in enumerate(items.candidates) if "zebra" in text}
        return Scores(np.array([np.nan if n in failures else 1.0 + n for n in range(len(items))]), failures=failures)


class Failing(Quoting):
    """Fails as a whole, with a caption in its message."""

    label = "Failing"

    def score(self, items: Items, context: Context) -> Scores:
        raise ValueError(f"no such words: {items.candidates[0]}")


_user_metrics = own_entries(metrics, quoting=Quoting, failing=Failing)


SECRETS = ("zebra", "giraffe", "okapi", "much too good", "a lion sleeps", "7.25")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows: list[dict[str, Any]] = [
        {"image": "/photos/a/1.jpg", "candidate": "a zebra stands", "rating": 1},
        {"image": "/photos/a/2.jpg", "candidate": "a giraffe eats leaves", "rating": 2},
        {"image": "/photos/b/2.jpg", "candidate": "an okapi hides", "rating": 4},
        {"image": "/photos/b/3.jpg", "candidate": "an okapi runs", "rating": "much too good"},
        {"image": "/photos/b/4.jpg", "candidate": "an okapi sits", "rating": 7.25},
    ]
    rows = [{"id": f"r{n}", "references": ["a lion sleeps"], **row} for n, row in enumerate(rows)]
    (tmp_path / "rows.jsonl").write_text("\n".join([*map(json.dumps, rows), "{zebra"]))
    task = {
        **AGREEMENT,
        "task": "small",
        "dataset_kwargs": {"data_files": str(tmp_path / "rows.jsonl")},
        "doc_to_id": "id",
        "protocol": {"human_range": [1, 5]},
        "metric_list": ["length", "quoting", "failing"],
    }
    (tmp_path / "small.yaml").write_text(json.dumps(task))
    return tmp_path


def run(folder: Path, log_samples: Any, **options: Any) -> TaskRun:
    options = {"tasks": "small", "resamples": 20, "output_path": folder / "runs", **options}
    done = capbench.evaluate(include_path=[folder], log_samples=log_samples, **options)
    return done[options["tasks"]]


def test_name_that_is_the_last_part_of_another_ones_path_stays_its_own(folder: Path):
    rows = (folder / "rows.jsonl").read_text().splitlines()[:2]
    (folder / "rows.jsonl").write_text("\n".join(rows).replace("/photos/a/2.jpg", "1.jpg"))
    done = run(folder, "scores")
    assert done.folder is not None
    path, name = pyarrow.parquet.read_table(done.folder / "samples.parquet")["image"].to_pylist()
    assert (name, path[:6]) == ("1.jpg", "1.jpg#")


def everything_written(done: TaskRun) -> str:
    """Return all that lies in a run's folder, as text."""
    assert done.folder is not None
    texts = [(done.folder / "run.json").read_text(encoding="utf-8")]
    if (samples := done.folder / "samples.parquet").is_file():
        texts.append(json.dumps(pyarrow.parquet.read_table(samples).to_pylist()))
    return "\n".join(texts)


def test_run_with_scores_alone_holds_no_text_rating_or_reference(folder: Path):
    done = run(folder, "scores")
    text = everything_written(done)
    assert [secret for secret in SECRETS if secret in text] == []
    record = json.loads(text.partition("\n[{")[0])
    jsonschema.validate(record, json.loads(SCHEMA_PATH.read_text(encoding="utf-8")))
    assert record["samples"] == "scores"
    assert {(failure["stage"], failure["reason"]): failure["count"] for failure in record["failures"]} == {
        ("data", "not JSON"): 1,
        ("rating", "is not a number"): 1,
        ("rating", "lies outside 1-5"): 1,
        ("metric", "quoting: cannot read"): 1,
    }
    assert record["metric_errors"] == [{"metric": "failing", "reason": "ValueError"}]
    # All of it is in a run with everything, so that the test above can fail.
    full = everything_written(run(folder, "full"))
    assert [secret for secret in SECRETS if secret not in full] == []


def test_numbers_and_fingerprint_do_not_depend_on_what_is_written(folder: Path):
    runs = [run(folder, content).record.values for content in ("full", "scores", "none")]
    for key in ("results", "fingerprint", "histograms", "significance"):
        assert runs[0][key] == runs[1][key] == runs[2][key]
    assert len({run["checksum"] for run in runs}) == 3


@pytest.mark.parametrize("content", ["full", "scores", "none"])
def test_record_holds_no_path_of_the_machine(folder: Path, content: str):
    # Enough images for letters.
    more = ({"id": f"more{n}", "image": f"/photos/c/{n}.jpg", "candidate": "it", "rating": 1} for n in range(8))
    lines = [json.dumps({"references": ["a lion sleeps"], **row}) for row in more]
    (folder / "rows.jsonl").write_text("\n".join([*lines, (folder / "rows.jsonl").read_text()]))
    done = run(folder, content, metrics=[f"quoting[words={folder}/words.txt]", "length"])
    assert done.folder is not None
    text = (done.folder / "run.json").read_text(encoding="utf-8")
    assert str(folder) not in text
    assert "/photos" not in text
    record = json.loads(text)
    assert record["data_origin"] == "rows.jsonl"
    assert verify(record) is None
    (settings, _) = record["fingerprint_parts"]["metrics"].values()
    assert settings["words"].startswith("words.txt#")
    # The metric is called alike wherever it is named.
    assert "quoting[words=words.txt]" in done.samples.column_names
    assert set(record["significance"]["kendall_b"]["groups"]) == {"quoting[words=words.txt]", "length"}
    assert "Group" in render([done])
