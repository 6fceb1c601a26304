from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capbench.errors import DataError
from capbench.rows import BadRow
from capbench.tasks.visual_genome.reader import described


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Forty images, the ids of which are 3, 6, ...; image n has one region and one object."""
    ids = range(3, 123, 3)
    save(tmp_path, "image_data", [{"image_id": n, "width": 80, "height": 60, "url": "x"} for n in ids])
    save(tmp_path, "region_descriptions", [{"regions": [region(n)], "id": n} for n in ids])
    save(tmp_path, "objects", [{"image_id": n, "objects": [thing(n)], "image_url": "x"} for n in ids])
    return tmp_path


def save(folder: Path, name: str, value: Any) -> None:
    (folder / f"{name}.json").write_text(json.dumps(value))


def region(image: int, **keys: Any) -> dict[str, Any]:
    box = {"region_id": 1000 + image, "width": 10, "height": 20, "image_id": image, "y": 2, "x": 1}
    return {**box, "phrase": "a tree", **keys}


def thing(image: int, **keys: Any) -> dict[str, Any]:
    return {"synsets": [], "h": 6, "object_id": 2000 + image, "names": ["tree"], "w": 5, "y": 4, "x": 3, **keys}


def test_images_have_the_boxes_of_their_regions_and_objects(folder: Path):
    rows = list(described(folder, images=None))
    assert [row["id"] for row in rows] == [str(n) for n in range(3, 123, 3)]
    assert rows[0] == {"id": "3", "image": "3.jpg", "boxes": [[1, 2, 11, 22], [3, 4, 8, 10]]}


def test_images_are_drawn_by_seed_whatever_the_order_of_the_file(folder: Path):
    drawn = [row["id"] for row in described(folder, images=10, seed=1)]
    assert len(set(drawn)) == 10
    assert drawn == sorted(drawn, key=int)
    entries = json.loads((folder / "image_data.json").read_text())
    save(folder, "image_data", entries[::-1])
    assert [row["id"] for row in described(folder, images=10, seed=1)] == drawn
    assert [row["id"] for row in described(folder, images=10, seed=2)] != drawn


def test_draw_of_the_shipped_task_never_changes(tmp_path: Path):
    # Ids of the release are 1 to 2,417,997, with gaps; every version of Python must draw the same ones.
    ids = range(1, 2_417_997, 23)
    save(tmp_path, "image_data", [{"image_id": n, "width": 8, "height": 6} for n in ids])
    save(tmp_path, "region_descriptions", [])
    save(tmp_path, "objects", [])
    rows = list(described(tmp_path))
    assert len(rows) == 500
    assert [row["id"] for row in rows[:3]] == DRAWN
    assert rows[0]["boxes"] == []


DRAWN = ["921", "4279", "5176"]


def test_entries_of_the_first_version_are_named_by_id(folder: Path):
    save(folder, "image_data", [{"id": 7, "width": 80, "height": 60}])
    save(folder, "objects", [{"id": 7, "objects": [{**thing(7), "object_id": None, "id": 5}]}])
    assert list(described(folder, images=1)) == [{"id": "7", "image": "7.jpg", "boxes": [[3, 4, 8, 10]]}]


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
def test_bad_box_is_named_and_costs_no_other(folder: Path, box: Any, name: str, reason: str):
    save(folder, "objects", [{"image_id": 3, "objects": [thing(3), box, thing(3, x=9)]}])
    bad, first, *_ = described(folder, images=None)
    assert bad == BadRow(f"objects.json: image 3, {name}", reason)
    assert first["boxes"] == [[1, 2, 11, 22], [3, 4, 8, 10], [9, 4, 14, 10]]


def test_box_that_reaches_over_the_edge_is_kept(folder: Path):
    save(folder, "objects", [{"image_id": 3, "objects": [thing(3, x=-2, w=900)]}])
    assert next(iter(described(folder, images=None)))["boxes"][1] == [-2, 4, 898, 10]


def test_boxes_of_images_that_are_not_drawn_are_not_looked_at(folder: Path):
    (drawn,) = described(folder, images=1)
    other = next(n for n in range(3, 123, 3) if str(n) != drawn["id"])
    save(folder, "objects", [{"image_id": other, "objects": [thing(other, w=0)]}])
    assert len(list(described(folder, images=1))) == 1


def test_entry_without_an_image_or_a_size_is_named(folder: Path):
    save(folder, "image_data", [{"image_id": 3, "width": 80}, 5, {"image_id": 6, "width": 80, "height": 60}])
    save(folder, "objects", [{"objects": []}, {"image_id": 6, "objects": None}])
    *bad, row = described(folder, images=None)
    assert [(one.place, one.reason) for one in bad] == [
        ("image_data.json[0]", "has no image_id, width and height"),
        ("image_data.json[1]", "has no image_id, width and height"),
        ("objects.json[0]", "has no id of an image, or no list of objects"),
        ("objects.json[1]", "has no id of an image, or no list of objects"),
    ]
    assert row["id"] == "6"


def test_fewer_images_than_are_to_be_drawn_are_an_error(folder: Path):
    with pytest.raises(DataError, match="has 40 images, fewer than the 500 to draw"):
        list(described(folder))


@pytest.mark.parametrize("name", ["image_data", "region_descriptions", "objects"])
def test_missing_file_is_an_error_that_names_it(folder: Path, name: str):
    (folder / f"{name}.json").unlink()
    with pytest.raises(DataError, match=f"{name}.json: cannot be read: No such file"):
        list(described(folder, images=1))


def test_file_in_place_of_the_folder_is_an_error(folder: Path):
    with pytest.raises(DataError, match="is a file; the data set is a folder"):
        list(described(folder / "objects.json"))
