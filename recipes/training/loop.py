"""The training loop of our own trainers, by accelerate; it resumes from the last checkpoint.

Random numbers depend on seed and step only, so that a training that resumes takes the same steps.
"""

from __future__ import annotations

import math
import pickle
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors.torch import load_model

from ...errors import TrainingError
from .checkpoints import Checkpoints, TrainingState
from .contract import Trainer
from .history import History, StepReport
from .optimisation import clamp, clipped_norm, optimiser_of, rates_of, take_step


class Loop:
    """A training in a folder.

    Args:
        trainer: The trainer.
        folder: Holds checkpoints and history.
        fingerprint: Of recipe and data; a checkpoint of another training is an error.

    Raises:
        TrainingError: The folder holds another training, or its last checkpoint is damaged.
    """

    def __init__(self, trainer: SteppedTrainer, folder: Path, fingerprint: str) -> None:
        self._trainer, self._recipe, self._processes = trainer, trainer.recipe, trainer.processes
        self._folder = folder
        self._rate = rates_of(trainer.steps, self._recipe.optimiser, self._recipe.schedule)
        self._accelerator = Accelerator(
            cpu=self._processes.device == "cpu", device_placement=False, mixed_precision="no"
        )
        # Gradients are summed by the trainer: a wrapped model would average them.
        self._accelerator.prepare_model(trainer.module, evaluation_mode=True)
        self._accelerator.register_save_state_pre_hook(self._save_trained_alone)
        self._stepper: Any = self._accelerator.prepare_optimizer(
            optimiser_of(trainer.parameters, self._recipe.optimiser)
        )
        self._checkpoints = Checkpoints(folder, fingerprint, self._processes)
        self.state = self._checkpoints.state
        if (last := self._checkpoints.last) is not None:
            self._load(last)

    def run(self, on_step: Callable[[StepReport], object]) -> TrainingState:
        """Run the remaining steps, and load the weights that the recipe keeps.

        Args:
            on_step: Called after each step.

        Raises:
            TrainingError: The loss or the gradients are not finite.
        """
        with self._trainer.history(self._folder, self.state.step) as history:
            self._take_steps(history, on_step)
        if self._recipe.stop.keep == "best":
            checkpoint = self._checkpoints.at(self.state.best_step or self.state.step)
            load_model(self._trainer.module, checkpoint / "model.safetensors", strict=False)
        return self.state

    def _take_steps(self, history: History, on_step: Callable[[StepReport], object]) -> None:
        began, first = time.monotonic(), self.state.step
        while not self.state.ended:
            line, step = self._step(), self.state.step + 1
            self.state = replace(self.state, step=step)
            history.note(line)
            gone = time.monotonic() - began
            left = gone / (step - first) * (self._trainer.steps - step)
            on_step(
                StepReport(step, self._trainer.steps, line["loss"], line["rate"], left if step > first + 1 else None)
            )
            ends = step >= self._trainer.steps
            if ends or step % self._trainer.every == 0:
                if self._recipe.data.validation is not None:
                    history.note(self._validated())
                self._save("all steps were taken" if ends else "")

    def _step(self) -> dict[str, float]:
        step = self.state.step
        rate = self._rate(step)
        began = time.monotonic()
        self._stepper.zero_grad()
        losses = self._trainer.backward(step)
        norm = clipped_norm(self._trainer.parameters.values(), self._recipe.optimiser)
        if not (math.isfinite(losses["loss"]) and math.isfinite(norm)):
            loss = losses["loss"]
            fault = f"the norm of the gradients is {norm}" if math.isfinite(loss) else f"the loss is {loss}"
            raise self._checkpoints.no_number(step + 1, f"{fault}; {self._trainer.named_rows(step)}")
        take_step(self._stepper, rate)
        clamp(self._trainer.parameters, self._recipe.optimiser)
        seconds = round(time.monotonic() - began, 4)
        return {"step": step + 1, **losses, "rate": rate, "gradient_norm": norm, "seconds": seconds}

    def _validated(self) -> dict[str, float]:
        """Validate, update the state by what the stop rule watches, and return the line of the history."""
        stop, state = self._recipe.stop, self.state
        values = self._trainer.validate()
        loss, watched = values["validation_loss"], values[stop.watched]
        if not math.isfinite(loss):
            raise self._checkpoints.no_number(state.step, f"the validation loss is {loss}")
        # A metric without a value is not better than any.
        worst = -math.inf if self._trainer.watches_higher else math.inf
        best = worst if state.best is None else state.best
        if watched > best if self._trainer.watches_higher else watched < best:
            state = replace(state, best=watched, best_step=state.step)
        elif stop.patience is not None and state.step - state.best_step >= stop.patience:
            state = replace(state, ended=self._trainer.stalled(state.step - state.best_step))
        self.state = state
        return {"step": state.step, **{name: value for name, value in values.items() if math.isfinite(value)}}

    def _save(self, ended: str) -> None:
        state = self.state = replace(self.state, ended=self.state.ended or ended)
        self._accelerator.save_state(str(self._checkpoints.at(state.step)))
        self._processes.wait()
        self._checkpoints.mark(state)
        self._checkpoints.keep(state.step, *([state.best_step] if self._recipe.stop.keep == "best" else []))
        self._processes.wait()

    def _save_trained_alone(self, models: list[Any], weights: list[dict[str, torch.Tensor]], folder: str) -> None:
        """Replace what a checkpoint holds of the model by its trained parameters; see ``register_save_state_pre_hook``.

        Args:
            models: The model.
            weights: Its state, changed in place.
            folder: The checkpoint's.
        """
        weights[0] = {name: parameter.detach() for name, parameter in self._trainer.parameters.items()}

    def _load(self, checkpoint: Path) -> None:
        try:
            self._accelerator.load_state(str(checkpoint), strict=False)
        except (OSError, EOFError, LookupError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
            raise TrainingError(f"{checkpoint}: not a valid checkpoint: {error}", f"Remove {checkpoint}.") from error


class SteppedTrainer(Trainer):
    """A trainer that computes the gradients of an objective step by step.

    A step depends on the recipe, the weights and the step's number only, so that an interrupted training resumes
    exactly.
    """

    @abstractmethod
    def backward(self, step: int) -> dict[str, float]:
        """Add the gradients of a step to those of the parameters.

        Returns:
            ``loss``, and its parts by name.

        Raises:
            BenchError: An input cannot be read.
        """

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """Validate without gradients, always with the same texts.

        Returns:
            ``validation_loss``, the mean loss of the validation rows, and the values of ``measure.metrics``, NaN where
            one has none.

        Raises:
            BenchError: A metric cannot be computed.
        """

    def train(self, folder: Path, on_step: Callable[[StepReport], object], fingerprint: str) -> TrainingState:
        """Train by ``Loop``; see ``Trainer.train``."""
        return Loop(self, folder, fingerprint).run(on_step)
