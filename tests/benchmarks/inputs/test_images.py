import os
from pathlib import Path
from typing import Any

import pytest
from task_keys import UNSEEN

from capbench.adapters import ImageHandle, VideoHandle
from capbench.adapters.images.reading import UnreadableImage, read_bytes
from capbench.adapters.images.video import is_recorded, read_frames
from capbench.benchmarks.inputs import images
from capbench.benchmarks.inputs.images import ImageFinder, boxes_fault, handle_of, pixels_value, view_fault
from capbench.boundary import Boundary
from capbench.errors import DataError
from capbench.tasks.row_images import RowImage
from capbench.tasks.schema import TaskConfig
from capbench.tasks.shapes.clips import sample_clip
from capbench.tasks.shapes.pictures import DrawnClip


def make_task(**keys: Any) -> TaskConfig:
    return TaskConfig.model_validate({**UNSEEN, "task": "mine", "metric_list": ["length"], **keys})


def finder_of(task: TaskConfig, data: Path | None) -> ImageFinder:
    return ImageFinder(task, data, Boundary.of(*([data] if data else [])))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("first/a.jpg", "second/b.jpg", "second/a.jpg", "second/8k.jpg", "clips/v.mp4", "clips/w.mp4"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "clips/w.npy").write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("a.jpg", "first/a.jpg"),
        ("b.jpg", "second/b.jpg"),
        ("b", "second/b.jpg"),
        ("30k/b", "second/b.jpg"),
        ("nowhere.jpg", "first/nowhere.jpg"),
    ],
)
def test_image_is_looked_for_in_the_folders_in_their_order(data: Path, name: str, place: str):
    finder = finder_of(make_task(image_folder=["first", "second"]), data)
    assert finder(name) == ImageHandle(data / place)


def test_folders_lie_beside_a_data_file_that_was_named(data: Path):
    (data / "rows.jsonl").write_text("{}")
    finder = finder_of(make_task(image_folder="first"), data / "rows.jsonl")
    assert finder("a.jpg") == ImageHandle(data / "first/a.jpg")


def test_recorded_features_of_a_video_come_before_the_video(data: Path):
    finder = finder_of(make_task(video_folder="clips"), data)
    assert finder("w", (0.0, 1.0, 4.0)) == VideoHandle(data / "clips/w.npy", (0.0, 1.0, 4.0))
    assert finder("v") == VideoHandle(data / "clips/v.mp4")


def test_without_a_folder_only_a_path_or_bytes_have_pixels(data: Path):
    finder = finder_of(make_task(), data)
    assert finder("a.jpg") is None
    assert finder("x" * 5000) is None
    assert finder("a\0b") is None
    assert finder(None) is None
    assert finder(str(data / "first/a.jpg")) == ImageHandle(data / "first/a.jpg")
    assert finder(b"\xff\xd8") == ImageHandle(b"\xff\xd8")
    assert finder({"bytes": b"\xff\xd8", "path": "a.jpg"}) == ImageHandle(b"\xff\xd8")


def test_image_in_a_row_of_a_data_set_is_taken_whatever_the_folders(data: Path):
    image = RowImage([{"binary": b"x"}], "binary", 0, Boundary())
    assert finder_of(make_task(image_folder="first"), data)(image) == ImageHandle(image)
    assert pixels_value({"doc_to_image": "a.jpg", "doc_to_pixels": image}) is image
    assert pixels_value({"doc_to_image": "a.jpg", "doc_to_pixels": None}) == "a.jpg"


def test_what_gives_its_own_frames_is_a_video():
    clip = DrawnClip(sample_clip(0), side=32)
    assert handle_of(clip) == VideoHandle(clip)
    assert finder_of(make_task(), None)(clip, (0, 1, 2)) == VideoHandle(clip, (0, 1, 2))
    assert VideoHandle(clip).digest() == f"frames:{clip.digest()}"
    assert len(list(read_frames(VideoHandle(clip)))) == 12
    assert not is_recorded(VideoHandle(clip))


def test_a_path_as_a_text_or_an_object_is_one_of_an_image_or_by_its_suffix_of_a_video():
    for image in ("a.jpg", Path("a.jpg"), {"path": "a.jpg"}):
        assert handle_of(image) == ImageHandle(Path("a.jpg"))
    assert handle_of(Path("a.MP4")) == VideoHandle(Path("a.MP4"))
    assert handle_of(b"a.jpg") == ImageHandle(b"a.jpg")


