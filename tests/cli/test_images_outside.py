"""Images behind a link that leads out of the task's folders: said first, once, with the option that helps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from capbench.benchmarks.inputs.task_images import TaskImages
from capbench.tasks.locate import DataLocations
from capbench.tasks.schema import load_task

NONE_OF = ("doc_to_candidate", "doc_to_human", "statistics", "metric_list", "doc_to_target")
SCORED: dict[str, Any] = {"metric_list": ["length", "clip_s"]}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "matching": {"doc_to_captions": "caption", "doc_to_negatives": "negative", "protocol": {"measure": "neg"}},
    "preference": {"doc_to_candidates": ["caption", "negative"], "doc_to_preferred": "first", **SCORED},
    "agreement": {
        "doc_to_candidate": "caption", "doc_to_human": "rating", "statistics": ["kendall_b"], **SCORED,
    },
    "checklist": {"doc_to_target": "references", **SCORED},
    "generate_until": {"doc_to_text": "Describe.", "doc_to_target": "references", **SCORED},
    "yes_no": {"doc_to_text": "question", "doc_to_target": "answer"},
}  # fmt: skip
IMAGES = 4


@pytest.fixture(params=["a link to their folder", "a folder of links"])
def away(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of the images; the task has a link to it, or to each of them."""
    folder, photos = tmp_path / "away", tmp_path / "tasks" / "photos"
    folder.mkdir()
    for number in range(IMAGES):
        Image.new("RGB", (32, 32), (60 * number, 0, 0)).save(folder / f"{number}.png")
    photos.parent.mkdir(exist_ok=True)
    if request.param == "a link to their folder":
        photos.symlink_to(folder)
    else:
        photos.mkdir()
        for file in folder.iterdir():
            (photos / file.name).symlink_to(file)
    return folder


@pytest.fixture
def write(write_task: Callable[..., Path]) -> Callable[[str], Path]:
    """Return a function that writes a task of a protocol over the images."""

    def write(protocol: str) -> Path:
        keys = {**dict.fromkeys(NONE_OF), "image_folder": "photos", "output_type": protocol}
        folder = write_task(**(keys | PROTOCOLS[protocol]))
        rows = [
            {
                "id": f"r{n}", "image": f"{n}.png", "caption": f"a red thing and {n} dogs", "negative": "a cat",
                "first": 0, "rating": n, "references": [f"a red square {n}", "it is red", "one thing"],
                "question": "Is there a dog?", "answer": "no",
            }
            for n in range(IMAGES)
        ]  # fmt: skip
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return folder

    return write


def assert_said_first_and_once(said: str, away: Path) -> None:
    first, hint = said.splitlines()[:2]
    assert first.endswith(f"4 images lie outside of the folders of the task and its data, in {away}")
    assert hint.strip().startswith(f"--allow_outside {away} lets the task read them")
    assert said.count("outside of the folders") == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_validate_calls_no_document_usable_whose_image_may_not_be_read(bench, write, away: Path, protocol: str):
    asked = ("validate", "small", "--include_path", write(protocol))
    done = bench(*asked).failed(1)
    verdict, _, said = done.out.partition("\n")
    assert verdict == "faulty   small"
    assert_said_first_and_once(said, away)
    assert "0 of 4 documents usable" in said
    done = bench(*asked, "--allow_outside", away)
    assert (done.code, done.out.splitlines()[:2]) == (0, ["ok       small", "         4 of 4 documents usable"])


@pytest.mark.parametrize(
    ("protocol", "models"),
    [
        *((name, ("--model", "shapes-clip")) for name in ("matching", "preference", "agreement", "checklist")),
        ("generate_until", ("--model", "shapes-captioner")),
        ("yes_no", ("--model", "shapes-answers")),
    ],
)
def test_run_says_it_first_and_scores_nothing(bench, write, away, tmp_path, protocol: str, models: tuple[str, ...]):
    given = ("--include_path", write(protocol), "--output_path", tmp_path / "runs", "--bootstrap", 0)
    done = bench("run", "--task", "small", *models, *given).failed(1)
    assert_said_first_and_once(done.err.partition("bench: error: ")[2], away)
    assert not list(tmp_path.rglob("run.json"))


def test_run_that_looks_at_no_image_says_nothing_of_them(bench, write, away: Path, tmp_path: Path):
    done = bench("run", "--task", "small", "--include_path", write("preference"), "--bootstrap", 0).succeeded()
    assert "outside" not in done.err


def test_images_that_may_be_read_are_scored_and_the_others_said_first_and_once(bench, write, away, tmp_path: Path):
    folder = write("preference")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    rows[2]["image"] = "own.png"
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    photos = folder / "photos"
    if photos.is_symlink():
        (folder / "own").mkdir()
        (folder / "small.yaml").write_text((folder / "small.yaml").read_text().replace('"photos"', '["photos", "own"]'))
        photos = folder / "own"
    Image.new("RGB", (32, 32)).save(photos / "own.png")
    done = bench("run", "--task", "small", "--model", "shapes-clip", "--include_path", folder, "--bootstrap", 0)
    first, *others = done.err.splitlines()
    assert f"3 images lie outside of the folders of the task and its data, in {away}. --allow_outside {away}" in first
    assert not any("outside" in line for line in others)
    done = bench("validate", "small", "--include_path", folder).succeeded()
    assert "3 images lie outside" in done.out.splitlines()[1]
    assert "4 of 4 documents usable" in done.out


def test_rating_session_says_it_in_place_of_that_there_are_no_images(bench, write, away: Path, tmp_path: Path):
    folder = write("generate_until")
    captions = tmp_path / "a.jsonl"
    captions.write_text("\n".join(json.dumps({"id": f"r{n}", "caption": "a dog"}) for n in range(IMAGES)))
    asked = ("rate", "small", "--captions", f"A={captions}", "--aspect", "fit=1-5", "--include_path", folder)
    done = bench(*asked, "--output", tmp_path / "session").failed(1)
    assert_said_first_and_once(done.err.partition("bench: error: ")[2], away)
    task, path = load_task(folder / "small.yaml")[0], folder / "small.yaml"
    images = TaskImages(task, path, DataLocations(allowed=(away,)))
    assert all(images.read(f"r{n}", f"{n}.png") for n in range(IMAGES))
    assert images.outside is None
