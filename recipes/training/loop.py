"""Takes the steps of a training: from wherever it was left to its end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import TrainingError
from .checkpoints import BEST, LAST, TrainingState, load, save
from .contract import Trainer
from .history import History, read_history
from .processes import TrainingProcesses
from .schema import Optimiser, RateSchedule, Recipe

if TYPE_CHECKING:
    import torch


def rate_at(step: int, steps: int, optimiser: Optimiser, schedule: RateSchedule) -> float:
    """Return the learning rate of a step.

    Args:
        step: Counted from 0.
        steps: Of the whole training.
        optimiser: Says the highest.
        schedule: Says how it rises and falls.
    """
    if step < schedule.warm_up:
        return optimiser.rate * (step + 1) / (schedule.warm_up + 1)
    if schedule.decay == "constant":
        return optimiser.rate
    first = max(schedule.warm_up, schedule.hold)
    gone = (step - first) / max((schedule.until or steps) - first, 1)
    gone = min(max(gone, 0.0), 1.0)
    share = 1 - gone if schedule.decay == "linear" else (1 + math.cos(math.pi * gone)) / 2
    return schedule.floor + (optimiser.rate - schedule.floor) * share


class AdamSteps:
    """Takes steps with AdamW.

    Args:
        parameters: What is trained, by name.
        optimiser: How.
    """

    def __init__(self, parameters: Mapping[str, torch.nn.Parameter], optimiser: Optimiser) -> None:
        import torch

        self._parameters = parameters
        self._clip = optimiser.clip
        self._adam = torch.optim.AdamW(
            list(parameters.values()),
            lr=optimiser.rate,
            betas=optimiser.betas,
            eps=optimiser.eps,
            weight_decay=optimiser.weight_decay,
        )

    def clear(self) -> None:
        """Forget the gradients."""
        self._adam.zero_grad()

    def norm(self) -> float:
        """Return the norm of all gradients, and cut them to the highest that is allowed."""
        import torch

        return float(torch.nn.utils.clip_grad_norm_(self._parameters.values(), self._clip or math.inf))

    def take(self, rate: float) -> None:
        """Change the parameters."""
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._adam.step()

    def state(self) -> dict[str, torch.Tensor]:
        """Return what the optimiser remembers, ``NAME/KIND`` to a tensor."""
        return {
            f"{name}/{kind}": value
            for name, parameter in self._parameters.items()
            for kind, value in self._adam.state[parameter].items()
        }

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take up what :meth:`state` returned."""
        for key, value in state.items():
            name, _, kind = key.rpartition("/")
            parameter = self._parameters[name]
            # Its count of steps stays on the processor.
            self._adam.state[parameter][kind] = value if kind == "step" else value.to(parameter.device)


@dataclass(frozen=True)
class StepReport:
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
        self, recipe: Recipe, trainer: Trainer, folder: Path, fingerprint: str, processes: TrainingProcesses
    ) -> None:
        self._recipe = recipe
        self._trainer = trainer
        self._folder = folder
        self._processes = processes
        self._optimiser = AdamSteps(trainer.parameters, recipe.optimiser)
        self._steps = steps_of(recipe, trainer)
        self.state = TrainingState(fingerprint)
        if (folder / LAST).is_file():
            self._take_up(fingerprint)

    def run(self, told: Callable[[StepReport], object]) -> TrainingState:
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
            told(StepReport(step, self._steps, line["loss"], line["rate"], left if step > first + 1 else None))
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
            key: value for line in read_history(self._folder) if line["step"] == step for key, value in line.items()
        }
        losses = [f"{key.replace('_', ' ')} {known[key]:.4g}" for key in ("loss", "validation_loss") if key in known]
        return f"The last checkpoint before it is {last} ({', '.join([f'step {step}', *losses])})."


def _listed(ids: Sequence[str]) -> str:
    return f"{', '.join(ids[:20])}{', …' if len(ids) > 20 else ''}"
