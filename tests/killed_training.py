"""Trainings that end at a step as if the machine had lost its power."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import forked

from capbench.recipes.training.carrying_out import carry_out
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.loop import StepReport


def killed_at(step: int) -> Callable[[StepReport], None]:
    """Return what ends this process when it is told of a step."""

    def tell(taken: StepReport) -> None:
        if taken.step == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return tell


def train_until_killed(call: TrainingCall, folder: Path, step: int) -> None:
    """Train in a process of its own that ends at a step."""
    assert forked.carried_out(lambda: carry_out(call, folder, killed_at(step), {})) == -signal.SIGKILL


def untold(taken: StepReport) -> None:
    """Be told of a step, and do nothing."""
