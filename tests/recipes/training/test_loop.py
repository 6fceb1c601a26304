"""The steps of a training: going on after a kill, the learning rate, when it ends, and what is kept."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killed_training import assert_alike, last_checkpoint, train_until_killed, untold
from PIL import Image
from tiny_recipes import PEFT, VALIDATION, call_of

from capbench.errors import TrainingError
from capbench.recipes.training.checkpoints import Checkpoints, TrainingState
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.execution import RECIPE, opened, run_recipe
from capbench.recipes.training.history import StepReport, read_history
from capbench.recipes.training.loop import Loop
from capbench.recipes.training.processes import TrainingProcesses

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("one_thread")]

Make = Callable[..., TrainingCall]


def test_training_that_is_killed_ends_with_the_weights_of_one_that_is_not(call, tmp_path):
    keys = {
        "adapter": "hf_clip", "lora": PEFT, "data": VALIDATION, "objective": {"batch": 4, "piece": 3},
        "schedule": {"decay": "cosine", "warm_up": 1}, "stop": {"steps": 3, "every": 2, "keep": "best"},
    }  # fmt: skip
    recipe_call = call(**keys)
    undisturbed = tmp_path / "undisturbed"
    run_recipe(recipe_call, undisturbed, untold, {})
    _, trained = last_checkpoint(undisturbed)
    assert any(tensor.abs().max() > 0 for name, tensor in trained.items() if "lora_B" in name)
    # Before there is a checkpoint, and behind one.
    for step in (1, 3):
        folder = tmp_path / f"killed at {step}"
        train_until_killed(recipe_call, folder, step)
        run_recipe(recipe_call, folder, untold, {})
        assert_alike(folder, undisturbed, "model.safetensors")
    assert [line["step"] for line in read_history(undisturbed) if "loss" in line] == [1, 2, 3]
    assert [line["step"] for line in read_history(undisturbed) if "validation_loss" in line] == [2, 3]


def test_folder_of_another_training_is_not_gone_on_with(call: Make, tmp_path: Path):
    run_recipe(call(), tmp_path / "out", untold, {})
    for other in ({"seed": 1}, {"optimiser": {"rate": 2e-3}}, {"data": {**VALIDATION, "arguments": {"scenes": 13}}}):
        with pytest.raises(TrainingError, match="another recipe or other data"):
            run_recipe(call(**other), tmp_path / "out", untold, {})
    # A judge decides no weights.
    run_recipe(call(judge=[{"task": "shapes_foil"}]), tmp_path / "out", untold, {}, judge=False)


@pytest.mark.parametrize("kind", ["reader", "file"])
def test_training_goes_on_after_its_recipe_and_data_were_moved(recipe_file, tmp_path, kind):
    before, after, out = tmp_path / "before", tmp_path / "after", tmp_path / "out"
    keys: dict = {"stop": {"steps": 4, "every": 2}}
    if kind == "file":
        rows = [{"id": str(n), "image": f"images/{n}.png", "captions": ["a red star"]} for n in range(4)]
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / "images").mkdir()
        for n in range(4):
            Image.new("RGB", (8, 8), (60 * n, 0, 0)).save(tmp_path / "images" / f"{n}.png")
        keys["data"] = {"file": "rows.jsonl"}
    file = recipe_file(**keys)
    before.mkdir()
    for path in [*tmp_path.glob("rows.*"), *tmp_path.glob("images"), file]:
        path.rename(before / path.name)
    train_until_killed(call_of(str(before / file.name)), out, 3)
    before.rename(after)
    steps: list[StepReport] = []
    moved = call_of(str(after / file.name))
    run_recipe(moved, out, steps.append, {})
    assert [step.step for step in steps] == [3, 4]
    assert str(tmp_path / "after") not in (out / RECIPE).read_text(encoding="utf-8")
    if kind == "reader":
        (after / "rows.py").write_text("from capbench.recipes.shapes.rows import described\n# Of another kind.\n")
    else:
        (after / "images" / "3.png").rename(after / "images" / "4.png")
        (after / "rows.jsonl").write_text((after / "rows.jsonl").read_text().replace("3.png", "4.png"))
    with pytest.raises(TrainingError, match="another recipe or other data"):
        run_recipe(call_of(str(after / file.name)), out, untold, {})


def test_damaged_checkpoint_is_said(call: Make, tmp_path: Path):
    run_recipe(call(), tmp_path / "out", untold, {})
    (tmp_path / "out" / "checkpoints" / "checkpoint-4" / "optimizer.bin").write_bytes(b"\0" * 100)
    with pytest.raises(TrainingError, match="not a valid checkpoint"):
        run_recipe(call(), tmp_path / "out", untold, {})


@pytest.mark.parametrize(("watch", "best", "better"), [(None, min, "lower"), ("recall@1", max, "higher")])
def test_training_ends_when_what_is_watched_has_not_been_better_and_keeps_the_best(call, tmp_path, watch, best, better):
    # A rate that only harms.
    stop = {"steps": 40, "every": 1, "patience": 3, "keep": "best", "watch": watch}
    recipe_call = call(data=VALIDATION, optimiser={"rate": 0.05}, stop=stop, measure={"metrics": ["recall@1"]})
    trainer: Any = opened(recipe_call)
    loop = Loop(trainer, tmp_path, "f")
    state = loop.run(untold)
    values = [line[watch or "validation_loss"] for line in read_history(tmp_path) if "validation_loss" in line]
    assert state.step == len(values) < 40
    assert state.best == best(values) == values[state.best_step - 1]
    assert state.step - state.best_step == 3
    assert f"not {better} for 3 steps" in state.ended
    assert trainer.validate()[watch or "validation_loss"] == pytest.approx(state.best, abs=1e-6)
    kept, _ = last_checkpoint(tmp_path)
    assert (kept["step"], kept["ended"]) == (state.step, state.ended)
    # Of the best and of the last one.
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2


def test_progress_tells_loss_rate_and_time_left(call: Make, tmp_path: Path):
    reports: list[StepReport] = []
    run_recipe(call(schedule={"decay": "linear"}), tmp_path / "out", reports.append, {})
    assert [(report.step, report.steps) for report in reports] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [report.rate for report in reports] == pytest.approx([1e-3, 7.5e-4, 5e-4, 2.5e-4])
    assert reports[0].seconds_left is None
    assert reports[3].seconds_left == 0
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines] == [report.loss for report in reports]


def test_last_whole_checkpoint_counts_and_what_was_not_written_to_its_end_goes(tmp_path: Path):
    processes = TrainingProcesses("cpu")
    kept = Checkpoints(tmp_path, "f", processes)
    for step in (2, 10):
        kept.at(step).mkdir(parents=True)
        kept.mark(TrainingState("f", step))
    kept.at(12).mkdir()
    again = Checkpoints(tmp_path, "f", processes)
    assert (again.state.step, again.last) == (10, kept.at(10))
    assert {path.name for path in again.folder.iterdir()} == {"checkpoint-2", "checkpoint-10"}
