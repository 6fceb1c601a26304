from __future__ import annotations

import importlib.resources
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

import capbench
from capbench.errors import DataError
from capbench.rows import BadRow
from capbench.tasks.coco.reader import karpathy, read_captions, read_objects, val2014

INSTANCES = "annotations/instances_val2014.json"
CATEGORIES = [{"supercategory": "animal", "id": 18, "name": "dog"}, {"id": 62, "name": "chair"}]


def photo(number: int, split: str = "test", **keys: Any) -> dict[str, Any]:
    """An entry of Karpathy's file."""
    texts = [f"A dog on chair {number}.", f"dog number {number}\n"]
    return {
        "filepath": "val2014",
        "sentids": [10 * number, 10 * number + 1],
        "filename": f"COCO_val2014_{number:012}.jpg",
        "imgid": 0,
        "split": split,
        "sentences": [{"tokens": text.split(), "raw": text, "imgid": 0, "sentid": 1} for text in texts],
        "cocoid": number,
        **keys,
    }


def marked(image: int, category: int, **keys: Any) -> dict[str, Any]:
    return {
        "segmentation": [[1.5, 2.5, 3.5, 4.5, 5.5, 6.5]],
        "area": 3.0,
        "iscrowd": 0,
        "image_id": image,
        "bbox": [1, 2, 3, 4],
        "category_id": category,
        "id": 7,
        **keys,
    }


def save_split(folder: Path, *photos: Any) -> None:
    (folder / "dataset_coco.json").write_text(json.dumps({"images": photos, "dataset": "coco"}))


