"""COCO, nocaps, VizWiz and Visual Genome, on small files in the released layouts."""

import importlib.resources
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import capbench
from capbench.errors import DataError
from capbench.rows import BadRow
from capbench.tasks.coco.reader import five_references, karpathy, read_captions, val2014
from capbench.tasks.nocaps.reader import FILE as NOCAPS
from capbench.tasks.nocaps.reader import validation
from capbench.tasks.visual_genome import reader as visual_genome
from capbench.tasks.vizwiz import reader as vizwiz

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


def test_marked_objects_are_named_once_and_an_image_without_any_has_none(folder: Path):
    rows = list(karpathy(folder, instances=INSTANCES))
    assert [row["objects"] for row in rows] == [["chair", "dog"], []]
    assert rows[0]["references"] == ["A dog on chair 9.", "dog number 9\n"]


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


def test_one_of_five_references_is_drawn_and_scored_with_the_others(tmp_path: Path):
    texts = {str(n): [f"caption {k} of {n}" for k in range(5)] for n in (9, 42, 391895)}
    (tmp_path / "reference_captions.json").write_text(json.dumps(texts | {"x": [], "7": ["a dog"] * 4}))
    *rows, x, four = five_references(tmp_path)
    assert rows[2] == {"id": "391895", "image": "COCO_val2014_000000391895.jpg", "references": texts["391895"]}
    assert [bad.place for bad in (x, four)] == ["reference_captions.json[3]", "reference_captions.json[4]"]
    assert {bad.reason for bad in (x, four)} == {"has no COCO id and five captions"}
    drawn = list(five_references(tmp_path, seed=0))[:3]
    assert [{row["caption"], *row["references"]} for row in drawn] == [set(texts[row["id"]]) for row in drawn]
    assert {len(row["references"]) for row in drawn} == {4}
    assert drawn == list(five_references(tmp_path, seed=0))[:3] != list(five_references(tmp_path, seed=1))[:3]


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
    assert [(row.place, row.reason) for row in bad] == [
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
    with pytest.raises(DataError, match=f"{name}_val2014.json: cannot be read: No such file") as caught:
        list(val2014(folder))
    assert "bench data coco_chair" in caught.value.hint


def test_file_of_another_layout_is_an_error(folder: Path):
    (folder / "annotations/captions_val2014.json").write_text("[1, 2]")
    with pytest.raises(DataError, match="not a JSON object"):
        list(val2014(folder))
    (folder / "annotations/captions_val2014.json").write_text('{"annotations": []}')
    with pytest.raises(DataError, match="holds no list of images"):
        list(val2014(folder))


@pytest.mark.costly
def test_released_captions_of_val2014_are_read_whole(tmp_path: Path):
    # The copy that pycocoevalcap brings along.
    jar = importlib.resources.files("pycocoevalcap") / "spice/spice-1.0.jar"
    with importlib.resources.as_file(jar) as path, zipfile.ZipFile(path) as archive:
        released = read_captions(Path(archive.extract("coco/annotations/captions_val2014.json", tmp_path)), "")
    assert len(released.images) == 40_504
    assert sum(map(len, released.captions.values())) == 202_654
    assert min(map(len, released.captions.values())) == 5
    assert not released.bad_rows
    assert released.images[391895]["file_name"] == "COCO_val2014_000000391895.jpg"


def test_checklist_holds_a_caption_against_the_others_of_its_image(folder: Path):
    save_split(folder, photo(9), photo(42))
    run = capbench.evaluate(
        None, "checklist_coco", metrics="length", data={"checklist_coco": folder}, resamples=0, skip_checks=True
    )
    by_rule = {result.category: result for result in run.tasks[0].results if result.statistic == "falls"}
    assert (by_rule["sentence_repeated"].n, by_rule["sentence_repeated"].value) == (2, 0.0)


# --- nocaps

DOMAINS = ["in-domain", "near-domain", "out-domain", "near-domain"]


def image(number: int, domain: Any) -> dict[str, Any]:
    return {
        "id": number,
        "open_images_id": f"0013ea2087020901{number}",
        "file_name": f"0013ea2087020901{number}.jpg",
        "coco_url": "https://example.org",
        "domain": domain,
    }


@pytest.fixture
def nocaps_folder(tmp_path: Path) -> Path:
    save_nocaps(tmp_path, [image(n, domain) for n, domain in enumerate(DOMAINS)])
    return tmp_path


def save_nocaps(folder: Path, images: list[Any]) -> None:
    captions = [{"image_id": n % 4, "id": n, "caption": f"caption {n}"} for n in range(8)]
    (folder / NOCAPS).write_text(json.dumps({"licenses": [], "info": {}, "images": images, "annotations": captions}))


@pytest.mark.parametrize(("domain", "ids"), [("in-domain", ["0"]), ("near-domain", ["1", "3"])])
def test_images_of_one_domain(nocaps_folder: Path, domain: str, ids: list[str]):
    rows = list(validation(nocaps_folder, domain=domain))
    assert [row["id"] for row in rows] == ids
    assert rows[0]["references"] == [f"caption {ids[0]}", f"caption {int(ids[0]) + 4}"]


def test_unknown_domain_is_named_where_domains_are_asked_for(nocaps_folder: Path):
    save_nocaps(nocaps_folder, [image(0, None), image(1, "near-domain"), image(2, "in-domain"), image(3, "in-domain")])
    assert len(list(validation(nocaps_folder))) == 4
    assert list(validation(nocaps_folder, domain="out-domain")) == [
        BadRow(f"{NOCAPS}: image 0", "has the domain None, not one of in-domain, near-domain, out-domain")
    ]


# --- VizWiz

TOO_POOR = "Quality issues are too severe to recognize visual content."


def caption(image: int, text: str, *, rejected: bool = False, precanned: bool = False) -> dict[str, Any]:
    return {
        "caption": text,
        "image_id": image,
        "is_precanned": precanned,
        "is_rejected": rejected,
        "id": 1,
        "text_detected": False,
    }


@pytest.fixture
def vizwiz_folder(tmp_path: Path) -> Path:
    annotations = [
        caption(23431, "A computer screen."),
        caption(23431, TOO_POOR, precanned=True),
        caption(23431, "good", rejected=True),
        caption(23431, "A laptop with text."),
        caption(23432, TOO_POOR, precanned=True),
        caption(23432, "spam", rejected=True),
    ]
    images = [{"file_name": f"VizWiz_val_{n:08}.jpg", "id": 23431 + n, "text_detected": True} for n in range(2)]
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations/val.json").write_text(
        json.dumps({"info": {}, "images": images, "annotations": annotations})
    )
    return tmp_path


