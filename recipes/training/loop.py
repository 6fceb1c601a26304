"""Takes the steps of a training: from wherever it was left to its end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import TrainingError
from .checkpoints import BEST, LAST, State, load, save
from .contract import Trainer
from .history import History, read_history
from .optimisation import Steps, rate_at
from .processes import Processes
from .schema import Recipe


@dataclass(frozen=True)
class Taken:
    """What is told of a step.

    Attributes:
        step: How many were taken.
        steps: Of the whole training.
        loss: Of the step.
        rate: Its learning rate.
        seconds_left: As the steps so far say; None at the first.
    """

    step: int
    steps: int
    loss: float
    rate: float
    seconds_left: float | None


def steps_of(recipe: Recipe, trainer: Trainer) -> int:
    """Return how many steps a training has at most."""
    if recipe.stop.steps is not None:
        return recipe.stop.steps
    return max(round((recipe.stop.epochs or 0) * trainer.steps_in_an_epoch), 1)


def every(recipe: Recipe, trainer: Trainer) -> int:
    """Return how many steps lie between two checkpoints, and two looks at the validation loss."""
    return recipe.stop.every or max(trainer.steps_in_an_epoch // 3, 1)


class Loop:
    """A training in a folder.

    Args:
        recipe: What is done.
        trainer: Who does it.
        folder: Holds its checkpoints and its history.
        fingerprint: Of recipe and data: a checkpoint of another training is not gone on with.
        processes: Those that train together.

    Raises:
        TrainingError: The folder holds another training.
    """

    def __init__(
        self, recipe: Recipe, trainer: Trainer, folder: Path, fingerprint: str, processes: Processes
    ) -> None:
        self._recipe = recipe
        self._trainer = trainer
        self._folder = folder
        self._processes = processes
        self._optimiser = Steps(trainer.parameters, recipe.optimiser)
        self._steps = steps_of(recipe, trainer)
        self.state = State(fingerprint)
        if (folder / LAST).is_file():
            self._take_up(fingerprint)

    def run(self, told: Callable[[Taken], object]) -> State:
        """Take all steps that are left, and leave the weights that the recipe keeps.

        Args:
            told: Is told of each step.

        Raises:
            TrainingError: The loss is no number, or its gradients are none.
        """
        history = History(self._folder, self.state.step) if self._processes.is_first else None
        began, first = time.monotonic(), self.state.step
        while not self.state.ended:
            line, step = self._step(), self.state.step + 1
            self.state = replace(self.state, step=step)
            if history:
                history.add(line)
            gone = time.monotonic() - began
            left = gone / (step - first) * (self._steps - step)
            told(Taken(step, self._steps, line["loss"], line["rate"], left if step > first + 1 else None))
            ends = step >= self._steps
            if ends or step % every(self._recipe, self._trainer) == 0:
                self._look(history, ends)
        if self._recipe.stop.keep == "best":
            self._put(load(self._folder / BEST)[1])
        return self.state

    def _step(self) -> dict[str, float]:
        step = self.state.step
        rate = rate_at(step, self._steps, self._recipe.optimiser, self._recipe.schedule)
        began = time.monotonic()
        self._optimiser.clear()
        found = self._trainer.backward(step)
        norm = self._optimiser.norm()
        if not (math.isfinite(found["loss"]) and math.isfinite(norm)):
            loss = found["loss"]
            what = f"the norm of the gradients is {norm}" if math.isfinite(loss) else f"the loss is {loss}"
            raise self._no_number(step + 1, f"{what}; its rows: {_listed(self._trainer.ids(step))}")
        self._optimiser.take(rate)
        seconds = round(time.monotonic() - began, 4)
        return {"step": step + 1, **found, "rate": rate, "gradient_norm": norm, "seconds": seconds}

    def _look(self, history: History | None, ends: bool) -> None:
        """Look at the validation loss, decide what follows from it, and save all."""
        stop, state = self._recipe.stop, self.state
        if self._recipe.data.validation is not None:
            loss = self._trainer.validate()
            if not math.isfinite(loss):
                raise self._no_number(state.step, f"the validation loss is {loss}")
            if history:
                history.add({"step": state.step, "validation_loss": loss})
            if state.best is None or loss < state.best:
                state = replace(state, best=loss, best_step=state.step)
                if self._processes.is_first and stop.keep == "best":
                    save(self._folder / BEST, state, self._trainer.parameters)
            elif stop.patience is not None and state.step - state.best_step >= stop.patience:
                why = f"the validation loss was not lower for {state.step - state.best_step} steps"
                state = replace(state, ended=why)
        if ends and not state.ended:
            state = replace(state, ended="all steps were taken")
        self.state = state
        if self._processes.is_first:
            remembered = {f"optimiser/{name}": one for name, one in self._optimiser.state().items()}
            weights = {f"weights/{name}": one for name, one in self._trainer.parameters.items()}
            save(self._folder / LAST, state, weights | remembered)
        self._processes.wait()

    def _take_up(self, fingerprint: str) -> None:
        state, tensors = load(self._folder / LAST)
        if state.fingerprint != fingerprint:
            raise TrainingError(
                f"{self._folder}: holds a training of another recipe, or on other data.",
                "Name another folder with --output, or remove this one.",
            )
        self.state = state
        for part, take in (("weights/", self._put), ("optimiser/", self._optimiser.restore)):
            take({name.removeprefix(part): one for name, one in tensors.items() if name.startswith(part)})

    def _put(self, weights: dict) -> None:
        import torch

        with torch.no_grad():
            for name, parameter in self._trainer.parameters.items():
                parameter.copy_(weights[name])

    def _no_number(self, step: int, what: str) -> TrainingError:
        remedy = "A lower rate, a warm-up or 'optimiser.clip' help, in a new folder."
        return TrainingError(f"step {step}: {what}.", f"{self._last_before()} {remedy}")

    def _last_before(self) -> str:
        """Return which checkpoint there is, with what is known of it: its own step may have ruined its weights."""
        last = self._folder / LAST
        if not last.is_file():
            return "There is no checkpoint before it."
        step = load(last)[0].step
        known = {
            key: value
            for line in read_history(self._folder)
            if line["step"] == step
            for key, value in line.items()
        }
        losses = [
            f"{key.replace('_', ' ')} {known[key]:.4g}" for key in ("loss", "validation_loss") if key in known
        ]
        return f"The last checkpoint before it is {last} ({', '.join([f'step {step}', *losses])})."


def _listed(ids: Sequence[str]) -> str:
    return f"{', '.join(ids[:20])}{', …' if len(ids) > 20 else ''}"
