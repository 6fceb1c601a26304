"""DCI in the released layout: which entries an image has, their boxes, captions and negatives, and what is dropped."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tiny_dci import ENTRIES, edit

from capbench.errors import DataError, TaskError
from capbench.rows import BadRow
from capbench.tasks.dci.reader import images


@pytest.fixture
def folder(dci: Path, tmp_path: Path) -> Path:
    return shutil.copytree(dci, tmp_path / "dci")


def documents(folder: Path, **kwargs: Any) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in images(folder, **kwargs) if not isinstance(row, BadRow)}


def dropped(folder: Path, **kwargs: Any) -> dict[str, str]:
    return {row.place: row.reason for row in images(folder, **kwargs) if isinstance(row, BadRow)}


def entries(folder: Path, image: str, **kwargs: Any) -> dict[str, dict[str, Any]]:
    return {entry["key"]: entry for entry in documents(folder, **kwargs)[image]["entries"]}


def annotation(folder: Path, image: str) -> dict[str, Any]:
    return json.loads((folder / "complete" / f"{image}.json").read_text())


def test_base_stands_first_then_large_masks_in_the_order_of_the_file(folder: Path):
    read = documents(folder)
    assert {image: [entry["key"] for entry in row["entries"]] for image, row in read.items()} == ENTRIES
    assert read["sa_3"]["image"] == "sa_3.png"


def test_box_is_padded_by_a_truncated_share_of_itself_and_clipped_to_the_photo(folder: Path):
    boxes = {key: entry["box"] for key, entry in entries(folder, "sa_1").items()}
    assert boxes["base"] is None
    # 224 x 0.15 is 33.6.
    assert boxes["m-10-sc"] == [150 - 33, 60 - 33, 374 + 33, 284 + 33]
    # Padding 39 and 36, of which left and top are clipped at 0.
    assert boxes["m-7-sc"] == [0, 0, 260 + 39, 240 + 36]
    # Padding 47 and 44; the photo is 520 x 400.
    assert boxes["m-2-sc"] == [200 - 47, 100 - 44, 520, 400]


@pytest.mark.parametrize("source", ["swaps", "layout", "basic"])
def test_negative_is_the_first_of_its_kind(folder: Path, source: str):
    written = annotation(folder, "sa_1")["negatives"]
    for key, entry in entries(folder, "sa_1", negative=source).items():
        assert entry["negatives"] == [written[key][source][0]]


def test_hardest_negative_has_the_highest_stored_score_whatever_its_kind(folder: Path):
    content = annotation(folder, "sa_1")
    for key, entry in entries(folder, "sa_1", negative="hardest").items():
        (text,) = entry["negatives"]
        scores = {k: v for k, v in content["clip_scores"][key].items() if k != "sum"}
        kind, _, number = max(scores, key=scores.__getitem__).rpartition("_")
        assert text == content["negatives"][key][kind][int(number)]


def test_of_equally_hard_negatives_the_last_in_the_file_wins(folder: Path):
    row = annotation(folder, "sa_3")
    scores = row["clip_scores"]["base"]
    assert scores["layout_1"] == scores["basic_0"] == max(v for k, v in scores.items() if k != "sum")
    assert entries(folder, "sa_3", negative="hardest")["base"]["negatives"] == [row["negatives"]["base"]["basic"][0]]


def test_images_are_dropped_as_in_the_released_code_and_named(folder: Path):
    assert dropped(folder) == {
        "no_summaries.json": "has no summaries",
        "no_photo.json": "photo gone.png cannot be opened: No such file or directory",
        "base_only.json": "has negatives of one entry only",
    }


def test_negatives_of_the_whole_image_alone_do_where_no_crops_are_wanted(folder: Path):
    read = documents(folder, crops="base")
    assert list(read) == ["sa_1", "sa_2", "sa_3", "sa_4", "base_only", "sa_5"]
    assert all([entry["key"] for entry in row["entries"]] == ["base"] for row in read.values())


_BOX = {"topLeft": {"x": 700, "y": 0}, "bottomRight": {"x": 990, "y": 300}}


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"negatives": None}, "has no negatives"),
        ({"mask_data": None}, "has no mask_data"),
        ({"clip_scores": None}, "has no negatives, or no clip_scores, of base"),
        ({"image": None}, "names no image"),
        ({"summaries": {"base": ["A picture."]}}, "has no summary of m-0-sc"),
        ({"summaries": {"base": []}}, "has no summary of base"),
        (
            {"mask_data": {"0": {"idx": "0", "bounds": [[0, 0], [500, 500]]}}},
            "mask 0: its bounds are not topLeft and bottomRight with x and y",
        ),
        (
            {"mask_data": {"0": {"idx": "0", "bounds": _BOX}}},
            "mask 0: its box lies outside the photo of 300 x 460 pixels",
        ),
    ],
)
def test_annotation_that_lacks_something_costs_its_image_and_no_other(folder: Path, keys: dict[str, Any], reason: str):
    edit(folder, "sa_2", **keys)
    assert dropped(folder)["sa_2.json"] == reason
    assert list(documents(folder)) == ["sa_1", "sa_3", "sa_4", "sa_5"]


def test_entry_without_a_negative_of_the_kind_costs_its_image(folder: Path):
    content = annotation(folder, "sa_2")
    content["negatives"]["base"]["swaps"] = []
    edit(folder, "sa_2", negatives=content["negatives"])
    assert dropped(folder)["sa_2.json"].startswith("has no swaps negative of base: IndexError")
    assert "sa_2" in documents(folder, negative="layout")


def test_annotation_that_is_missing_or_no_json_is_named(folder: Path):
    (folder / "complete" / "sa_1.json").unlink()
    (folder / "complete" / "sa_4.json").write_text('{"image": ')
    (folder / "complete" / "sa_5.json").write_text("[]")
    reasons = dropped(folder)
    assert "sa_1.json: cannot be read: No such file" in reasons["sa_1.json"]
    assert "not JSON" in reasons["sa_4.json"]
    assert reasons["sa_5.json"] == "is not a JSON object"


def test_all_splits_are_read_in_order(folder: Path):
    splits = {"test": ["sa_1.json"], "valid": ["sa_2.json"], "train": ["sa_3.json", 7]}
    (folder / "splits.json").write_text(json.dumps(splits))
    assert list(documents(folder, split="all")) == ["sa_3", "sa_2", "sa_1"]
    assert list(documents(folder, split="valid")) == ["sa_2"]
    assert dropped(folder, split="all") == {"splits.json: 7": "is not the name of a file"}


@pytest.mark.parametrize("content", ["[]", '{"train": []}', '{"test": "sa_1.json"}'])
def test_wrong_splits_are_refused(folder: Path, content: str):
    (folder / "splits.json").write_text(content)
    with pytest.raises(DataError, match=r"splits\.json: has no list of files for split 'test'"):
        list(images(folder))


def test_folder_without_splits_says_what_is_expected(tmp_path: Path):
    with pytest.raises(DataError, match=r"holds no splits\.json.*\n.*complete and photos"):
        list(images(tmp_path))


@pytest.mark.parametrize("choice", [{"split": "tests"}, {"crops": "mask"}, {"negative": "swap"}, {"texts": "long"}])
def test_unknown_choice_is_refused_with_the_nearest_known_one(folder: Path, choice: dict[str, str]):
    (key, value), *_ = choice.items()
    with pytest.raises(TaskError, match=f"{key} '{value}' is unknown"):
        list(images(folder, **choice))


def test_full_texts_are_all_that_was_written_of_an_entry_and_its_parts(folder: Path):
    masks = annotation(folder, "sa_5")["mask_data"]
    masks["1"] |= {"parent": "0", "caption": "A part of a part."}
    masks["3"] |= {"label": "", "caption": ""}
    edit(folder, "sa_5", mask_data=masks, extra_caption="More of it.")
    by_key = entries(folder, "sa_5", texts="full")
    whole = (
        "Picture 4. More of it. The following can also be seen in the image:\n"
        "part 0: A part 0.\npart 1: A part of a part.\npart 2: A part 2."
    )
    assert by_key["base"]["captions"] == [whole]
    assert by_key["m-0-sc"]["captions"] == ["This is an image of part 0. A part 0.\npart 1: A part of a part."]
    # Nothing was written of the third.
    assert list(by_key) == ["base", "m-0-sc", "m-1-sc", "m-2-sc"]
    assert all(entry["negatives"] == [] for entry in by_key.values())
    boxes = {key: entry["box"] for key, entry in entries(folder, "sa_5").items()}
    assert all(entry["box"] == boxes[key] for key, entry in by_key.items())


def test_image_of_which_nothing_was_written_has_no_full_text(folder: Path):
    masks = {key: mask | {"label": "", "caption": ""} for key, mask in annotation(folder, "sa_2")["mask_data"].items()}
    edit(folder, "sa_2", mask_data=masks, short_caption="")
    assert dropped(folder, texts="full")["sa_2.json"] == "has no caption"
    assert "sa_2.json" not in dropped(folder)