def test_spam_and_the_ready_made_caption_are_no_references(vizwiz_folder: Path):
    first, second = vizwiz.described(vizwiz_folder)
    assert first == {
        "id": "23431",
        "image": "VizWiz_val_00000000.jpg",
        "references": ["A computer screen.", "A laptop with text."],
    }
    assert second["references"] == []


# --- Visual Genome


@pytest.fixture
def genome(tmp_path: Path) -> Path:
    """Forty images, the ids of which are 3, 6, ...; image n has one region and one object."""
    ids = range(3, 123, 3)
    save_genome(tmp_path, "image_data", [{"image_id": n, "width": 80, "height": 60, "url": "x"} for n in ids])
    save_genome(tmp_path, "region_descriptions", [{"regions": [region(n)], "id": n} for n in ids])
    save_genome(tmp_path, "objects", [{"image_id": n, "objects": [thing(n)], "image_url": "x"} for n in ids])
    return tmp_path


def save_genome(folder: Path, name: str, value: Any) -> None:
    (folder / f"{name}.json").write_text(json.dumps(value))


def region(image: int, **keys: Any) -> dict[str, Any]:
    box = {"region_id": 1000 + image, "width": 10, "height": 20, "image_id": image, "y": 2, "x": 1}
    return {**box, "phrase": "a tree", **keys}


def thing(image: int, **keys: Any) -> dict[str, Any]:
    return {"synsets": [], "h": 6, "object_id": 2000 + image, "names": ["tree"], "w": 5, "y": 4, "x": 3, **keys}


