from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capbench.rows import BadRow
from capbench.tasks.composite.reader import unify
from capbench.tasks.documents import load_documents
from capbench.tasks.index import build_index
from capbench.tasks.locate import DataLocations
from capbench.tasks.schema import load_task

LOCAL = {"subset": "8k", "image_id": "a", "caption": "a dog .", "rating": 5, "refs": ["A dog.", "One dog."]}
HUB = {"img": {"bytes": b"\x89PNG", "path": None}, "cand": "a dog .", "human_score": 0.5, "refs": ["A dog."]}


def test_row_of_the_jsonl_layout():
    assert list(unify([LOCAL])) == [
        {
            "id": "0|a",
            "subset": "8k",
            "image": "8k/a",
            "candidate": "a dog .",
            "references": ["A dog.", "One dog."],
            "rating": 5,
        }
    ]


@pytest.mark.parametrize(
    "document",
    [HUB, {"img": HUB["img"], "mt": "a dog .", "score": 0.5, "references": ["A dog."]}],
    ids=["cand, refs, human_score", "mt, references, score"],
)
def test_row_of_the_hub_layout_names_its_image_by_its_bytes(document: dict[str, Any]):
    (row,) = unify([document])
    name = hashlib.sha256(b"\x89PNG").hexdigest()[:16]
    assert row == {
        "id": f"0|{name}",
        "subset": "",
        "image": f"/{name}",
        "candidate": "a dog .",
        "references": ["A dog."],
        "rating": 0.5,
    }


def test_captions_of_one_image_share_its_name_and_not_their_ids():
    other = {**HUB, "img": {"bytes": b"\xff\xd8", "path": None}}
    first, second, third = unify([HUB, {**HUB, "cand": "two dogs ."}, other])
    assert first["image"] == second["image"] != third["image"]
    assert len({first["id"], second["id"], third["id"]}) == 3


@pytest.mark.parametrize("image", [None, {"bytes": None, "path": "a.jpg"}])
def test_image_that_is_left_out_is_named_by_its_references(image: Any):
    first, second, third = unify(
        [{**HUB, "img": image}, {**HUB, "img": image, "cand": "x"}, {**HUB, "img": image, "refs": ["A cat."]}]
    )
    assert first["image"] == second["image"] != third["image"]


@pytest.mark.parametrize("references", [None, "A dog.", 5])
def test_document_without_a_list_of_references_is_named_and_the_others_survive(references: Any):
    first, bad, last = unify([LOCAL, {**LOCAL, "refs": references}, LOCAL])
    assert bad == BadRow("document 1", "has no list of references ('refs')")
    assert (first["id"], last["id"]) == ("0|a", "2|a")


def test_what_a_document_lacks_is_left_for_the_protocol_to_report():
    (row,) = unify([{"refs": ["A dog."]}])
    assert (row["candidate"], row["rating"]) == (None, None)


@pytest.mark.data
def test_released_copy_gives_11985_ratings_of_3995_images(data_folder: Callable[[str], Path]):
    entry = build_index().entries["composite"]
    task, _ = load_task(entry.path)
    found = load_documents(task, entry.path, DataLocations({"composite": data_folder("composite")}))
    assert not found.bad_rows
    assert len(found.rows) == len({row["id"] for row in found.rows}) == 11_985
    images = Counter(row["image"] for row in found.rows)
    assert len(images) == 3_995
    assert set(images.values()) == {3}
    # 997 Flickr8k, 991 Flickr30k and 2,007 COCO images.
    assert sorted(Counter(image.partition("/")[0] for image in images).values()) == [991, 997, 2_007]
