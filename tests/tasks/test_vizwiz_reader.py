from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capbench.errors import DataError
from capbench.tasks.vizwiz.reader import described

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
def folder(tmp_path: Path) -> Path:
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


def test_spam_and_the_ready_made_caption_are_no_references(folder: Path):
    first, second = described(folder)
    assert first == {
        "id": "23431",
        "image": "VizWiz_val_00000000.jpg",
        "references": ["A computer screen.", "A laptop with text."],
    }
    assert second["references"] == []


def test_missing_file_is_an_error_that_says_where_to_get_it(tmp_path: Path):
    with pytest.raises(DataError, match=r"val\.json: there is no such file") as caught:
        list(described(tmp_path))
    assert "bench data vizwiz" in caught.value.hint
