"""What is counted of a task's references alone, and that bad data is no count."""

from __future__ import annotations

from pathlib import Path

import pytest
from rated_task import write_rated

from capbench.benchmarks.suites.plan import describe_references
from capbench.errors import BenchError

ROWS = [
    {"id": "a", "image": "a", "candidate": "a dog", "references": ["a dog runs", "the dog  runs fast"], "ratings": 1},
    {"id": "b", "image": "b", "candidate": "a cat", "references": ["a cat"], "ratings": 2},
]


def test_images_references_words_and_pairs_are_counted(tmp_path: Path):
    write_rated(tmp_path, ROWS)
    found = describe_references("rated", include_path=[tmp_path])
    # a dog, dog runs, the dog, runs fast, a cat.
    assert {one: found[one, ""].value for one, _ in found} == {
        "images": 2,
        "references": 3,
        "avg_reference_length_words": 3,
        "unique_2grams": 5,
    }
    assert {one.n for one in found.values()} == {2}


def test_task_without_references_has_none_and_no_mean_of_their_lengths(tmp_path: Path):
    found = describe_references("rated", include_path=[write_rated(tmp_path, ROWS, doc_to_target=None)])
    assert [one.value for one in found.values()] == [2, 0, None, 0]


def test_row_that_cannot_be_read_is_an_error(tmp_path: Path):
    write_rated(tmp_path, [*ROWS, {"id": "a", "references": []}])
    with pytest.raises(BenchError, match="a: "):
        describe_references("rated", include_path=[tmp_path])
