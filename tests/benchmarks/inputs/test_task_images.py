"""Pictures of samples: of each kind of image on this machine, or why there is none and what to do."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageSequence
from task_keys import CAPTIONING
from tiny_images import noise_video

from capbench.benchmarks.inputs.task_images import NoPicture, Picture, TaskImages
from capbench.tasks.index import build_index
from capbench.tasks.locate import DataLocations
from capbench.tasks.schema import load_task


def frames_of(picture: Picture | NoPicture) -> list[Image.Image]:
    assert isinstance(picture, Picture)
    return [frame.convert("RGB") for frame in ImageSequence.Iterator(Image.open(io.BytesIO(picture.content)))]


def images_of(folder: Path, rows: list[dict[str, Any]], **task: Any) -> TaskImages:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "small.yaml").write_text(json.dumps(CAPTIONING | {"task": "small", "doc_to_id": "id"} | task))
    (folder / task.get("image_folder", "images")).mkdir(exist_ok=True)
    return TaskImages(load_task(folder / "small.yaml")[0], folder / "small.yaml", DataLocations())


@pytest.mark.parametrize(("task", "sample", "size", "frames"), [
    ("shapes_expert", "8000-omission", (128, 128), 1), ("shapes_squares", "78000-replace_obj", (264, 128), 1),
    ("shapes_dci_all_neg", "32000|base", (128, 128), 1), ("shapes_dci_all_neg", "32000|thing-0", (60, 60), 1),
    ("shapes_vatex_noref", "40000-full", (128, 128), 12),
])  # fmt: skip
def test_scenes_pairs_crops_and_clips_are_shown(task: str, sample: str, size: tuple[int, int], frames: int):
    path = build_index().entries[task].path
    picture = TaskImages(load_task(path)[0], path, DataLocations()).read(sample, "a name that is no file")
    shown = frames_of(picture)
    assert (shown[0].size, len(shown)) == (size, frames)
    assert isinstance(picture, Picture) and picture.of_video == (frames > 1)
    # What is drawn is not of one colour, on either half.
    width, height = size
    halves = shown[0].crop((0, 0, width // 2, height)), shown[0].crop((width // 2, 0, width, height))
    assert all(len(half.getcolors(1 << 16) or ()) > 1 for half in halves)


def test_videos_play_as_long_as_they_are(tmp_path: Path):
    images = images_of(tmp_path, [{"id": "a", "image": "a.mp4"}], video_folder="images")
    noise_video(tmp_path / "images/a.mp4", 1, 40)
    picture = images.read("a", "a.mp4")
    shown = frames_of(picture)
    assert (shown[0].size, len(shown)) == ((64, 48), 16)
    assert isinstance(picture, Picture) and picture.media_type == "image/webp"
    assert Image.open(io.BytesIO(picture.content)).info["loop"] == 0


def test_what_browsers_do_not_show_is_encoded_and_what_is_missing_has_a_remedy(tmp_path: Path):
    (tmp_path / "away").mkdir()
    task = tmp_path / "task"
    task.mkdir()
    images = images_of(task, [{"id": f"{n}", "image": f"{n}.tif"} for n in range(4)], image_folder="images")
    for place in (task / "images/0.tif", tmp_path / "away/1.tif"):
        Image.new("RGB", (9, 7), "red").save(place)
    (task / "images/1.tif").symlink_to(tmp_path / "away/1.tif")
    (task / "images/2.tif").write_bytes(b"no image")
    (colour,) = frames_of(images.read("0", "0.tif"))[0].getcolors() or ()
    assert colour[0] == 63 and colour[1][0] > 250  # type: ignore[index]
    outside, faulty, missing = (images.read(f"{n}", f"{n}.tif") for n in (1, 2, 3))
    assert isinstance(outside, NoPicture) and f"--allow_outside {tmp_path}/away" in outside.remedy
    assert isinstance(faulty, NoPicture) and faulty.reason == "cannot be read"
    assert missing == NoPicture("is not on this machine", "'bench data small' shows where it belongs.")
