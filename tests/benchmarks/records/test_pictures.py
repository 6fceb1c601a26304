"""Pictures beside a record: whose, how large, and what they keep to themselves."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from task_keys import AGREEMENT, write_task

import capbench
from capbench.adapters import ImageHandle
from capbench.benchmarks.records.pictures import pictures
from capbench.benchmarks.records.task_run import TaskRun


def encoded(width: int = 640, height: int = 320, mode: str = "RGB", fmt: str = "JPEG", **options: Any) -> bytes:
    content = io.BytesIO()
    Image.new(mode, (width, height)).save(content, fmt, **options)
    return content.getvalue()


def made_of(*scores: list[float], source: Any = None) -> dict[str, tuple[str, bytes]]:
    handle = ImageHandle(source or encoded())
    return pictures([np.array(score) for score in scores], lambda row: (f"s{row}", handle))


def test_best_and_worst_five_of_a_metric_have_a_picture():
    scores = [float(n) for n in range(30)]
    scores[29] = np.nan
    drawn = made_of(scores)
    assert set(drawn) == {f"s{n}" for n in (0, 1, 2, 3, 4, 24, 25, 26, 27, 28)}


def test_many_metrics_have_forty_pictures_the_extremes_of_each_first():
    scores = [[float((sample + 10 * metric) % 50) for sample in range(50)] for metric in range(5)]
    drawn = list(made_of(*scores))
    assert len(drawn) == 40
    assert set(drawn[:10]) == {f"s{of_metric.index(end)}" for of_metric in scores for end in (0.0, 49.0)}


def test_picture_is_small_and_says_nothing_that_the_original_says():
    exif = Image.Exif()
    exif[0x010E] = "a secret"
    source = encoded(exif=exif, comment=b"a secret")
    assert b"a secret" in source
    (name, content) = made_of([1.0], source=source)["s0"]
    assert b"a secret" not in content
    assert "s0" not in name
    image = Image.open(io.BytesIO(content))
    assert (image.format, image.size, image.getexif()) == ("JPEG", (256, 128), {})


# --- of a run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    rows = []
    for number in range(12):
        (tmp_path / "photos" / f"{number}.jpg").write_bytes(encoded())
        row = {"id": f"../{number}", "image": f"{number}.jpg", "candidate": "dog " * (number + 1), "rating": number}
        rows.append(row)
    names = {"task": "small", "doc_to_id": "id", "image_folder": "photos", "metric_list": ["length"]}
    return write_task(tmp_path, rows, {key: AGREEMENT[key] for key in AGREEMENT if key != "doc_to_target"} | names)


def run(folder: Path, **options: Any) -> TaskRun:
    options = {"output_path": folder / "runs", "resamples": 0} | options
    return capbench.evaluate(tasks="small", include_path=[folder], **options)["small"]


def test_pictures_lie_beside_the_record_that_names_them(folder: Path):
    done = run(folder)
    assert done.folder is not None
    named = done.record.pictures
    assert set(named) == {f"../{n}" for n in (0, 1, 2, 3, 4, 7, 8, 9, 10, 11)}
    assert {done.folder / path for path in named.values()} == set((done.folder / "pictures").iterdir())
    assert capbench.load_run(done.folder).tasks[0].record.pictures == named


@pytest.mark.parametrize("log_samples", ["scores", "none"])
def test_runs_without_all_samples_have_no_pictures(folder: Path, log_samples: str):
    done = run(folder, log_samples=log_samples)
    assert done.folder is not None
    assert done.record.pictures == {}
    assert not (done.folder / "pictures").exists()


@pytest.mark.parametrize(
    ("terms", "expected"),
    [("", 0), ("redistribution: full", 0), ("pictures: true", 0), ("redistribution: full\npictures: true", 10)],
)
def test_data_card_must_allow_pictures(folder: Path, terms: str, expected: int):
    card = (
        "title: Small\nfolder: small\nhomepage: here\nlicence: none\nterms: none\ncitation: none\n"
        "files: [{path: rows.jsonl, what: rows}]\nhow: somehow\n"
    )
    (folder / "card.yaml").write_text(card + terms)
    task = json.loads((folder / "small.yaml").read_text())
    (folder / "small.yaml").write_text(json.dumps({**task, "data_source": "card.yaml"}))
    done = run(folder)
    assert len(done.record.pictures) == expected
    assert done.record.redistribution == ("full" if "full" in terms else "scores")
