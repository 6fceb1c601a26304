"""Scores of pairs that a file lacks: the metric has no number, however many units a run is cut into."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from in_shards import AnyOrder, run_in_shards

import capbench
from capbench.adapters.encoders.pair_scores import RecordedPairs
from capbench.benchmarks.running import rows as score_rows
from capbench.benchmarks.running.execution import Execution

ROWS = [{"image": f"{n}.jpg", "candidate": f"caption {n % 5}", "rating": n % 3} for n in range(8)]


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[set[int]], str]:
    """Writes images, a task and the scores of its rows but some; returns what the model is called."""
    for row in ROWS:
        (tmp_path / row["image"]).write_bytes(row["image"].encode())
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    task = {
        "task": "mine",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": "rows.jsonl"},
        "output_type": "agreement",
        "doc_to_image": "image",
        "doc_to_candidate": "candidate",
        "doc_to_human": "rating",
        "metric_list": ["itm_score", "length"],
        "statistics": ["kendall_b"],
        "metadata": {"version": 1},
    }
    (tmp_path / "mine.yaml").write_text(json.dumps(task))

    def write(without: set[int]) -> str:
        pairs = [
            {"image": row["image"], "text": row["candidate"], "score": n}
            for n, row in enumerate(ROWS)
            if n not in without
        ]
        (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
        return f"pair_scores:{tmp_path / 'pairs.jsonl'}"

    return write


def test_pair_that_is_missing_in_one_unit_fails_the_metric(recorded: Callable[[set[int]], str], tmp_path: Path):
    call: dict[str, Any] = {"tasks": "mine", "include_path": [tmp_path], "model": recorded({4})}
    for size in (10_000, 3):
        for name, executor in (("here", None), ("files", AnyOrder())):
            execution = Execution(executor, shard_rows=size)
            record, samples, _ = run_in_shards(call, tmp_path / f"{name} {size}", execution)
            ((metric, reason),) = [(one["metric"], one["reason"]) for one in record["metric_errors"]]
            assert metric == "itm_score"
            assert "pairs.jsonl lacks 1 of " in reason
            assert "4.jpg: caption 4" in reason
            assert {row["length"] for row in samples} == {2}
            assert not any(row.get("itm_score") for row in samples)


def test_scored_rows_have_no_number_either(
    recorded: Callable[[set[int]], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(score_rows, "SHARD_OF_IMAGES", 3)
    rows = [{**row, "image": str(tmp_path / row["image"])} for row in ROWS]
    model = recorded({4})
    table = capbench.score(rows, ["itm_score", "length"], model=model, allow_outside=[tmp_path])
    assert table.system == {"itm_score": None, "length": 2}
    assert table.counts == {"itm_score": 0, "length": 8}
    assert list(table.metric_errors) == ["itm_score"]


def test_model_without_a_limit_of_tokens_cuts_nothing_even_of_items_that_failed(
    recorded: Callable[[set[int]], str], tmp_path: Path
):
    model = recorded({4})
    (tmp_path / "4.jpg").unlink()
    call: dict[str, Any] = {"tasks": "mine", "include_path": [tmp_path], "model": model}
    record, _, _ = run_in_shards(call, tmp_path / "runs", Execution(shard_rows=3))
    assert record["metric_errors"] == []
    assert [one["count"] for one in record["failures"]] == [1]
    assert record["truncation"] == {}


def test_captions_of_a_unit_that_failed_do_not_count_as_cut(
    recorded: Callable[[set[int]], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pairs = RecordedPairs.pairs

    def breaks(self: RecordedPairs, images: Any, texts: Any) -> Any:
        if any(image.name.endswith("4.jpg") for image in images):
            raise RuntimeError("it broke")
        return pairs(self, images, texts)

    monkeypatch.setattr(RecordedPairs, "pairs", breaks)
    monkeypatch.setattr(RecordedPairs, "context_length", 77)
    call: dict[str, Any] = {"tasks": "mine", "include_path": [tmp_path], "model": recorded(set())}
    record, _, _ = run_in_shards(call, tmp_path / "runs", Execution(shard_rows=3))
    assert [one["count"] for one in record["failures"]] == [3]
    assert record["truncation"]["itm_score"] == {
        "captions": 8, "cut": 0, "share": 0, "context_length": 77
    }  # fmt: skip
