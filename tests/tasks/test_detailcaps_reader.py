from __future__ import annotations

import json
from typing import Any

import pytest

from capbench.rows import BadRow
from capbench.tasks.detailcaps.reader import CAPTIONERS, rated_captions

SCORES = {"CogVLM": 4, "ShareCaptioner": 3.5, "LLaVA_v15": 0, "other": 1}
DOCUMENT = {
    "image": "a.jpg",
    "source": "coco",
    "GT_Caption_GPT4O": "o",
    "GT_Caption_GPT4V": "v",
    "GT_Caption_Gemini15Pro": "g",
    "CogVLM": "by CogVLM",
    "ShareCaptioner": "by ShareCaptioner",
    "LLaVA_v15": "by LLaVA",
    "GPT4_Eval": json.dumps(SCORES),
}


def test_each_image_gives_its_three_captions_with_their_scores():
    rows = list(rated_captions([DOCUMENT]))
    assert [(row["id"], row["candidate"], row["rating"]) for row in rows] == [
        ("0|ShareCaptioner", "by ShareCaptioner", 3.5),
        ("0|CogVLM", "by CogVLM", 4.0),
        ("0|LLaVA_v15", "by LLaVA", 0.0),
    ]
    assert rows[0] == {
        "id": "0|ShareCaptioner",
        "image": "0|a.jpg",
        "candidate": "by ShareCaptioner",
        "rating": 3.5,
        "GT_Caption_GPT4O": "o",
        "GT_Caption_GPT4V": "v",
        "GT_Caption_Gemini15Pro": "g",
    }


def test_rows_that_share_an_image_name_are_different_images():
    rows = list(rated_captions([DOCUMENT, DOCUMENT]))
    assert len({row["image"] for row in rows}) == 2
    assert len({row["id"] for row in rows}) == 6


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        (None, "has no expert scores (GPT4_Eval is null)"),
        ('{"CogVLM": 4, "ShareCapt', "JSONDecodeError"),
        ("", "JSONDecodeError"),
        ("null", "TypeError"),
        ("[4, 3, 2]", "TypeError"),
        (5, "TypeError"),
        (json.dumps({"CogVLM": 4, "ShareCaptioner": 3}), "KeyError: 'LLaVA_v15'"),
        (json.dumps({**SCORES, "CogVLM": None}), "TypeError"),
        (json.dumps({**SCORES, "CogVLM": "good"}), "ValueError"),
        (json.dumps({**SCORES, "CogVLM": True}), "TypeError: is not a number: True"),
        (json.dumps({**SCORES, "CogVLM": "1_0"}), "ValueError: is not a number: '1_0'"),
        ('{"CogVLM": 1, "CogVLM": 2, "ShareCaptioner": 3, "LLaVA_v15": 1}', "key 'CogVLM' is given twice"),
        (json.dumps({**SCORES, "CogVLM": float("nan")}), "NaN is not a JSON value"),
        (json.dumps({**SCORES, "CogVLM": "NaN"}), "a score that is not finite"),
        ('{"CogVLM": 1e999, "ShareCaptioner": 3, "LLaVA_v15": 1}', "a score that is not finite"),
    ],
)
def test_image_without_a_score_of_each_caption_is_named_and_the_others_survive(encoded: Any, reason: str):
    rows = list(rated_captions([DOCUMENT, {**DOCUMENT, "GPT4_Eval": encoded}, DOCUMENT]))
    assert len(rows) == 7
    bad = rows[3]
    assert isinstance(bad, BadRow)
    assert bad.place == "row 1 (a.jpg)"
    assert reason in bad.reason
    assert rows[4]["id"] == "2|ShareCaptioner"


def test_caption_that_a_document_lacks_is_left_for_the_protocol_to_report():
    rows = list(rated_captions([{key: value for key, value in DOCUMENT.items() if key != "CogVLM"}]))
    assert [row["candidate"] for row in rows] == ["by ShareCaptioner", None, "by LLaVA"]
    assert len(rows) == len(CAPTIONERS)
