"""Matching on a user's own task: entries and images that cannot be used are named, and cost no other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_clip import TinyClip
from tiny_dci import make_tiny_dci

import capbench
from capbench.adapters.encoders.open_clip import OpenClipEncoder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_dci(tmp_path_factory.mktemp("made") / "dci")


@pytest.fixture(scope="module")
def encoder(tiny_clip: TinyClip) -> OpenClipEncoder:
    return OpenClipEncoder(str(tiny_clip.checkpoint), str(tiny_clip.architecture), device="cpu")


GOOD = {"captions": ["A boat."], "negatives": ["A car."]}


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        (None, "row has no list of entries"),
        (["a boat"], "row has no list of entries"),
        ([GOOD, {"captions": [], "negatives": ["A car."]}], "row entry 1 has no list of captions"),
        ([{"key": "x", "captions": ["A boat."]}], "row entry x has no list of negatives"),
        ([GOOD | {"captions": [None]}], "row entry 0: one of its captions is null"),
        ([GOOD | {"captions": ["\ud800"]}], "row entry 0: one of its captions is not valid UTF-8"),
        ([GOOD | {"negatives": ["\ud800"]}], "row entry 0: one of its negatives is not valid UTF-8"),
        ([GOOD | {"box": [0, 0, "1", 1]}], "row entry 0 has a box 1 that is not four numbers"),
    ],
)
def test_entry_of_a_users_task_that_cannot_be_matched_is_named(
    encoder: OpenClipEncoder, made: Path, tmp_path: Path, entries: Any, reason: str
):
    photo = str(made / "photos" / "sa_1.png")
    rows = [{"photo": photo, "entries": [GOOD]}, {"photo": photo, "entries": entries}]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    task = {
        "task": "mine", "dataset_path": "json", "dataset_kwargs": {"data_files": "rows.json"},
        "output_type": "matching", "doc_to_image": "photo", "doc_to_entries": "entries",
        "protocol": {"measure": "neg"}, "metadata": {"version": 1},
    }  # fmt: skip
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(task))
    run = capbench.evaluate(encoder, "mine", include_path=[tmp_path], allow_outside=[made], resamples=0)["mine"]
    assert run.results[0].n == 1
    (failure,) = run.record.failures
    assert failure["samples"] == ["1"]
    assert f"row {failure['reason']}".startswith(reason)


def test_box_outside_its_image_costs_the_image(encoder: OpenClipEncoder, made: Path, tmp_path: Path):
    photos = [str(made / "photos" / f"sa_{n}.png") for n in (1, 2)]
    rows = [
        {"photo": photos[0], "entries": [GOOD, GOOD | {"box": [900, 0, 1200, 300]}]},
        {"photo": photos[1], "entries": [GOOD]},
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    task = {
        "task": "mine", "dataset_path": "json", "dataset_kwargs": {"data_files": "rows.json"},
        "output_type": "matching", "doc_to_image": "photo", "doc_to_entries": "entries",
        "metadata": {"version": 1},
    }  # fmt: skip
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(task))
    run = capbench.evaluate(encoder, "mine", include_path=[tmp_path], allow_outside=[made], resamples=0)["mine"]
    assert run.results[0].n == 1
    (failure,) = run.record.failures
    assert (failure["stage"], failure["samples"]) == ("image", ["0"])
    assert "outside" in failure["reason"]


@pytest.mark.parametrize(
    ("folders", "reason"),
    [
        ({"image_folder": "photos"}, "file: No such file or directory (in {photos})"),
        ({}, "is no image of this machine: 'gone.png'"),
    ],
)
def test_image_that_is_not_there_is_named(
    encoder: OpenClipEncoder, made: Path, tmp_path: Path, folders: dict[str, str], reason: str
):
    folder = shutil.copytree(made, tmp_path / "dci")
    photo = "sa_1.png" if folders else str(folder / "photos" / "sa_1.png")
    (folder / "rows.json").write_text(json.dumps([{"photo": one, "entries": [GOOD]} for one in (photo, "gone.png")]))
    task = {
        "task": "mine", "dataset_path": "json", "dataset_kwargs": {"data_files": "rows.json"},
        "output_type": "matching", "doc_to_image": "photo", "doc_to_entries": "entries",
        "metadata": {"version": 1}, **folders,
    }  # fmt: skip
    (folder / "mine.yaml").write_text(yaml.safe_dump(task))
    run = capbench.evaluate(encoder, "mine", include_path=[folder], data={"mine": folder}, resamples=0)["mine"]
    assert run.results[0].n == 1
    (failure,) = run.failures
    assert (failure["stage"], failure["samples"]) == ("image", ["1"])
    assert failure["reason"].endswith(reason.format(photos=folder / "photos"))
