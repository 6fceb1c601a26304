"""What the trainers of libraries write and tell: history, progress, and the marks of checkpoints."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from transformers import TrainerCallback

from .checkpoints import Checkpoints
from .contract import Trainer
from .history import History, StepReport

MEASURED = "eval_"
"""Prefix of what a library's trainer calls the values of its validation."""


class Reporter(TrainerCallback):
    """A callback of ``transformers.Trainer``, or of one like it; see ``TrainerCallback`` for its methods.

    Args:
        trainer: Our trainer.
        history: Gets a line per step and per validation.
        checkpoints: Where the library writes.
        on_step: Called after each step.
        terms: Further numbers of the library's log, and their names in the history.
    """

    def __init__(
        self,
        trainer: Trainer,
        history: History,
        checkpoints: Checkpoints,
        on_step: Callable[[StepReport], object],
        terms: Mapping[str, str],
    ) -> None:
        self._own, self._history, self._checkpoints, self._on_step = trainer, history, checkpoints, on_step
        self._terms = {"loss": "loss", "learning_rate": "rate", "grad_norm": "gradient_norm", **terms}
        self._began = self._last = 0.0
        self._first = checkpoints.state.step

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the clock."""
        self._began = self._last = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, float] = {}, **kwargs: Any) -> None:
        """Add a line to the history.

        Raises:
            TrainingError: The loss or the gradients are not finite.
        """
        step = state.global_step
        if MEASURED + "validation_loss" in logs:
            names = ("validation_loss", *self._own.recipe.measure.metrics)
            values = {name: logs[MEASURED + name] for name in names}
            if not math.isfinite(loss := values["validation_loss"]):
                raise self._checkpoints.no_number(step, f"the validation loss is {loss}")
            self._history.note(
                {"step": step, **{name: value for name, value in values.items() if math.isfinite(value)}}
            )
        elif "loss" in logs:
            now = time.monotonic()
            line = {"step": step, **{name: logs[term] for term, name in self._terms.items() if term in logs}}
            line["seconds"] = round(now - self._last, 4)
            self._last = now
            if not math.isfinite(wrong := line["loss"] + line["gradient_norm"]):
                fault = f"the loss or the norm of the gradients is {wrong}; {self._own.named_rows(step - 1)}"
                raise self._checkpoints.no_number(step, fault)
            self._history.note(line)
            done = step - self._first
            left = (now - self._began) / done * (self._own.steps - step) if done > 1 else None
            self._on_step(StepReport(step, self._own.steps, line["loss"], line["rate"], left))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark a checkpoint as whole."""
        step, best = state.global_step, state.best_global_step or 0
        ended = "all steps were taken" if step >= self._own.steps else ""
        if not ended and control.should_training_stop:
            ended = self._own.stalled(step - best)
        self._checkpoints.mark(
            replace(self._checkpoints.state, step=step, best=state.best_metric, best_step=best, ended=ended)
        )
