"""nocaps and VizWiz-Captions, end to end: files in the released layouts and recorded captions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import capbench
from capbench.benchmarks.records.task_run import TaskRun
from capbench.tasks.index import BUILTIN_FOLDER

TEXTS = ["a red kite in the sky", "two bowls of hot soup", "an old wooden door", "a white cat sleeps"]
DOMAINS = ["in-domain", "near-domain", "out-domain", "near-domain"]


def save(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A caption for each of four images, in COCO's result format; the data sets beside it."""
    images = [
        {"id": n, "file_name": f"{n}.jpg", "domain": domain, "text_detected": False} for n, domain in enumerate(DOMAINS)
    ]
    references = [
        {"image_id": n, "caption": text, "is_rejected": False, "is_precanned": n == 3} for n, text in enumerate(TEXTS)
    ]
    content = {"info": {}, "images": images, "annotations": references}
    save(tmp_path / "nocaps/nocaps_val_4500_captions.json", content)
    save(tmp_path / "vizwiz/annotations/val.json", content)
    save(tmp_path / "captions.json", [{"image_id": n, "caption": text} for n, text in enumerate(TEXTS)])
    return tmp_path


def run(folder: Path, task: str, documents: int) -> TaskRun:
    source = task.partition("_")[0]
    (folder / "few.yaml").write_text(
        f"include: {BUILTIN_FOLDER}/{source}/{task}.yaml\ntask: few\n"
        f"checks: {{documents: {documents}}}\nmetadata: {{version: 1.0}}\n"
    )
    return capbench.evaluate(
        f"captions:{folder / 'captions.json'}",
        ["few"],
        metrics=["bleu_1", "rouge_l"],
        include_path=[folder],
        data={"few": folder / source},
        resamples=0,
    )["few"]


@pytest.mark.parametrize(("task", "images"), [("nocaps", 4), ("nocaps_in", 1), ("nocaps_near", 2)])
def test_nocaps_scores_all_images_or_those_of_a_domain(folder: Path, task: str, images: int):
    done = run(folder, task, images)
    assert [(result.n, result.value) for result in done.results] == [(images, pytest.approx(1))] * 2
    # Captions of the other domains are named, and cost nothing.
    assert sum(one["count"] for one in done.record.failures) == 4 - images


def test_vizwiz_counts_an_image_that_nobody_could_describe_and_leaves_it_out(folder: Path):
    done = run(folder, "vizwiz", 4)
    assert [(result.n, result.value) for result in done.results] == [(3, pytest.approx(1))] * 2
    reference, caption = done.record.failures
    assert (reference["samples"], reference["reason"]) == (["3"], "is an empty list")
    assert (caption["samples"], caption["reason"]) == (["3"], "is recorded for no usable document of the task")
