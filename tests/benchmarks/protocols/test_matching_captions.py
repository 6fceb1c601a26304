"""Recorded captions meet the right documents, and what is left over is said."""

import json
from pathlib import Path

import pytest

import capbench
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.tables.results import render
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


@pytest.mark.parametrize(
    ("ids", "more"),
    [
        # Whole numbers under image_id are images, under id numbers of documents where the task names no ids.
        ([("image_id", image) for image in IMAGES], ""),
        ([("id", number) for number in range(3)], ""),
        ([("id", image) for image in IMAGES], "doc_to_id: image_id\n"),
        ([("image_id", image) for image in IMAGES], "doc_to_id: image_id\n"),
    ],
)
def test_captions_are_found_by_image_number_or_id(tmp_path: Path, ids: list[tuple[str, int]], more: str):
    captions = [{column: key, "caption": text} for (column, key), text in zip(ids, IMAGES.values(), strict=True)]
    assert run(tmp_path, captions, more).results[0].value == pytest.approx(1.0)


WHOLE = [{"image_id": image, "caption": text} for image, text in IMAGES.items()]
PART = [{"image_id": 2, "caption": IMAGES[2]}, {"image_id": 77, "caption": "a cat"}]


def test_captions_of_a_part_of_the_documents_end_the_run_before_anything_is_scored(tmp_path: Path):
    with pytest.raises(DataError, match="no caption is recorded for 2 of 3 documents: '1', '2'") as caught:
        run(tmp_path, PART, output_path=tmp_path / "runs")
    assert "the recorded captions '77' belong to no document" in caught.value.hint
    assert "--subset, or --model_args subset=true, scores only the documents with captions" in caught.value.hint
    assert not list((tmp_path / "runs").rglob("run.json"))


def test_rows_that_cannot_be_used_are_named_where_captions_are_missing(tmp_path: Path):
    captions = [{"image_id": image, "caption": IMAGES[image]} for image in (2, 0)] + [{"image_id": 1}]
    with pytest.raises(DataError, match="no caption is recorded for 1 of 3 documents: '2'") as caught:
        run(tmp_path, captions)
    assert "1 of its rows cannot be used (captions.json: row 3: has no id or no caption" in caught.value.hint


def test_subset_is_of_the_recorded_documents_alone_and_says_so(tmp_path: Path):
    done = run(tmp_path, PART, subset=True, output_path=tmp_path / "runs")
    assert {f["reason"]: f["samples"] for f in done.record.failures} == {
        "matches no usable document of the task": ["77"]
    }
    assert done.results[0].value == pytest.approx(1.0)
    subset = done.record.subset
    assert (subset.documents, subset.of) == (1, 3)
    assert "a subset: 1 of 3 documents" in render([done])
    assert capbench.load_run(done.folder)["numbered"].record.subset == subset
    whole = run(tmp_path, WHOLE, subset=True)
    assert whole.record.subset is None
    # The documents of the task are the same; those of the two runs are not.
    assert whole.record.documents_hash == done.record.documents_hash
    other = run(tmp_path, [{"image_id": 1, "caption": "a hat"}], subset=True).record.subset
    assert other.hash != subset.hash
    # It is that of a task of these documents alone: image 2 is of the first one.
    first = run(tmp_path, [{"image_id": 2, "caption": "a bus"}], limit=1)
    assert first.record.documents_hash == subset.hash


def test_recorded_null_is_an_empty_caption_and_no_missing_one(tmp_path: Path):
    captions = [{"image_id": image, "caption": text if image else None} for image, text in IMAGES.items()]
    record = run(tmp_path, captions).record
    assert [(entry["reason"], entry["samples"]) for entry in record.empty_captions] == [("is null", ["1"])]
    assert record.subset is None
    assert record.documents.effective == 3


def test_captions_of_documents_beyond_a_limit_are_not_called_left_over(tmp_path: Path):
    assert run(tmp_path, WHOLE, limit=1).record.failures == []
