"""Trainings that end at a step as if the machine had lost its power."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import torch
from safetensors.torch import load_file

from capbench.recipes.training.checkpoints import CHECKPOINTS, MARK
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.execution import run_recipe
from capbench.recipes.training.history import StepReport, read_history


def killed_at(step: int) -> Callable[[StepReport], None]:
    """Return what ends this process when it is told of a step."""

    def tell(taken: StepReport) -> None:
        if taken.step == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return tell


def train_until_killed(call: TrainingCall, folder: Path, step: int) -> None:
    """Train in a process of its own that ends at a step."""
    assert forked.carried_out(lambda: run_recipe(call, folder, killed_at(step), {})) == -signal.SIGKILL


def assert_alike(folder: Path, undisturbed: Path, weights: str) -> None:
    """Assert that two trainings ended with the same weights, in a file of this name, checkpoints and histories."""
    ours, expected = (load_file(place / "weights" / weights) for place in (folder, undisturbed))
    assert ours.keys() == expected.keys()
    assert all(torch.equal(ours[name], tensor) for name, tensor in expected.items())
    (state, tensors), (expected_state, expected_tensors) = map(last_checkpoint, (folder, undisturbed))
    assert state == expected_state
    assert tensors.keys() == expected_tensors.keys()
    assert all(torch.equal(tensors[name], tensor) for name, tensor in expected_tensors.items())
    lines, expected_lines = (
        [{key: value for key, value in line.items() if key != "seconds"} for line in read_history(place)]
        for place in (folder, undisturbed)
    )
    assert lines == expected_lines


def last_checkpoint(folder: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return the state of the last checkpoint of our loop, and its weights and moments by name."""
    last = max((folder / CHECKPOINTS).iterdir(), key=lambda path: int(path.name.rpartition("-")[2]))
    moments = torch.load(last / "optimizer.bin", weights_only=True)["state"]
    tensors = load_file(last / "model.safetensors")
    tensors |= {f"{kind} {number}": value for number, held in moments.items() for kind, value in held.items()}
    return json.loads((last / MARK).read_text()), tensors


def untold(taken: StepReport) -> None:
    """Be told of a step, and do nothing."""
