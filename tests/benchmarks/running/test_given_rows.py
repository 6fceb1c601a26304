"""Captions, references and images as lists, and images that are decoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_images import noise_image, noise_png

import capbench
from capbench.errors import UsageError
from capbench.rows import BadRow

PREDICTIONS = ["a dog runs", "two cats", "a red bus"]
REFERENCES = [["a dog is running", "the dog runs fast"], "two cats sleep", ("a bus on a street",)]
METRICS = ["cider", "bleu_1"]


def values(table: capbench.ScoreTable, metric: str) -> list[float]:
    return [row[metric] for row in table]


def test_lists_are_scored_as_rows_are():
    listed = capbench.score(predictions=PREDICTIONS, references=REFERENCES, metrics=METRICS)
    rows = [
        {"candidate": one, "references": [two] if isinstance(two, str) else list(two)}
        for one, two in zip(PREDICTIONS, REFERENCES, strict=True)
    ]
    by_row = capbench.score(rows, METRICS)
    assert listed.system == by_row.system
    assert listed.rows == by_row.rows
    assert [row["id"] for row in listed] == ["0", "1", "2"]


def by_id(values: list[Any]) -> dict[str, Any]:
    return {f"image {number}": value for number, value in enumerate(values)}


def test_mappings_of_ids_are_joined_and_scored_as_lists_are():
    listed = capbench.score(predictions=PREDICTIONS, references=REFERENCES, metrics=METRICS)
    # As pycocoevalcap has them: a list of one caption; in whatever order.
    references = dict(reversed(by_id(REFERENCES).items()))
    for predictions in (by_id([[one] for one in PREDICTIONS]), by_id(PREDICTIONS)):
        joined = capbench.score(predictions=predictions, references=references, metrics=METRICS)
        assert joined.system == listed.system
        assert [row["id"] for row in joined] == list(predictions)
        assert [row["candidate"] for row in joined] == PREDICTIONS
        assert values(joined, "cider") == values(listed, "cider")
    images = [noise_png(number) for number in range(3)]
    settings: dict[str, Any] = {"metrics": "clip_s", "model": "shapes-clip"}
    of_lists = capbench.score(predictions=PREDICTIONS, images=images, **settings)
    of_ids = capbench.score(predictions=by_id(PREDICTIONS), images=by_id(images), **settings)
    assert values(of_ids, "clip_s") == values(of_lists, "clip_s")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"predictions": {"0": ["a", "b"]}}, r"of '0' there is not one caption: \['a', 'b'\]"),
        ({"predictions": {"0": []}}, r"of '0' there is not one caption: \[\]"),
        ({"predictions": {"0": [{"caption": "a"}]}}, "of '0' there is not one caption"),
        ({"predictions": {"0": ["a"]}, "references": {}}, "'references' has nothing of '0'"),
        ({"predictions": {}, "references": {"0": ["a"]}}, "'candidate' has nothing of '0'"),
        ({"predictions": {"0": ["a"]}, "references": {0: ["a"]}}, "'candidate' has nothing of 0"),
        (
            {"predictions": {str(n): ["a"] for n in range(9)}, "images": {"8": b""}},
            "'image' has nothing of '0', '1', '2', and 5 more",
        ),
        ({"predictions": {"0": ["a"]}, "references": [["a"]]}, "'candidate' is by id, and 'references' is not"),
        ({"predictions": ["a"], "references": {"0": ["a"]}}, "'references' is by id, and 'candidate' is not"),
    ],
)
def test_ids_that_cannot_be_joined_are_named(keys: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message) as caught:
        capbench.score(metrics="length", **keys)
    assert "{ID: [CAPTION]}" in (caught.value.hint or "")


def test_decoded_images_are_scored_as_encoded_ones_to_the_bit():
    images = [noise_image(number) for number in range(3)]
    settings: dict[str, Any] = {"predictions": PREDICTIONS, "metrics": "clip_s", "model": "shapes-clip"}
    of_files = capbench.score(images=[noise_png(number) for number in range(3)], **settings)
    of_pillow = capbench.score(images=images, **settings)
    of_arrays = capbench.score(images=[np.asarray(image) for image in images], **settings)
    assert len(set(values(of_files, "clip_s"))) == 3
    assert values(of_pillow, "clip_s") == values(of_arrays, "clip_s") == values(of_files, "clip_s")
    rows = [BadRow("a:1", "is broken"), {"caption": "a dog", "image": images[0]}]
    mixed = capbench.score(rows, "clip_s", model="shapes-clip")
    assert (len(mixed.rows), len(mixed.failures)) == (1, 1)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "neither rows nor predictions were given"),
        ({"rows": [], "predictions": []}, "both rows and predictions were given"),
        ({"rows": [], "references": []}, "rows have their own references and images"),
        ({"rows": [], "images": []}, "rows have their own references and images"),
        ({"predictions": "a dog"}, "'candidate' is one text, where a list is expected"),
        ({"predictions": PREDICTIONS, "references": "a dog"}, "'references' is one text"),
        (
            {"predictions": PREDICTIONS, "references": [["a"], ["b"]], "images": [b""]},
            "there are 3 of 'candidate', 2 of 'references', 1 of 'image'",
        ),
    ],
)
def test_lists_that_do_not_fit_each_other_are_named(keys: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message) as caught:
        capbench.score(metrics="length", **keys)
    assert "score(ROWS, metrics)" in (caught.value.hint or "")


def test_images_that_no_row_could_have_are_refused():
    settings: dict[str, Any] = {"predictions": ["a dog"], "metrics": "clip_s", "model": "shapes-clip"}
    for image in (np.zeros((4, 4, 3)), np.zeros((2, 4, 5), np.uint8), np.zeros(4, np.uint8)):
        with pytest.raises(UsageError, match=r"an image is an array of .* of shape \[") as caught:
            capbench.score(images=[image], **settings)
        assert "[h, w, 3]" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="mode F has numbers whose range is not known"):
        capbench.score(images=[Image.new("F", (4, 4))], **settings)
