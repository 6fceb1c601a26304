"""SugarCrepe++: hits of images and of texts alone, against the released comparisons on the same vectors."""

import json
import zlib
from functools import cache
from typing import Any

import numpy as np
import pytest
from named_features import NamedFeatures
from task_keys import write_task

import capbench
from capbench.benchmarks.protocols.matching.image_text_hits import Likeness, prefer_captions
from capbench.errors import TaskError
from capbench.metrics.golden import read_golden

TASK = {
    "task": "mine",
    "output_type": "matching",
    "doc_to_captions": "true",
    "doc_to_negatives": "false",
    "protocol": {"measure": "texts", "captions": 2},
}


@cache
def of_word(word: str) -> np.ndarray:
    return np.random.default_rng(zlib.crc32(word.encode())).integers(-9, 10, 48)


def bag(text: str) -> np.ndarray:
    """Return a vector of a text's words in any order: whole numbers, so that the same words tie exactly."""
    return np.sum([of_word(word) for word in text.lower().replace(".", "").replace(",", "").split()], axis=0)


@pytest.mark.data
def test_shares_are_those_of_the_released_comparisons(data_folder):
    folder, golden = data_folder("sugarcrepe_pp"), read_golden("sugarcrepe_pp")
    run = capbench.evaluate(
        NamedFeatures(bag, 99), "sugarcrepe_pp_text", data={"sugarcrepe_pp_text": folder}, resamples=0
    )
    texts = {result.category: result.value for result in run["sugarcrepe_pp_text"].results}
    for subset, released in golden["accuracy"].items():
        assert texts[subset] == pytest.approx(released["text-only task"], abs=1e-12)
        hits: list[list[float]] = []
        for row in json.loads((folder / f"{subset}.json").read_text()):
            names = (row["filename"], row["caption"], row["caption2"], row["negative_caption"])
            units = [(vector / np.linalg.norm(vector)).astype(np.float32) for vector in map(bag, names)]
            image, (first, second, false) = units[0], (unit[None] for unit in units[1:])
            pairs = (np.concatenate([first, second]), first, second)
            hits.append([prefer_captions(Likeness.of_vectors(image, captions, false)).hit for captions in pairs])
        means = dict(zip(("image-to-text task", "Image-P1-Neg", "Image-P2-Neg"), np.mean(hits, axis=0), strict=True))
        assert means == pytest.approx({name: released[name] for name in means}, abs=1e-12)


@pytest.mark.parametrize(
    ("false", "hit"),
    [
        ([0, 1], 1),
        ([1, 0.1], 0),  # nearer to the first than that is to the second
        ([1, 1], 0),  # nearer to the second
        ([4, 3], 0),  # as near to the first as that is to the second
    ],
)
def test_true_captions_are_nearer_to_each_other_than_each_to_a_false_one(tmp_path, false: list[float], hit: float):
    features: dict[str, Any] = {"a": [1, 0], "b": [4, 3], "c": [0, -1], "d": false}
    rows = [{"true": ["a", "b"], "false": ["c", "d"]}]
    run = capbench.evaluate(
        NamedFeatures(features), "mine", include_path=[write_task(tmp_path, rows, TASK)], resamples=0
    )
    (result,) = run["mine"].results
    assert (result.label[0], result.value, result.n) == ("Texts", hit, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"doc_to_image": "true"}, "doc_to_image"), ({"protocol": {"measure": "texts"}}, "captions must be 2 or more")],
)
def test_images_and_single_captions_are_refused(tmp_path, change: dict[str, Any], message: str):
    write_task(tmp_path, [{"true": ["a", "b"], "false": "c"}], TASK | change)
    with pytest.raises(TaskError, match=message):
        capbench.evaluate(NamedFeatures({}), "mine", include_path=[tmp_path])
