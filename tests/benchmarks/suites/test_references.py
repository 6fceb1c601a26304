"""What is counted of a task's references alone, and that bad data is no count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capbench.benchmarks.suites.references import describe_references
from capbench.errors import BenchError

ROWS = [
    {"id": "a", "text": "a dog", "references": ["a dog runs", "the dog  runs fast"], "rating": 1},
    {"id": "b", "text": "a cat", "references": ["a cat"], "rating": 2},
]


def write(folder: Path, rows: list[dict[str, Any]], **keys: Any) -> Path:
    task = {
        "task": "small",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": "rows.jsonl"},
        "output_type": "agreement",
        "doc_to_id": "id",
        "doc_to_candidate": "text",
        "doc_to_human": "rating",
        "metric_list": ["length"],
        "statistics": ["kendall_b"],
        "metadata": {"version": 1},
    }
    (folder / "small.yaml").write_text(json.dumps(task | keys))
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_images_references_words_and_pairs_are_counted(tmp_path: Path):
    write(tmp_path, ROWS, doc_to_target="references")
    found = describe_references("small", include_path=[tmp_path])
    # a dog, dog runs, the dog, runs fast, a cat.
    assert {one: found[one, ""].value for one, _ in found} == {
        "images": 2,
        "references": 3,
        "avg_reference_length_words": 3,
        "unique_2grams": 5,
    }
    assert {one.n for one in found.values()} == {2}


def test_task_without_references_has_none_and_no_mean_of_their_lengths(tmp_path: Path):
    found = describe_references("small", include_path=[write(tmp_path, ROWS)])
    assert [one.value for one in found.values()] == [2, 0, None, 0]


def test_row_that_cannot_be_read_is_an_error(tmp_path: Path):
    write(tmp_path, [*ROWS, {"id": "a", "references": []}], doc_to_target="references")
    with pytest.raises(BenchError, match="a: "):
        describe_references("small", include_path=[tmp_path])
