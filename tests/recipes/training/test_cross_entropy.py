"""Captioners trained on given captions by transformers' Trainer: the loss, resuming, the best weights, processes."""

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import forked
import pytest
import torch
from accelerate.state import DistributedType, PartialState
from killed_training import killed_at, untold
from safetensors.torch import load_file
from started_by_torchrun import in_two
from tiny_recipes import VALIDATION, call_of
from torch.multiprocessing.spawn import ProcessExitedException
from transformers import Trainer

from capbench.errors import BenchError, TrainingError, UsageError
from capbench.recipes.training.checkpoints import CHECKPOINTS, MARK
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.execution import opened, run_recipe
from capbench.recipes.training.history import StepReport, read_history
from capbench.recipes.training.processes import TrainingProcesses

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("one_thread")]

Make = Callable[..., TrainingCall]
TEXT = ["*language_model*", "*lm_head*"]
LORA = {"kind": "peft", "rank": 2, "alpha": 4, "dropout": 0.1, "targets": ["q_proj", "v_proj"]}


@pytest.fixture
def llava(scst: Make, tiny_llava: Path) -> Make:
    """Return a function that gives what the trainer of a tiny LLaVA, which has no dropout, takes."""

    def make(**keys: Any) -> TrainingCall:
        model = {"name": "hf", "arguments": {"pretrained": str(tiny_llava)}}
        return scst("captioner_xe", **({"model": model, "train": TEXT, "optimiser": {"rate": 1e-3}} | keys))

    return make


def trained(call: TrainingCall, folder: Path) -> dict[str, torch.Tensor]:
    """Train, and return the weights."""
    run_recipe(call, folder, untold, {}, judge=False)
    (file,) = (folder / "weights").glob("*model*.safetensors")
    return load_file(file)


def mean_loss(trainer: Any, step: int) -> torch.Tensor:
    """Return the mean over all tokens of a step's captions, by the captioner's own probabilities."""
    rows = trainer.rows_of(step)
    tokens = [
        ids[:8]
        for ids in trainer.trainable.tokens(trainer._drawing.draw(rows, step).texts, "Describe this image in detail.")
    ]
    return -trainer.trainable.log_probs(trainer.inputs(rows), tokens).sum() / sum(map(len, tokens))


@pytest.mark.parametrize("piece", [4, 2, 1])
def test_loss_and_gradients_are_those_of_the_mean_over_the_tokens_of_the_whole_batch(llava: Make, tmp_path, piece):
    call = llava(objective={"piece": piece}, stop={"steps": 1, "every": 1})
    trainer = opened(call)
    expected = mean_loss(trainer, 0)
    expected.backward()
    norm = torch.stack([tensor.grad.norm() for tensor in trainer.parameters.values() if tensor.grad is not None]).norm()
    run_recipe(call, tmp_path, untold, {}, judge=False)
    (line,) = read_history(tmp_path)
    assert line["loss"] == pytest.approx(expected.item(), rel=1e-6)
    assert line["gradient_norm"] == pytest.approx(norm.item(), rel=1e-5)
    assert line["rate"] == 1e-3
    mark = json.loads((tmp_path / CHECKPOINTS / "checkpoint-1" / MARK).read_text())
    assert (mark["best"], mark["best_step"]) == (None, 0)


@pytest.mark.parametrize(
    "keys", [{"train": ["*"], "stop": {"steps": 3, "every": 2}}, {"train": ["*"], "lora": LORA}], ids=["whole", "lora"]
)
def test_training_that_is_killed_ends_with_the_weights_of_one_that_is_not(llava: Make, tmp_path: Path, keys):
    call = llava(**({"stop": {"steps": 3, "every": 1}, "data": VALIDATION, "schedule": {"decay": "linear"}} | keys))
    expected = trained(call, tmp_path / "undisturbed")
    killed = tmp_path / "killed"
    ended = forked.carried_out(lambda: run_recipe(call, killed, killed_at(3), {}, judge=False))
    assert ended == -signal.SIGKILL
    # A checkpoint that was not written to its end is none.
    (killed / CHECKPOINTS / "checkpoint-9").mkdir()
    weights = trained(call, killed)
    assert all(torch.equal(weights[name], tensor) for name, tensor in expected.items())
    lines, undisturbed = (
        [{**line, "seconds": 0} for line in read_history(place)] for place in (killed, tmp_path / "undisturbed")
    )
    assert lines == undisturbed
    # One that has ended is not gone on with.
    again = trained(call, killed)
    assert all(torch.equal(again[name], tensor) for name, tensor in expected.items())
    with pytest.raises(TrainingError, match="another recipe or other data"):
        trained(llava(seed=1), killed)


