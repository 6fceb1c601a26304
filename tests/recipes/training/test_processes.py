"""Several processes train as one does, and go on after a kill as if there had been none."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from killed_training import assert_alike, killed_at, last_checkpoint, untold
from started_by_torchrun import in_two
from tiny_recipes import FURTHER, VALIDATION, in_double
from torch.multiprocessing.spawn import ProcessExitedException

from capbench.atomic_files import folder_lock
from capbench.errors import TrainingError, UsageError
from capbench.recipes.training import execution
from capbench.recipes.training.checkpoints import CHECKPOINTS
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.execution import opened, run_recipe
from capbench.recipes.training.history import read_history
from capbench.recipes.training.processes import TrainingProcesses
from capbench.recipes.training.schema import load_recipe

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("one_thread")]

# Adam makes steps of whole rates of what is noise about zero, such as the gradient of a key's bias.
SGD = {"name": "SGD", "rate": 0.1, "arguments": {"momentum": 0.9}}
KEYS: dict[str, Any] = {"data": VALIDATION, "stop": {"steps": 3, "every": 1}, "optimiser": SGD}


def trained(call: TrainingCall, out: Path, step: int = 0) -> None:
    """Train by a recipe, in one of the processes that there are; end at a step."""
    own = TrainingCall(load_recipe(str(call.loaded.parsed.path)), TrainingProcesses("cpu"))
    run_recipe(own, out, killed_at(step) if step else untold, {}, judge=False)


def assert_as_one(out: Path, alone: Path) -> None:
    """Assert that two processes trained as one, but for the order in which they add."""
    (state, tensors), (expected, of_one) = map(last_checkpoint, (out, alone))
    assert state["step"] == expected["step"] == 3
    assert tensors.keys() == of_one.keys()
    for name, tensor in of_one.items():
        torch.testing.assert_close(tensors[name], tensor, rtol=1e-6, atol=1e-6)
    for line, other in zip(read_history(out), read_history(alone), strict=True):
        assert {**line, "seconds": 0} == pytest.approx({**other, "seconds": 0}, rel=1e-6, abs=1e-6)


def test_encoder_trains_in_two_processes_as_in_one_and_goes_on_after_a_kill(
    call: Callable[..., TrainingCall], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(execution, "opened", lambda call: in_double(opened(call)))
    recipe = call(objective={**FURTHER, "batch": 5, "crop": [0.5, 1.0]}, measure={"metrics": ["recall@1"]}, **KEYS)
    trained(recipe, tmp_path / "one")
    in_two(lambda: trained(recipe, tmp_path / "two"))
    assert_as_one(tmp_path / "two", tmp_path / "one")
    with pytest.raises(ProcessExitedException):
        in_two(lambda: trained(recipe, tmp_path / "killed", 2))
    with folder_lock(tmp_path / "killed" / CHECKPOINTS), pytest.raises(TrainingError, match="another training writes"):
        trained(recipe, tmp_path / "killed")
    in_two(lambda: trained(recipe, tmp_path / "killed"))
    assert_alike(tmp_path / "killed", tmp_path / "two", "open_clip_model.safetensors")


def test_captioner_trains_on_its_own_captions_in_two_processes_as_in_one(
    scst: Callable[..., TrainingCall], tmp_path: Path
):
    recipe = scst(measure={"metrics": ["meteor"]}, **KEYS)
    trained(recipe, tmp_path / "one")
    in_two(lambda: trained(recipe, tmp_path / "two"))
    assert_as_one(tmp_path / "two", tmp_path / "one")


@pytest.mark.skipif(torch.accelerator.is_available(), reason="two processes need two GPUs, where there is one")
def test_processes_know_of_each_other_whether_or_not_a_device_is_named(monkeypatch: pytest.MonkeyPatch):
    def look() -> None:
        processes = TrainingProcesses(None)
        assert (processes.count, processes.device, processes.is_first) == (2, "cpu", processes.number == 0)
        assert processes.total([processes.number]) == [1.0]

    in_two(look)
    monkeypatch.setattr("accelerate.PartialState", lambda **_: SimpleNamespace(num_processes=1))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="2 processes were started, and each trains as one of 1"):
        TrainingProcesses(None)
