from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capbench.errors import DataError
from capbench.rows import BadRow
from capbench.tasks.nocaps.reader import FILE, validation

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
def folder(tmp_path: Path) -> Path:
    save(tmp_path, [image(n, domain) for n, domain in enumerate(DOMAINS)])
    return tmp_path


def save(folder: Path, images: list[Any]) -> None:
    captions = [{"image_id": n % 4, "id": n, "caption": f"caption {n}"} for n in range(8)]
    (folder / FILE).write_text(json.dumps({"licenses": [], "info": {}, "images": images, "annotations": captions}))


def test_images_have_their_captions_and_domain(folder: Path):
    rows = list(validation(folder))
    assert [row["domain"] for row in rows] == DOMAINS
    assert rows[1] == {
        "id": "1",
        "image": "0013ea20870209011.jpg",
        "domain": "near-domain",
        "references": ["caption 1", "caption 5"],
    }


@pytest.mark.parametrize(("domain", "ids"), [("in-domain", ["0"]), ("near-domain", ["1", "3"]), ("out-domain", ["2"])])
def test_images_of_one_domain(folder: Path, domain: str, ids: list[str]):
    assert [row["id"] for row in validation(folder, domain=domain)] == ids


def test_unknown_domain_is_named_where_domains_are_asked_for(folder: Path):
    save(folder, [image(0, None), image(1, "near-domain"), image(2, "in-domain"), image(3, "in-domain")])
    assert len(list(validation(folder))) == 4
    assert list(validation(folder, domain="out-domain")) == [
        BadRow(f"{FILE}: image 0", "has the domain None, not one of in-domain, near-domain, out-domain")
    ]


def test_missing_file_is_an_error_that_says_where_to_get_it(tmp_path: Path):
    with pytest.raises(DataError, match=f"{FILE}: there is no such file") as caught:
        list(validation(tmp_path))
    assert "bench data nocaps" in caught.value.hint