def save(folder: Path, name: str, images: list[Any], annotations: list[Any], **keys: Any) -> None:
    file = folder / "annotations" / f"{name}_val2014.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        json.dumps({"info": {"year": 2014}, "images": images, "licenses": [], "annotations": annotations, **keys})
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three photographs, two of the test split; one has a dog and two chairs, one nothing, one a dog."""
    save_split(tmp_path, photo(9), photo(25, "train"), photo(42))
    images = [{"id": n, "file_name": f"COCO_val2014_{n:012}.jpg", "license": 3} for n in (9, 25, 42)]
    objects = [marked(9, 62), marked(25, 18), marked(9, 18, iscrowd=1), marked(9, 62)]
    save(tmp_path, "instances", images, objects, categories=CATEGORIES)
    captions = [{"image_id": n, "id": n, "caption": f"A dog on chair {n}."} for n in (42, 9, 25, 9)]
    save(tmp_path, "captions", images, captions)
    return tmp_path


def test_test_split_has_the_images_with_their_captions_as_written(folder: Path):
    assert list(karpathy(folder)) == [
        {
            "id": str(n),
            "image": f"COCO_val2014_{n:012}.jpg",
            "references": [f"A dog on chair {n}.", f"dog number {n}\n"],
        }
        for n in (9, 42)
    ]
    assert [row["id"] for row in karpathy(folder, split="train")] == ["25"]


def test_marked_objects_are_named_once_and_an_image_without_any_has_none(folder: Path):
    rows = list(karpathy(folder, instances=INSTANCES))
    assert [row["objects"] for row in rows] == [["chair", "dog"], []]


def test_image_that_the_instances_do_not_know_is_not_taken_for_empty(folder: Path):
    save_split(folder, photo(9), photo(77))
    bad = [row for row in karpathy(folder, instances=INSTANCES) if isinstance(row, BadRow)]
    assert bad == [BadRow("image 77", "is not among the images of instances_val2014.json")]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (5, "has no split"),
        ({"cocoid": 1}, "has no split"),
        (photo(1, cocoid="1"), "has no cocoid, filename and sentences with raw text"),
        (photo(1, filename=None), "has no cocoid, filename and sentences with raw text"),
        (photo(1, sentences=None), "has no cocoid, filename and sentences with raw text"),
        (photo(1, sentences=[{"tokens": ["a"]}]), "has no cocoid, filename and sentences with raw text"),
    ],
)
def test_bad_entry_of_the_split_is_named_and_costs_no_other(folder: Path, entry: Any, reason: str):
    save_split(folder, photo(9), entry, photo(42))
    bad, *rows = karpathy(folder)
    assert bad == BadRow("dataset_coco.json[1]", reason)
    assert [row["id"] for row in rows] == ["9", "42"]


def test_all_of_val2014_has_captions_and_objects(folder: Path):
    assert list(val2014(folder)) == [
        {
            "id": str(n),
            "image": f"COCO_val2014_{n:012}.jpg",
            "references": [f"A dog on chair {n}."] * (2 if n == 9 else 1),
            "objects": objects,
        }
        for n, objects in ((9, ["chair", "dog"]), (25, ["dog"]), (42, []))
    ]


def test_bad_annotations_are_named_and_cost_no_other(folder: Path):
    images = [{"id": 9, "file_name": "9.jpg"}, {"id": 10}, "x"]
    captions = [
        {"image_id": 9, "caption": "a dog"},
        {"image_id": 9},
        {"image_id": 9, "caption": " "},
        {"image_id": 8, "caption": "a cat"},
    ]
    save(folder, "captions", images, captions)
    save(folder, "instances", images, [marked(9, 18), {"image_id": 9}], categories=CATEGORIES)
    *bad, row = val2014(folder)
    assert [(one.place, one.reason) for one in bad] == [
        ("captions_val2014.json: images[1]", "has no id and file_name"),
        ("captions_val2014.json: images[2]", "has no id and file_name"),
        ("captions_val2014.json: annotations[1]", "has no image_id and caption"),
        ("captions_val2014.json: annotations[2]", "has no image_id and caption"),
        ("captions_val2014.json: image 8", "has captions but no entry among the images"),
        ("instances_val2014.json: annotations[1]", "has no image_id and category_id"),
    ]
    assert row == {"id": "9", "image": "9.jpg", "references": ["a dog"], "objects": ["dog"]}


def test_category_without_a_name_is_an_error(folder: Path):
    save(folder, "instances", [{"id": 9}], [marked(9, 18)], categories=[{"id": 62, "name": "chair"}])
    with pytest.raises(DataError, match="category 18 has no name among the categories"):
        list(karpathy(folder, instances=INSTANCES))


@pytest.mark.parametrize("name", ["captions", "instances"])
def test_missing_file_is_an_error_that_says_where_to_get_it(folder: Path, name: str):
    (folder / "annotations" / f"{name}_val2014.json").unlink()
    with pytest.raises(DataError, match=f"{name}_val2014.json: there is no such file") as caught:
        list(val2014(folder))
    assert "bench data coco_chair" in caught.value.hint


def test_missing_split_is_an_error_that_says_where_to_get_it(tmp_path: Path):
    with pytest.raises(DataError, match=r"dataset_coco\.json: there is no such file") as caught:
        list(karpathy(tmp_path))
    assert "bench data coco_chair" in caught.value.hint


def test_file_of_another_layout_is_an_error(folder: Path):
    (folder / "annotations/captions_val2014.json").write_text("[1, 2]")
    with pytest.raises(DataError, match="not a JSON object"):
        list(val2014(folder))
    (folder / "annotations/captions_val2014.json").write_text('{"annotations": []}')
    with pytest.raises(DataError, match="holds no list of images"):
        list(val2014(folder))


def test_outlines_are_not_held_in_memory(tmp_path: Path):
    outline = "4.5, " * 4000
    save(tmp_path, "instances", [{"id": 9}], [marked(9, 18, segmentation=outline)] * 400, categories=CATEGORIES)
    path = tmp_path / INSTANCES
    assert path.stat().st_size > 7e6
    tracemalloc.start()
    assert read_objects(path, {9}, "")[0] == {9: ["dog"]}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6e6


def test_released_captions_of_val2014_are_read_whole(tmp_path: Path):
    # The copy that pycocoevalcap brings along.
    jar = importlib.resources.files("pycocoevalcap") / "spice/spice-1.0.jar"
    with importlib.resources.as_file(jar) as path, zipfile.ZipFile(path) as archive:
        found = read_captions(Path(archive.extract("coco/annotations/captions_val2014.json", tmp_path)), "")
    assert len(found.images) == 40_504
    assert sum(map(len, found.captions.values())) == 202_654
    assert min(map(len, found.captions.values())) == 5
    assert not found.bad_rows
    assert found.images[391895]["file_name"] == "COCO_val2014_000000391895.jpg"


def test_checklist_holds_a_caption_against_the_others_of_its_image(folder: Path):
    save_split(folder, photo(9), photo(42))
    run = capbench.evaluate(
        None, "checklist_coco", metrics="length", data={"checklist_coco": folder}, resamples=0, skip_checks=True
    )
    by_rule = {one.category: one for one in run.tasks[0].results if one.statistic == "falls"}
    assert (by_rule["sentence_repeated"].n, by_rule["sentence_repeated"].value) == (2, 0.0)
