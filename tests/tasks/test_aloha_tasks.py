"""HAT and nocaps-FOIL, on small files in the released layouts and on the released ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest
from scipy.stats import kendalltau

import capbench
from capbench.benchmarks.records.task_run import TaskRun

SETTINGS = {"resamples": 0, "metrics": ["length"]}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")


def run(task: str, folder: Path, **settings: Any) -> TaskRun:
    return capbench.evaluate(None, task, data={task: folder}, **SETTINGS, **settings)[task]


def values(done: TaskRun) -> dict[str, float | None]:
    return {" ".join(filter(None, (one.statistic, one.category))): one.value for one in done.results}


def marked(number: int, *words: str) -> dict[str, Any]:
    """Return a caption of HAT; a word that ends in "*" is marked as made up."""
    grounding = [[word.rstrip("*"), word.endswith("*")] for word in words]
    return {
        "sample_id": f"sample-{number}",
        "caption": " ".join(word for word, _ in grounding),
        "grounding": grounding,
        "contains_hallucination": any(made_up for _, made_up in grounding),
        "image_path": f"COCO_val2014_{number:012d}.jpg",
        "references": ["a dog"],
        "is_machine_generated": True,
    }


def test_hat_holds_a_metric_against_the_share_of_words_that_are_not_marked(tmp_path: Path):
    rows = [
        marked(0, "a", "dog"), marked(1, "a", "cat*", "sits"), marked(2, "a", "dog", "and*", "cats*"),
        marked(3, "one", "dog", "runs", "far", "away*"), marked(4, "a", "dog", "on", "wet", "white", "sand"),
    ]  # fmt: skip
    (tmp_path / "hat-trainval.json").write_text(json.dumps(rows))
    found = values(run("aloha_hat", tmp_path, skip_checks=True))
    lengths, shares, whole = [2, 3, 4, 5, 6], [1, 2 / 3, 1 / 2, 4 / 5, 1], [1, 0, 0, 0, 1]
    assert found["kendall_b.words"] == pytest.approx(kendalltau(lengths, shares).statistic)
    assert found["kendall_b.caption"] == pytest.approx(kendalltau(lengths, whole).statistic)
    assert found["kendall_c.caption"] == pytest.approx(kendalltau(lengths, whole, variant="c").statistic)


def test_nocaps_foil_prefers_the_true_caption_in_each_domain_and_a_tie_is_wrong(tmp_path: Path):
    rows = [
        {
            "image_path": f"{number}.jpg", "references": ["a dog runs"], "baseline": true, "foil": false,
            "replacement": ["x", "y"], "domain": domain,
        }
        for number, (true, false, domain) in enumerate(
            [
                ("a dog runs", "a cat", "in-domain"), ("a dog", "a cat", "in-domain"),
                ("a dog runs", "cats", "out-domain"), ("dogs", "a cat", "near-domain"),
            ]
        )
    ]  # fmt: skip
    (tmp_path / "nocaps-val-foil.json").write_text(json.dumps(rows))
    assert values(run("aloha_nocaps_foil", tmp_path, skip_checks=True)) == {
        "accuracy in-domain": 0.5, "accuracy out-domain": 1.0, "accuracy near-domain": 0.0, "accuracy": 0.5,
    }  # fmt: skip


def test_low_scores_find_the_captions_of_hat_with_a_marked_word(tmp_path: Path):
    rows = [marked(0, "a", "cat*"), marked(1, "a", "dog", "runs"), marked(2, "a", "cat*", "sits", "there")]
    (tmp_path / "hat-trainval.json").write_text(json.dumps(rows))
    found = run("aloha_hat_detection", tmp_path, skip_checks=True)
    # Of the shortest caption on: 1 of 1, then 2 of 3.
    assert values(found) == {"average_precision": pytest.approx((1 + 2 / 3) / 2)}
    assert found.results[0].remark == "by chance 66.7%"


def test_low_scores_find_the_foils_of_nocaps_by_domain_and_a_pair_without_a_foil_is_named(tmp_path: Path):
    pair = {"image_path": "0.jpg", "references": ["a dog"], "domain": "in-domain"}
    rows = [
        {**pair, "baseline": "a dog runs", "foil": "cats"},
        {**pair, "baseline": "dogs", "foil": "a cat here", "image_path": "1.jpg", "domain": "out-domain"},
        {**pair, "baseline": "a dog"},
        ["a dog"],
    ]
    (tmp_path / "nocaps-val-foil.json").write_text(json.dumps(rows))
    found = run("aloha_nocaps_foil_detection", tmp_path, skip_checks=True)
    assert values(found) == {
        "average_precision in-domain": 1.0, "average_precision out-domain": 0.5,
        # Two captions have one word, two three.
        "average_precision": 0.5,
    }  # fmt: skip
    (failure,) = found.record.failures
    assert (failure["count"], failure["samples"]) == (2, ["nocaps-val-foil.json[2]", "nocaps-val-foil.json[3]"])


@pytest.mark.data
def test_released_files_are_what_the_tasks_expect(data_folder: Callable[[str], Path]):
    folder = data_folder("aloha")
    assert set(values(run("aloha_hat", folder))) == {
        f"{name}.{aspect}" for name in ("kendall_b", "kendall_c") for aspect in ("words", "caption")
    }
    found = values(run("aloha_hat_detection", folder))
    assert found["average_precision"] is not None
    assert 0.3375 < found["average_precision"] < 1
    assert len(values(run("aloha_nocaps_foil_detection", folder))) == 4
    found = values(run("aloha_nocaps_foil", folder))
    # Few foils have another number of words: of the ties none is right.
    assert found["accuracy"] is not None
    assert found["accuracy"] < 0.05
