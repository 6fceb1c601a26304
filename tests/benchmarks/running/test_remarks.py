"""What was done to read an image that is not as usual is remarked, whoever reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_server import chat_server, completion
from PIL import Image
from tiny_clip import TinyClip
from tiny_images import noise_image

import capbench
from capbench.cli.main import main

TURNED = "EXIF orientation 6 not applied"
MANY = "first of 2 frames"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A photograph to be turned, one that is upright, and an animation."""
    exif = Image.Exif()
    exif[0x0112] = 6
    noise_image(0).save(tmp_path / "0.jpg", exif=exif)
    noise_image(1).save(tmp_path / "1.jpg")
    noise_image(2).save(tmp_path / "2.gif", save_all=True, append_images=[noise_image(3)])
    return tmp_path


def write_task(folder: Path, *metrics: str) -> None:
    rows = [{"id": name, "references": ["a dog"]} for name in ("0.jpg", "1.jpg", "2.gif")]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {
        "task": "mine",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": "rows.jsonl"},
        "output_type": "generate_until",
        "doc_to_id": "id",
        "doc_to_image": "id",
        "doc_to_text": "Describe.",
        "doc_to_target": "references",
        "generation_kwargs": {"max_new_tokens": 8},
        "metric_list": [*metrics],
        "metadata": {"version": 1},
    }
    (folder / "mine.yaml").write_text(json.dumps(task))


def remarks(found: list[Any]) -> dict[str, list[str]]:
    return {one["reason"]: one["samples"] for one in found}


def test_captioner_that_turns_no_photograph_says_so_in_record_and_terminal(
    images: Path, tiny_llava: Path, capsys: pytest.CaptureFixture[str]
):
    write_task(images, "length")
    arguments = ["run", "--model", "hf", "--model_args", f"pretrained={tiny_llava},device=cpu", "--task", "mine"]
    arguments += ["--include_path", str(images), "--output_path", str(images / "runs"), "--bootstrap", "0"]
    # The second run takes its captions from the store.
    for _ in range(2):
        assert main(arguments) == 0
        assert f"mine: 1 × image {TURNED} (first: 0.jpg)" in capsys.readouterr().err
    records = [json.loads(file.read_text()) for file in images.glob("runs/*/*/*/run.json")]
    assert [remarks(one["remarks"]) for one in records] == [{TURNED: ["0.jpg"], MANY: ["2.gif"]}] * 2
    assert sorted(one["store"]["found"] > 0 for one in records) == [False, True]


def test_server_is_sent_one_frame_which_is_remarked_once_beside_that_of_the_metric(images: Path, tiny_clip: TinyClip):
    write_task(images, "clip_s")
    with chat_server(lambda body, before: completion("a dog")) as server:
        run = capbench.evaluate(
            "openai",
            "mine",
            model_args={"model": "m", "base_url": server.url},
            encoder="open_clip",
            encoder_args={"pretrained": str(tiny_clip.open_clip_folder), "device": "cpu"},
            include_path=[images],
            resamples=0,
        )["mine"]
    # A JPEG goes to the server as it is; CLIP-S turns it no more than any other.
    assert remarks(run.record.remarks) == {MANY: ["2.gif"], TURNED: ["0.jpg"]}


def test_parts_of_a_photograph_are_remarked_by_clip_f1_from_the_store_too(images: Path, tiny_clip: TinyClip):
    rows = [{"id": name, "candidate": "A dog. A cat.", "image": str(images / name)} for name in ("0.jpg", "1.jpg")]
    model = {"pretrained": str(tiny_clip.open_clip_folder), "device": "cpu"}
    for _ in range(2):
        table = capbench.score(
            rows, "clip_f1[parts=whole]", model="open_clip", model_args=model, allow_outside=[images],
            store=images / "store.sqlite",
        )  # fmt: skip
        assert remarks(table.remarks) == {TURNED: ["0.jpg"]}


def test_photograph_whose_crops_are_matched_is_remarked_once(images: Path, tiny_clip: TinyClip):
    entry = {"captions": ["A boat."], "negatives": ["A car."]}
    entries = [entry, {**entry, "box": [0, 0, 20, 20]}]
    rows = [{"id": name, "entries": entries} for name in ("0.jpg", "1.jpg")]
    (images / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {
        "task": "mine", "dataset_path": "json", "dataset_kwargs": {"data_files": "rows.jsonl"},
        "output_type": "matching", "doc_to_id": "id", "doc_to_image": "id", "doc_to_entries": "entries",
        "protocol": {"measure": "neg"}, "metadata": {"version": 1},
    }  # fmt: skip
    (images / "mine.yaml").write_text(json.dumps(task))
    model = {"pretrained": str(tiny_clip.open_clip_folder), "device": "cpu"}
    run = capbench.evaluate("open_clip", "mine", model_args=model, include_path=[images], resamples=0)["mine"]
    assert remarks(run.record.remarks) == {TURNED: ["0.jpg"]}


def test_judge_that_is_shown_one_frame_says_so_from_the_store_too(images: Path):
    told = [{"token": one, "top_logprobs": [{"token": one, "logprob": 0.0}]} for one in "0.8"]
    rows = [{"id": name, "candidate": "a dog", "image": str(images / name)} for name in ("1.jpg", "2.gif")]
    with chat_server(lambda body, before: completion("0.8", logprobs={"content": told})) as server:
        for _ in range(2):
            table = capbench.score(
                rows, "fleur", judge="openai_judge", judge_args={"model": "m", "base_url": server.url},
                allow_outside=[images], store=images / "store.sqlite",
            )  # fmt: skip
            assert remarks(table.remarks) == {MANY: ["2.gif"]}
            assert [row["fleur"] for row in table.rows] == pytest.approx([0.8, 0.8])
        assert len(server.bodies) == 2