@pytest.mark.parametrize("image", [None, 3, "", {"bytes": None, "path": None}])
def test_what_is_no_image_has_no_handle(image: Any):
    assert handle_of(image) is None


def test_missing_folders_are_told_before_work_starts(data: Path):
    with pytest.raises(DataError, match=r"task 'mine': its images are not on this machine \(looked in /.*gone\)") as e:
        finder_of(make_task(image_folder="gone"), data).require()
    assert e.value.hint.endswith("metrics of texts need no images.")
    with pytest.raises(DataError, match="its videos are not"):
        finder_of(make_task(video_folder="gone"), data).require()
    finder_of(make_task(image_folder=["gone", "first"]), data).require()
    finder_of(make_task(), data).require()


@pytest.mark.parametrize(
    ("span", "fault"),
    [
        ([0, 2, 4], None),
        ([4, 4, 4.0], None),
        (None, "has no span"),
        ([1, 2], "has no span"),
        ([0, float("nan"), 2], "has no span"),
        (["0", "1", "2"], "has no span"),
        ([3, 2, 4], "has a span from 3 to 2 s of 4 s"),
        ([-1, 2, 4], "has a span from -1 to 2 s of 4 s"),
        ([0, 0, 0], "has a span from 0 to 0 s of 0 s"),
    ],
)
def test_span_is_checked(span: Any, fault: str | None):
    message = view_fault(make_task(doc_to_span="span"), {"doc_to_span": span})
    assert message is None if fault is None else message is not None and fault in message


@pytest.mark.parametrize(
    ("boxes", "fault"),
    [
        ([], None),
        ([[0, 0, 5, 5.5]], None),
        (None, "has no list of boxes but NoneType"),
        ("0,0,1,1", "has no list of boxes but str"),
        ([[0, 0, 1, 1], [0, 0, 1]], "has a box 2 that is not four numbers"),
        ([[0, 0, 1, float("inf")]], "has a box 1 that is not four numbers"),
        ([[0, 0, 1, True]], "has a box 1 that is not four numbers"),
        ([[0, 0, 1, 10**400]], "has a box 1 that is not four numbers"),
    ],
)
def test_boxes_are_checked(boxes: Any, fault: str | None):
    message = boxes_fault(boxes)
    assert message is None if fault is None else message is not None and fault in message


def test_image_that_nobody_looks_at_is_not_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[Any] = []
    real = os.stat
    task = make_task(image_folder=["first", "second"])
    finder = ImageFinder(task, tmp_path, Boundary.of(tmp_path), late=True)

    def counted(path: Any, **more: Any) -> os.stat_result:
        asked.append(path)
        return real(path, **more)

    monkeypatch.setattr(os, "stat", counted)
    monkeypatch.setattr(os, "lstat", counted)
    handles = [finder(name) for name in ("a.jpg", "a.jpg", "b", "../outside.jpg", {"path": "a.jpg"})]
    assert asked == []
    assert handles[0] == handles[1] == handles[4] != handles[2]
    assert finder("") is None
    # It is found when somebody reads it after all, in the folders of the day, and within the boundary.
    (tmp_path / "second").mkdir()
    (tmp_path / "second/a.jpg").write_bytes(b"pixels")
    (tmp_path / "outside.jpg").write_bytes(b"other pixels")
    contents = []
    for handle in handles[:4]:
        assert isinstance(handle, ImageHandle)
        try:
            contents.append(read_bytes(handle))
        except UnreadableImage as error:
            contents.append(str(error))
    assert contents == [b"pixels", b"pixels", "b: No such file or directory", b"other pixels"]
    narrow = ImageFinder(task, tmp_path, Boundary.of(tmp_path / "second"), late=True)
    (tmp_path / "first").mkdir()
    (tmp_path / "first/a.jpg").write_bytes(b"private")
    with pytest.raises(UnreadableImage, match=r"a\.jpg: lies outside"):
        read_bytes(narrow("a.jpg"))
    assert finder_of(task, tmp_path)("a.jpg") == ImageHandle(tmp_path / "first/a.jpg")


def test_many_names_are_not_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(images, "_NAMES_AT_HAND", 3)
    finder = finder_of(make_task(image_folder="images"), tmp_path)
    handles = [finder(f"{number}.jpg") for number in (0, 0, 1, 2, 3, 4, 0)]
    assert handles == [ImageHandle(tmp_path / f"images/{number}.jpg") for number in (0, 0, 1, 2, 3, 4, 0)]
    assert len(finder._of_text) <= 3