def test_draw_of_the_shipped_task_never_changes(tmp_path: Path):
    # Ids of the release are 1 to 2,417,997, with gaps; every version of Python must draw the same ones.
    ids = range(1, 2_417_997, 2_300)
    save_genome(tmp_path, "image_data", [{"image_id": n, "width": 8, "height": 6} for n in ids])
    save_genome(tmp_path, "region_descriptions", [])
    save_genome(tmp_path, "objects", [])
    rows = list(visual_genome.described(tmp_path))
    assert len(rows) == 500
    assert [row["id"] for row in rows[:3]] == ["4601", "6901", "11501"]
    assert rows[0]["boxes"] == []


@pytest.mark.parametrize(
    ("box", "name", "reason"),
    [
        (thing(3, w=0), "object 2003", "has no area: 0 x 6"),
        (thing(3, h=-2), "object 2003", "has no area: 5 x -2"),
        (thing(3, x=80), "object 2003", "lies outside the image of 80 x 60: 5 x 6 at 80, 4"),
        (thing(3, y=-6), "object 2003", "lies outside the image of 80 x 60: 5 x 6 at 3, -6"),
        (thing(3, x=None), "object 2003", "has no x, y, width and height"),
        (thing(3, x="3"), "object 2003", "has no x, y, width and height"),
        ({"h": 1}, "object number 2", "has no x, y, width and height"),
        ([3, 4, 5, 6], "object number 2", "is not a JSON object"),
    ],
)
def test_bad_box_is_named_and_costs_no_other(genome: Path, box: Any, name: str, reason: str):
    save_genome(genome, "objects", [{"image_id": 3, "objects": [thing(3), box, thing(3, x=9)]}])
    bad, first, *_ = visual_genome.described(genome, images=None)
    assert bad == BadRow(f"objects.json: image 3, {name}", reason)
    assert first["boxes"] == [[1, 2, 11, 22], [3, 4, 8, 10], [9, 4, 14, 10]]


def test_entry_without_an_image_or_a_size_is_named(genome: Path):
    save_genome(genome, "image_data", [{"image_id": 3, "width": 80}, 5, {"image_id": 6, "width": 80, "height": 60}])
    save_genome(genome, "objects", [{"objects": []}, {"image_id": 6, "objects": None}])
    *bad, row = visual_genome.described(genome, images=None)
    assert [(row.place, row.reason) for row in bad] == [
        ("image_data.json[0]", "has no image_id, width and height"),
        ("image_data.json[1]", "has no image_id, width and height"),
        ("objects.json[0]", "has no id of an image, or no list of objects"),
        ("objects.json[1]", "has no id of an image, or no list of objects"),
    ]
    assert row["id"] == "6"


def test_fewer_images_than_are_to_be_drawn_are_an_error(genome: Path):
    with pytest.raises(DataError, match="has 40 images, fewer than the 500 to draw"):
        list(visual_genome.described(genome))


@pytest.mark.parametrize("name", ["image_data", "region_descriptions", "objects"])
def test_missing_file_is_an_error_that_names_it(genome: Path, name: str):
    (genome / f"{name}.json").unlink()
    with pytest.raises(DataError, match=f"{name}.json: cannot be read: No such file"):
        list(visual_genome.described(genome, images=1))


def test_file_in_place_of_the_folder_is_an_error(genome: Path):
    with pytest.raises(DataError, match="is a file; the data set is a folder"):
        list(visual_genome.described(genome / "objects.json"))


# --- what is missing


@pytest.mark.parametrize(
    ("read", "file", "data_set"),
    [
        (karpathy, "dataset_coco.json", "coco_chair"),
        (validation, NOCAPS, "nocaps"),
        (vizwiz.described, "val.json", "vizwiz"),
    ],
)
def test_missing_file_is_named_with_the_call_that_says_where_to_get_it(
    tmp_path: Path, read: Callable[[Path], Any], file: str, data_set: str
):
    with pytest.raises(DataError, match=f"{file}: cannot be read: No such file") as caught:
        list(read(tmp_path))
    assert f"bench data {data_set}" in caught.value.hint
