"""Recorded captions meet the right documents, and what is left over is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import capbench
from capbench.benchmarks.records.task_run import TaskRun
from capbench.errors import DataError

IMAGES = {2: "a red bus in a street", 0: "two dogs on a beach", 1: "an old man with a hat"}
TASK = """\
task: numbered
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
doc_to_image: image_id
doc_to_text: Describe this image.
doc_to_target: references
metric_list: [bleu_1]
metadata: {version: 1.0}
"""


def run(folder: Path, captions: list[dict], *more: str, **settings: object) -> TaskRun:
    rows = [{"image_id": image, "references": [text]} for image, text in IMAGES.items()]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "numbered.yaml").write_text(TASK + "".join(more))
    (folder / "captions.json").write_text(json.dumps(captions))
    model = f"captions:{folder / 'captions.json'}"
    return capbench.evaluate(model, "numbered", include_path=[folder], resamples=0, **settings)["numbered"]


def test_whole_numbers_under_image_id_are_images_and_not_numbers_of_documents(tmp_path: Path):
    done = run(tmp_path, [{"image_id": image, "caption": text} for image, text in IMAGES.items()])
    assert done.results[0].value == pytest.approx(1.0)


def test_whole_numbers_under_id_are_numbers_of_documents_where_the_task_names_no_ids(tmp_path: Path):
    done = run(tmp_path, [{"id": number, "caption": text} for number, text in enumerate(IMAGES.values())])
    assert done.results[0].value == pytest.approx(1.0)


@pytest.mark.parametrize("column", ["id", "image_id"])
def test_ids_of_the_task_are_found_under_either_name(tmp_path: Path, column: str):
    captions = [{column: image, "caption": text} for image, text in IMAGES.items()]
    assert run(tmp_path, captions, "doc_to_id: image_id\n").results[0].value == pytest.approx(1.0)


def test_missing_and_left_over_captions_are_counted(tmp_path: Path):
    captions = [{"image_id": 2, "caption": IMAGES[2]}, {"image_id": 77, "caption": "a cat"}]
    failures = {f["reason"]: f["samples"] for f in run(tmp_path, captions).record.failures}
    assert failures == {
        "was not given by the model": ["1", "2"],
        "is recorded for no document of the task": ["77"],
    }


def test_captions_of_documents_beyond_a_limit_are_not_called_left_over(tmp_path: Path):
    captions = [{"image_id": image, "caption": text} for image, text in IMAGES.items()]
    assert run(tmp_path, captions, limit=1).record.failures == []


def test_when_nothing_matches_an_id_of_either_side_is_shown(tmp_path: Path):
    with pytest.raises(DataError, match="document of the task: '0'; a recorded caption: '77'"):
        run(tmp_path, [{"image_id": 77, "caption": "a cat"}])
