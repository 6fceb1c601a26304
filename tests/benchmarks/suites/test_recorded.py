"""Rows of a suite that are filled with scores computed elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capbench.benchmarks.cli.main import main
from capbench.benchmarks.suites.read import Suite, load_suite
from capbench.benchmarks.suites.recorded import with_recorded
from capbench.benchmarks.suites.run import run_suite
from capbench.benchmarks.suites.tables import render_suite
from capbench.errors import UsageError

RATED = [("a cat", 1), ("a dog", 2), ("a dog runs", 3), ("the dog runs fast", 4)]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """Two tasks of the same data, and rows of which two are of one metric."""
    rows = [
        {"image": f"images/{n}.jpg", "caption": text, "rating": rating}
        for n, (text, rating) in enumerate(RATED)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("small", "other"):
        task = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": "rows.jsonl"},
            "output_type": "agreement",
            "doc_to_image": "image",
            "doc_to_candidate": "caption",
            "doc_to_human": "rating",
            "metric_list": ["length"],
            "statistics": ["kendall_b"],
            "metadata": {"version": 1},
        }
        (tmp_path / f"{name}.yaml").write_text(json.dumps(task))
    columns = [
        {"task": "small", "printed": "Flickr8k-Expert", "statistics": ["kendall_b"]},
        {"task": "other", "printed": "Flickr8k-CF", "statistics": ["kendall_b"]},
    ]
    lines = [
        {"printed": "TIGEr", "needs": "not a metric of capbench"},
        {"metric": "length"},
        {"printed": "CLIP-S", "printed_model": "ViT-B/32", "needs": "weights"},
        {"printed": "CLIP-S", "printed_model": "ViT-L/14", "needs": "weights"},
    ]
    values = {
        "suite": "mine",
        "description": "",
        "paper": "pacspp",
        "table": 1,
        "columns": columns,
        "rows": lines,
    }
    return Suite.model_validate(values)


def put(folder: Path, task: str, name: str, sign: int = 1, rows: int = 4) -> Path:
    (folder / task).mkdir(parents=True, exist_ok=True)
    lines = [
        {"image": f"{n}.png", "caption": text, "score": sign * n} for n, (text, _) in enumerate(RATED[:rows])
    ]
    (folder / task / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_row_is_filled_where_a_file_is_called_after_it_and_task_and_the_rest_stays(
    tmp_path: Path, suite: Suite
):
    scores = put(tmp_path / "scores", "small", "TIGEr")
    put(scores, "small", "CLIP-S (ViT-B-32)", -1)
    put(scores, "small", "CLIP-S (ViT-L-14)", rows=3)
    put(scores, "other", "length", -1)
    run = run_suite(with_recorded(suite, scores), include_path=[tmp_path], resamples=0)
    found = {(one.label, one.head): one.result and one.result.value for one in run.cells}
    assert found == {
        ("TIGEr", "Flickr8k-Expert τ-b"): 1,
        ("TIGEr", "Flickr8k-CF τ-b"): None,
        ("length", "Flickr8k-Expert τ-b"): pytest.approx(0.9129, abs=1e-4),
        ("length", "Flickr8k-CF τ-b"): -1,
        ("CLIP-S (ViT-B/32)", "Flickr8k-Expert τ-b"): -1,
        ("CLIP-S (ViT-B/32)", "Flickr8k-CF τ-b"): None,
        ("CLIP-S (ViT-L/14)", "Flickr8k-Expert τ-b"): None,
        ("CLIP-S (ViT-L/14)", "Flickr8k-CF τ-b"): None,
    }
    reasons = {one.label: one.reason for one in run.cells if one.head.startswith("Flickr8k-Expert")}
    assert reasons["CLIP-S (ViT-L/14)"].startswith("3 of 4 rows have a score in CLIP-S (ViT-L-14).jsonl")
    lines = [line.split("|")[1].strip() for line in render_suite(run).splitlines() if line.startswith("|")]
    assert lines[2:] == ["TIGEr", "length", "CLIP-S (ViT-B/32)", "CLIP-S (ViT-L/14)"]


@pytest.mark.parametrize(
    ("task", "name", "message"),
    [
        ("smal", "TIGEr", r"'smal' is no task of suite 'mine'\. Did you mean 'small'"),
        ("small", "Tiger", r"called after a row of suite 'mine', and this is of none\. Did you mean 'TIGEr'"),
        ("small", "CLIP-S", r"this is of several: CLIP-S \(ViT-B-32\), CLIP-S \(ViT-L-14\)"),
    ],
)
def test_file_of_no_row_or_task_is_refused(tmp_path: Path, suite: Suite, task: str, name: str, message: str):
    with pytest.raises(UsageError, match=message):
        with_recorded(suite, put(tmp_path / "scores", task, name))


def test_folder_that_is_not_there_or_without_a_suite_is_refused(
    tmp_path: Path, suite: Suite, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(UsageError, match="there is no such folder"):
        with_recorded(suite, tmp_path / "none")
    assert main(["run", "--task", "iiw_400", "--recorded", str(tmp_path)]) == 2
    assert "fills rows of a --suite, and none was named" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["pacspp_table1", "pacspp_table2", "pacspp_table3", "pacspp_table5"])
def test_every_row_of_a_metric_that_capbench_does_not_have_can_be_filled(tmp_path: Path, name: str):
    suite = load_suite(name)
    lacking = [row for row in suite.rows if row.needs == "not a metric of capbench"]
    task = (lacking[0].only or [suite.columns[0].task])[0]
    for row in lacking:
        put(tmp_path, task, str(row.printed))
    filled = with_recorded(suite, tmp_path)
    assert sum((row.metric or "").startswith("recorded[") for row in filled.rows) == len(lacking) > 0