def test_validation_is_the_mean_over_its_tokens_and_decides_when_it_ends_and_what_is_kept(llava: Make, tmp_path: Path):
    # A rate that only harms.
    stop = {"steps": 30, "every": 1, "patience": 2, "keep": "best"}
    call = llava(data=VALIDATION, optimiser={"rate": 0.3}, stop=stop, objective={"piece": 2})
    trainer: Any = opened(call)
    reports: list[StepReport] = []
    state = trainer.train(tmp_path, reports.append, "f")
    assert [report.seconds_left is None for report in reports[:3]] == [True, False, False]
    losses = [line["validation_loss"] for line in read_history(tmp_path) if "validation_loss" in line]
    assert state.step == len(losses) < 30
    assert (state.best, state.best_step) == (min(losses), losses.index(min(losses)) + 1)
    assert state.ended == "the validation loss was not lower for 2 steps"
    drawn = trainer._fixed.draw(trainer.validation, None)
    tokens = [ids[:8] for ids in trainer.trainable.tokens(drawn.texts, "Describe this image in detail.")]
    trainer.module.eval()
    with torch.no_grad():
        loss = -trainer.trainable.log_probs(trainer.inputs(drawn.rows), tokens).sum() / sum(map(len, tokens))
    assert loss.item() == pytest.approx(state.best, rel=1e-5)
    again: Any = opened(call)
    assert again.train(tmp_path, untold, "f") == state
    assert all(torch.equal(again.parameters[name], tensor) for name, tensor in trainer.parameters.items())


def test_what_cannot_go_on_is_said(llava: Make, tmp_path: Path):
    with pytest.raises(UsageError, match="4 is no multiple of 3 images at once times 1 process"):
        opened(llava(objective={"piece": 3}))
    # The library would train on the first GPU.
    second = TrainingProcesses("cuda:1")
    with pytest.raises(UsageError, match=r"--device cuda:1: .*\n.*CUDA_VISIBLE_DEVICES=1"):
        opened(replace(llava(), processes=second))
    call = llava(optimiser={"rate": 99.0}, stop={"steps": 6, "every": 6})
    trainer = opened(call)
    next(iter(trainer.parameters.values())).data.fill_(float("nan"))
    with pytest.raises(
        TrainingError, match="step 1: the loss or the norm of the gradients is nan; its rows: "
    ) as caught:
        trainer.train(tmp_path, untold, "f")
    assert all(row.id in str(caught.value) for row in trainer.rows_of(0))
    assert "There is no earlier checkpoint" in str(caught.value)
    trained(llava(stop={"steps": 1, "every": 1}), tmp_path / "out")
    (tmp_path / "out" / CHECKPOINTS / "checkpoint-1" / MARK).write_text("{")
    with pytest.raises(BenchError, match=r"checkpoint-1.*not a valid checkpoint"):
        trained(llava(stop={"steps": 1, "every": 1}), tmp_path / "out")


@pytest.mark.parametrize("split", [False, True], ids=["copies", "fsdp"])
def test_two_processes_train_as_one_does(llava: Make, tmp_path: Path, split: bool, monkeypatch: pytest.MonkeyPatch):
    objective = {"fsdp": True, "checkpointing": True} if split else {}
    call = llava(objective={"piece": 1, **objective}, data=VALIDATION, stop={"steps": 3, "every": 2, "keep": "best"})
    alone = trained(call, tmp_path / "one")
    two, recipe, prepare = tmp_path / "two", str(call.loaded.parsed.path), Trainer.create_accelerator_and_postprocess

    def prepare_as_on_gpus(trainer: Trainer) -> None:
        # On processors accelerate would not split, and say nothing; it can.
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
        prepare(trainer)

    if split:
        monkeypatch.setattr(Trainer, "create_accelerator_and_postprocess", prepare_as_on_gpus)
    with pytest.raises(ProcessExitedException):
        in_two(lambda: run_recipe(call_of(recipe), two, killed_at(3), {}, judge=False))
    in_two(lambda: run_recipe(call_of(recipe), two, untold, {}, judge=False))
    # What is split has its optimiser in a file of another name.
    assert (two / CHECKPOINTS / "checkpoint-3" / "optimizer.bin").exists() == split
    (file,) = (two / "weights").glob("*model*.safetensors")
    both = load_file(file)
    assert both.keys() == alone.keys()
    assert all(torch.allclose(both[name], tensor, atol=1e-6, rtol=0) for name, tensor in alone.items())
    kept, expected = ([json.dumps(sorted(line)) for line in read_history(place)] for place in (two, tmp_path / "one"))
    assert kept == expected
