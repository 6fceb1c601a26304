"""A run that is read back is the run that was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rated_task import write_rated

import capbench

AGREEMENT = {"statistics": ["kendall_c", "pearson"], "scale": 100}
PREFERENCE = {
    **dict.fromkeys(("doc_to_candidate", "doc_to_human", "statistics")),
    "output_type": "preference",
    "doc_to_candidates": "candidates",
    "doc_to_preferred": "preferred",
    "doc_to_category": "kind",
}
METRICS = ["length", "rouge_l", "bleu_4", "cider", {"metric": "cider", "variant": "plain", "name": "plain"}]


def made(folder: Path, keys: dict[str, Any], **options: Any) -> capbench.Run:
    """Run a task of forty captions of twenty images, rated by their length; the last one has no caption."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(40):
        words = int(generator.integers(1, 9))
        candidate = (
            "" if number == 39 else " ".join(["a", "dog", "runs", "over", "the", "wet", "green", "grass"][:words])
        )
        rows.append(
            {
                "id": f"r{number}",
                "image": number // 2,
                "candidate": candidate,
                "candidates": ["", ""] if number == 39 else [candidate, "a dog"],
                "references": ["a dog runs over the grass", f"a dog number {number // 2}"],
                "ratings": words + float(generator.random()),
                "preferred": int(words < 4),
                "kind": "long" if words > 4 else "short",
            }
        )
    write_rated(folder, rows, metric_list=METRICS, **keys)
    options = {"resamples": 30, "output_path": folder / "runs", **options}
    return capbench.evaluate(tasks="rated", include_path=[folder], **options)


@pytest.mark.parametrize("keys", [AGREEMENT, PREFERENCE], ids=["agreement", "preference"])
@pytest.mark.parametrize(
    "options",
    [{}, {"resamples": 0}, {"log_samples": "scores"}, {"metrics": ["length"], "limit": 1}],
    ids=["intervals", "no intervals", "scores alone", "undefined"],
)
def test_run_that_is_read_back_prints_the_table_of_the_fresh_run(
    tmp_path: Path, keys: dict[str, Any], options: dict[str, Any]
):
    fresh = made(tmp_path, keys, **options)
    folder = fresh["rated"].folder
    assert folder is not None
    again = capbench.load_run(folder)
    for fmt in ("github", "latex", "csv", "json"):
        assert again.table(fmt) == fresh.table(fmt)
    assert str(again) == fresh.table()


def test_run_that_is_read_back_has_its_record_results_samples_and_failures(tmp_path: Path):
    fresh = made(tmp_path, AGREEMENT)
    one = fresh["rated"]
    assert one.folder is not None
    again = capbench.load_run(str(one.folder / "run.json"))
    assert isinstance(again, capbench.Run)
    read = again["rated"]
    assert (read.record, read.folder, read.failures) == (one.record, one.folder, one.failures)
    assert read.results == one.results
    assert read.samples == one.samples
    assert read.published == one.published == {}
    assert again.to_pandas().equals(fresh.to_pandas())


def test_published_value_stands_beside_a_result_that_is_read_back(tmp_path: Path):
    keys = {**AGREEMENT, "published": {"paper": "pacspp", "table": 1, "task": "Flickr8k-Expert"}}
    fresh = made(tmp_path, keys, metrics=["bleu_4", "rouge_l"])
    assert fresh["rated"].folder is not None
    again = capbench.load_run(fresh["rated"].folder)
    printed = {key: one.printed for key, one in again["rated"].published.items()}
    assert printed == {"bleu_4.kendall_c": "30.8", "rouge_l.kendall_c": "32.3"}
    assert "Published" in again.table() and again.table() == fresh.table()
