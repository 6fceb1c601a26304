"""Visual Genome with CLIP-F1, end to end: files in the released layout, a checkpoint, recorded captions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_clip import TinyClip

import capbench
from capbench.adapters import ImageHandle
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.benchmarks.records.task_run import TaskRun
from capbench.metrics.clip_f1 import text_parts
from capbench.tasks.index import BUILTIN_FOLDER

IDS = [2, 5, 11]
CAPTIONS = {
    2: "A red square. Is the sky blue? It is!",
    5: "Two green circles stand beside a house. " * 12,
    11: "nothing",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three images of 48 x 40 pixels, in both folders, with a region and an object each; one box is bad."""
    folder = tmp_path / "visual_genome"
    images = [{"image_id": n, "width": 48, "height": 40, "url": "", "coco_id": None} for n in IDS]
    box = {"x": 4, "y": 2, "phrase": "a tree"}
    areas = [{"id": n, "regions": [{"region_id": n, "image_id": n, "width": 20 + n, "height": 9, **box}]} for n in IDS]
    objects = [
        {"image_id": n, "objects": [{"object_id": n, "x": 9, "y": n, "w": 12, "h": 90, "names": ["a"]}]} for n in IDS
    ]
    objects[0]["objects"].append({"object_id": 99, "x": 48, "y": 0, "w": 5, "h": 5, "names": ["b"]})
    generator = np.random.default_rng(0)
    for number, sub in zip(IDS, ("VG_100K", "VG_100K_2", "VG_100K_2"), strict=True):
        (folder / sub).mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 255, size=(5, 6, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
        Image.fromarray(pixels).save(folder / sub / f"{number}.jpg")
    for name, value in (("image_data", images), ("region_descriptions", areas), ("objects", objects)):
        (folder / f"{name}.json").write_text(json.dumps(value))
    (tmp_path / "captions.jsonl").write_text(
        "".join(json.dumps({"image_id": n, "caption": text}) + "\n" for n, text in CAPTIONS.items())
    )
    (tmp_path / "few.yaml").write_text(
        f"include: {BUILTIN_FOLDER}/visual_genome/vg_clip_f1.yaml\n"
        "task: vg_few\ndataset_kwargs: {images: 3}\nmetadata: {version: 1.0}\n"
    )
    return folder


def run(data: Path, tiny_clip: TinyClip, **settings: Any) -> TaskRun:
    done = capbench.evaluate(
        f"captions:{data.parent / 'captions.jsonl'}",
        ["vg_few"],
        encoder="open_clip",
        encoder_args=f"pretrained={tiny_clip.open_clip_folder},device=cpu",
        include_path=[data.parent],
        data={"vg_few": data},
        **{"resamples": 0} | settings,
    )
    return done["vg_few"]


def expected(data: Path, encoder: OpenClipEncoder, k: int) -> tuple[float, float, float]:
    """Precision, recall and F1 of the three images, from what the encoder gives for each part."""

    def features(batches: Any) -> np.ndarray:
        vector_of = {at: vector for batch in batches for at, vector in batch.vectors.items()}
        rows = np.stack([vector_of[n] for n in range(len(vector_of))]).astype(np.float64)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def represented(vectors: np.ndarray, members: np.ndarray) -> float:
        shares = []
        # What an encoder gives for one text, or one crop, in two places of a batch differs by rounding.
        rcond = np.finfo(np.float32).eps * vectors.shape[1]
        for vector in vectors:
            nearest = members[np.argsort(-(members @ vector))[:k]].T
            shares.append(np.linalg.norm(nearest @ np.linalg.lstsq(nearest, vector, rcond=rcond)[0]))
        return float(np.mean(shares))

    table = []
    for number, sub in zip(IDS, ("VG_100K", "VG_100K_2", "VG_100K_2"), strict=True):
        file = data / sub / f"{number}.jpg"
        boxes = [(4, 2, 24 + number, 11), (9, number, 21, number + 90), None]
        parts = features(encoder.images([ImageHandle(file, box) for box in boxes]))
        words = features(encoder.texts(text_parts(CAPTIONS[number])))
        precision, recall = represented(words, parts), represented(parts, words)
        table.append((precision, recall, 2 * precision * recall / (precision + recall)))
    precision, recall, f1 = np.mean(table, axis=0).tolist()
    return precision, recall, f1


def test_nine_numbers_of_the_paper_from_files_to_record(data: Path, tiny_clip: TinyClip):
    done = run(data, tiny_clip)
    encoder = OpenClipEncoder(str(tiny_clip.open_clip_folder), device="cpu")
    values = {result.metric: result.value for result in done.results}
    assert len(values) == 9
    for k in (3, 5, 10):
        measured = [values[f"clip_{name}_{k}"] for name in ("precision", "recall", "f1")]
        assert measured == pytest.approx(expected(data, encoder, k), abs=1e-5)
    assert {(result.n, result.scale) for result in done.results} == {(3, 100)}
    assert done.record.truncation["clip_f1_5"].to_json() == {
        "captions": 3, "cut": 1, "share": pytest.approx(1 / 3), "context_length": 77
    }  # fmt: skip
    (failure,) = done.record.failures
    assert failure["samples"] == ["objects.json: image 2, object 99"]
    assert failure["reason"] == "lies outside the image of 48 x 40: 5 x 5 at 48, 0"
    assert done.record.published == {}


def test_missing_photograph_is_named_and_costs_no_other(data: Path, tiny_clip: TinyClip):
    whole = run(data, tiny_clip).samples.to_pydict()
    (data / "VG_100K_2" / "5.jpg").unlink()
    done = run(data, tiny_clip)
    table = done.samples.to_pydict()
    row = table["id"].index("5")
    assert table["clip_f1_5"][row] is None
    assert "5.jpg: No such file or directory" in table["failure"][row]
    for other in ("2", "11"):
        assert table["clip_f1_5"][table["id"].index(other)] == whole["clip_f1_5"][whole["id"].index(other)]
    assert {result.n for result in done.results} == {2}
