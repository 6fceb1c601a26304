"""What is measured while a training runs, who gets its history, and random crops."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from killed_training import untold
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny_recipes import VALIDATION
from torchvision.transforms import RandomResizedCrop

import capbench
from capbench.adapters.contracts import Writing
from capbench.errors import BenchError, DataError
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.contrastive import random_crop, recall
from capbench.recipes.training.execution import opened
from capbench.recipes.training.history import History, Tracker, read_history

Make = Callable[..., TrainingCall]


def test_recall_counts_images_and_texts_whose_partner_is_among_the_nearest():
    # The right partner's place: of images 1, 2, 3; of texts 3, 2, 3, as of equal ones the right one comes last.
    similarities = torch.tensor([[0.5, 0.4, 0.1], [0.5, 0.4, 0.3], [0.5, 0.2, 0.1]])
    assert [recall(similarities, places) for places in (1, 2, 3)] == pytest.approx([1 / 6, 3 / 6, 1])


@pytest.mark.costly
def test_training_ends_when_a_metric_is_no_better_and_keeps_the_best(scst: Make, tmp_path: Path):
    stop = {"steps": 40, "every": 2, "patience": 4, "keep": "best", "watch": "rouge_l"}
    measure = {"metrics": ["length", "rouge_l"]}
    trainer: Any = opened(scst("captioner_xe", data=VALIDATION, optimiser={"rate": 0.02}, stop=stop, measure=measure))
    state = trainer.train(tmp_path, untold, "f")
    lines = {line["step"]: line for line in read_history(tmp_path) if "rouge_l" in line}
    values = {step: line["rouge_l"] for step, line in lines.items()}
    assert (state.best, values[state.best_step]) == (max(values.values()), max(values.values()))
    assert state.step == state.best_step + 4 < 40
    assert state.ended == "the rouge_l was not higher for 4 steps"
    # What is kept is what was measured.
    greedy = Writing(1, False, 8)
    ids = [trainer.trainable.write_captions(trainer.inputs([row]), greedy)[0] for row in trainer.validation]
    texts = trainer.trainable.texts(ids)
    by_hand = capbench.score(
        predictions=texts, references=[list(row.captions) for row in trainer.validation], metrics=measure["metrics"]
    )
    assert by_hand.system == pytest.approx({name: lines[state.best_step][name] for name in measure["metrics"]})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"measure": {"metrics": ["rouge_l"]}}, "need validation rows"),
        ({"data": VALIDATION, "stop": {"steps": 1, "watch": "meteor", "keep": "best"}}, "'meteor' is not in measure"),
        ({"data": VALIDATION, "stop": {"steps": 1, "watch": "meteor"}}, "'watch' has no effect"),
        ({"data": VALIDATION, "measure": {"metrics": ["clip_s"]}}, "measure.metrics: metric 'clip_s' needs a model"),
        ({"data": VALIDATION, "measure": {"metrics": ["cider"]}, "trainer": "contrastive"}, "'cider' is no metric of"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(scst: Make, call: Make, keys: dict[str, Any], message: str):
    make = call if keys.get("trainer") == "contrastive" else scst
    with pytest.raises(BenchError, match=message):
        opened(make(**keys))


def test_history_is_logged(call: Make, tmp_path: Path):
    trainer: Any = opened(TrainingCall(call().loaded, call().processes, log_to="tensorboard"))
    trainer.train(tmp_path, untold, "f")
    read = [EventAccumulator(str(file)).Reload() for file in tmp_path.rglob("events.out.tfevents.*")]
    (logged,) = (events.Scalars("loss") for events in read if "loss" in events.Tags()["scalars"])
    lines = read_history(tmp_path)
    assert [event.step for event in logged] == [line["step"] for line in lines] == [1, 2, 3, 4]
    assert [event.value for event in logged] == pytest.approx([line["loss"] for line in lines])
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="not logged to tensorboard: "):
        Tracker("tensorboard", tmp_path / "file", {})
    run = Mock()
    with pytest.raises(ZeroDivisionError), History(tmp_path, 4, True, run):
        raise ZeroDivisionError
    run.finish.assert_called_once_with()


@pytest.mark.costly
@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_trackers_log_each_step_without_a_network(name: str, call: Make, encoder: Path, tmp_path: Path):
    # 'make setup' installs each in a folder of its own.
    places = f"{sys.prefix}/{name}:{os.environ.get('PYTHONPATH', '')}"
    keys = {"WANDB_MODE": "offline", "TRACKIO_DIR": str(tmp_path), "PYTHONPATH": places}
    words = ["train", str(call().loaded.parsed.path), "--output", str(tmp_path / "out"), "--no_judge", "--device=cpu"]
    code = "from capbench.cli.main import program; program()"
    command = [sys.executable, "-c", code, *words, "--log_to", name, "--run_functions", "--allow_outside", str(encoder)]
    subprocess.run(command, env=os.environ | keys, cwd=tmp_path, check=True)
    losses = [line["loss"] for line in read_history(tmp_path / "out")]
    if name == "trackio":
        with sqlite3.connect(tmp_path / "capbench.db") as database:
            logged = [json.loads(text) for (text,) in database.execute("SELECT metrics FROM metrics ORDER BY step")]
        assert [line["loss"] for line in logged] == losses
    else:
        (log,) = tmp_path.rglob("*.wandb")
        assert all(str(loss).encode() in log.read_bytes() for loss in losses)


def test_random_crops_are_those_of_torchvision():
    # Columns and rows of the image are its red and green, so that a crop shows where it lay.
    rows, columns = np.mgrid[:40, :60]
    image = Image.fromarray(np.stack([columns * 4, rows * 4, rows * 0], axis=2).astype(np.uint8))
    rng, size = np.random.default_rng(0), 8
    theirs = RandomResizedCrop(size, scale=(0.3, 0.9), interpolation=Image.Resampling.BICUBIC)
    torch.manual_seed(0)
    both = [
        np.stack([np.asarray(crop(), dtype=float) for _ in range(900)])
        for crop in (lambda: random_crop(image, size, (0.3, 0.9), rng), lambda: theirs(image))
    ]
    for kind in (np.mean, np.std):
        ours, expected = (kind(crops, axis=0) for crops in both)
        assert np.abs(ours - expected).max() < 7
    # Where no crop with such a ratio fits, the middle is taken.
    strip = image.crop((0, 0, 60, 4))
    assert (
        random_crop(strip, 4, (1.0, 1.0), rng).tobytes()
        == strip.crop((27, 0, 32, 4)).resize((4, 4), Image.Resampling.BICUBIC).tobytes()
    )
