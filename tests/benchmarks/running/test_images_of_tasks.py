"""Where the images of tasks and of scored rows are found, and what is said of those that are not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from task_keys import AGREEMENT
from tiny_clip import TinyClip

import capbench
from capbench.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task whose data and images lie beside its YAML file."""
    (tmp_path / "images").mkdir()
    rows = []
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 256, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
        rows.append({"image": f"{number}.png", "caption": f"a dog number {number}", "rating": number})
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def run(folder: Path, tiny_clip: TinyClip, **keys: Any) -> capbench.Run:
    task = {key: value for key, value in AGREEMENT.items() if key != "doc_to_target"}
    task |= {"task": "mine", "doc_to_candidate": "caption", "metric_list": ["clip_s", "length"], **keys}
    (folder / "mine.yaml").write_text(json.dumps(task))
    arguments = {"pretrained": str(tiny_clip.open_clip_folder), "device": "cpu"}
    return capbench.evaluate("open_clip", "mine", model_args=arguments, include_path=[folder], resamples=0)


def test_images_beside_the_task_file_are_found_by_folder_or_by_path(folder: Path, tiny_clip: TinyClip):
    by_folder = run(folder, tiny_clip, image_folder="images")["mine"]
    by_path = run(folder, tiny_clip, doc_to_image="images/{{image}}")["mine"]
    assert by_folder.results[0].n == by_path.results[0].n == 4
    assert by_folder.results[0].value == by_path.results[0].value


def test_every_metric_of_the_list_is_run_beside_those_that_need_the_model(folder: Path, tiny_clip: TinyClip):
    done = run(folder, tiny_clip, image_folder="images", metric_list=["length", "clip_s", "pac_s"])["mine"]
    assert [result.metric for result in done.results] == ["length", "clip_s"]
    assert list(done.record.metrics_left_out) == ["pac_s"]


def test_image_that_is_missing_costs_no_other_and_makes_another_run(folder: Path, tiny_clip: TinyClip):
    whole = run(folder, tiny_clip, doc_to_image="images/{{image}}")["mine"]
    (folder / "images/1.png").unlink()
    part = run(folder, tiny_clip, doc_to_image="images/{{image}}")["mine"]
    scores = [sample["clip_s"] for sample in whole.samples.to_pylist()]
    assert [sample["clip_s"] for sample in part.samples.to_pylist()] == [scores[0], None, *scores[2:]]
    (failure,) = part.record.failures
    assert "No such file or directory (in images)" in failure["reason"]
    assert failure["samples"] == ["1"]
    assert part.record.fingerprint != whole.record.fingerprint


NO_PATHS = ["a\0b.png", "\ud800.png", "x" * 300 + ".png", "y/" * 3000]


@pytest.mark.parametrize("keys", [{"doc_to_image": "images/{{image}}"}, {"image_folder": "images"}])
def test_name_that_no_file_system_takes_is_its_rows_failure(folder: Path, tiny_clip: TinyClip, keys: dict[str, str]):
    names = [*NO_PATHS, "0.png", "1.png", "2.png"]
    rows = [{"image": name, "caption": f"a dog {n}", "rating": n} for n, name in enumerate(names)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = run(folder, tiny_clip, metric_list=["clip_s"], **keys)["mine"]
    assert done.results[0].n == 3
    assert sum(failure["count"] for failure in done.record.failures) == 4
    json.dumps(done.record.values).encode("utf-8")


def test_folder_that_is_missing_is_told_before_work_starts(folder: Path, tiny_clip: TinyClip):
    with pytest.raises(DataError, match="its images are not on this machine"):
        run(folder, tiny_clip, image_folder="photographs")


def test_images_that_are_nowhere_are_told_with_what_to_do(folder: Path, tiny_clip: TinyClip):
    (reason,) = run(folder, tiny_clip)["mine"].record.metric_errors.values()
    assert "none of those that the captions are of was found" in reason
    assert "image_folder" in reason
