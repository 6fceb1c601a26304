"""The training loop with checkpoints and history; it resumes from the last checkpoint.

Checkpoints are written atomically and hold tensors and a line of JSON. Random states are not stored: random numbers
depend on seed and step only.
"""

from __future__ import annotations

import json
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...atomic_files import write_whole, written_whole
from ...errors import TrainingError, UsageError, did_you_mean
from .contract import Trainer
from .processes import TrainingProcesses
from .schema import Optimiser, RateSchedule, Recipe

if TYPE_CHECKING:
    import torch

LAST, BEST = "last.safetensors", "best.safetensors"
_METADATA = "capbench"


@dataclass(frozen=True)
class TrainingState:
    """The state of a training.

    Attributes:
        step: Number of completed steps.
        fingerprint: Of recipe and data.
        best: The lowest validation loss so far; None before the first.
        best_step: The step with that loss.
        ended: Why the training has ended; empty before.
    """

    fingerprint: str
    step: int = 0
    best: float | None = None
    best_step: int = 0
    ended: str = ""


def save(path: Path, state: TrainingState, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a checkpoint atomically.

    Raises:
        OSError: It cannot be written.
    """
    from safetensors.torch import save_file

    held = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    with written_whole(path) as draft:
        save_file(held, draft, {_METADATA: json.dumps(asdict(state))})


def load(path: Path) -> tuple[TrainingState, dict[str, torch.Tensor]]:
    """Read a checkpoint.

    Raises:
        TrainingError: The file is damaged, or not a checkpoint.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            record = json.loads((file.metadata() or {})[_METADATA])
            return TrainingState(**record), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise TrainingError(f"{path}: not a valid checkpoint: {error}", "Remove it to start again.") from error


FILE, FIGURE = "metrics.jsonl", "loss.svg"


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the history, without an incomplete last one."""
    path = folder / FILE
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def draw_history(folder: Path, name: str) -> str:
    """Draw the losses by step; return the reason if that fails."""
    from ...benchmarks.plots.style import BLUE, ORANGE, new_figure, style, write_figure

    history = read_history(folder)
    try:
        with style():
            figure = new_figure("single", 2.2)
            axes = figure.subplots()
            for kind, label, colour, marker in (
                ("loss", "of the step", BLUE, ""),
                ("validation_loss", "validation", ORANGE, "o"),
            ):
                if points := [(line["step"], line[kind]) for line in history if kind in line]:
                    x, y = zip(*points, strict=True)
                    axes.plot(x, y, color=colour, marker=marker, markersize=3, linewidth=0.8, label=label)
            axes.set_xlabel("step")
            axes.set_ylabel("loss")
            axes.legend()
            steps = sum("loss" in line for line in history)
            figure.set_label(f"Losses of {name}\nThe loss of each of {steps} steps, and of validation.")
            write_figure(figure, folder / FIGURE)
    except UsageError as error:
        return error.in_one_line
    return ""


def rate_at(step: int, steps: int, optimiser: Optimiser, schedule: RateSchedule) -> float:
    """Return the learning rate of a step.

    Args:
        step: Counted from 0.
        steps: Number of steps of the training.
        optimiser: Gives the highest rate.
        schedule: Gives warm-up and decay.
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


def rates_of(steps: int, optimiser: Optimiser, schedule: RateSchedule) -> Callable[[int], float]:
    """Return a function that gives the learning rate of a step, counted from 0.

    Args:
        steps: Number of steps of the training.
        optimiser: Gives the highest rate.
        schedule: The recipe's own, or the name of one of transformers.

    Raises:
        UsageError: transformers has no such schedule of the step alone, or it does not take the arguments.
    """
    if schedule.name is None:
        return lambda step: rate_at(step, steps, optimiser, schedule)
    import torch
    from transformers import get_scheduler

    unused = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=optimiser.rate)
    try:
        theirs = get_scheduler(
            schedule.name, unused, schedule.warm_up, steps, scheduler_specific_kwargs=schedule.arguments
        )
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"schedule: {schedule.name}: {error}", "See transformers.get_scheduler for its names and arguments."
        ) from error
    if not isinstance(theirs, torch.optim.lr_scheduler.LambdaLR):
        raise UsageError(
            f"schedule.name: '{schedule.name}' depends on more than the step, and cannot resume exactly.",
            "Name another, such as cosine_with_restarts.",
        )
    (factor,) = theirs.lr_lambdas
    return lambda step: optimiser.rate * factor(step)


def optimiser_of(parameters: Mapping[str, torch.nn.Parameter], optimiser: Optimiser) -> torch.optim.Optimizer:
    """Return an optimiser with a recipe's settings.

    Args:
        parameters: The trainable parameters by name.
        optimiser: The settings.

    Raises:
        UsageError: torch has no such class, it does not take the arguments, or a pattern matches no parameter.
    """
    import torch

    kinds: dict[str, Any] = {
        name: kind
        for name, kind in vars(torch.optim).items()
        # LBFGS evaluates the loss several times in a step.
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and name not in {"Optimizer", "LBFGS"}
    }
    if optimiser.name not in kinds:
        raise UsageError(
            f"optimiser.name: torch.optim has no '{optimiser.name}'.{did_you_mean(optimiser.name, kinds)}",
            f"Name one of {', '.join(sorted(kinds))}.",
        )
    for pattern in [*(optimiser.no_decay if isinstance(optimiser.no_decay, list) else []), *optimiser.clamp]:
        if not any(fnmatchcase(name, pattern) for name in parameters):
            raise UsageError(
                f"optimiser: '{pattern}' matches no trained parameter.",
                f"Trained are {', '.join(list(parameters)[:6])}, …",
            )
    settings = optimiser.model_dump(
        include={"betas", "eps", "weight_decay"}, exclude_unset=optimiser.name != Optimiser.model_fields["name"].default
    )
    exempt = {name for name, parameter in parameters.items() if _is_exempt(name, parameter, optimiser.no_decay)}
    # Without exemptions there is one group.
    groups: list[dict[str, Any]] = [
        {"params": held} | ({"weight_decay": 0.0} if is_exempt else {})
        for is_exempt in (False, True)
        if (held := [parameter for name, parameter in parameters.items() if (name in exempt) == is_exempt])
    ]
    try:
        return kinds[optimiser.name](groups, lr=optimiser.rate, **settings, **optimiser.arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"optimiser: {optimiser.name}: {error}", f"See torch.optim.{optimiser.name} for its arguments."
        ) from error


def _is_exempt(name: str, parameter: torch.nn.Parameter, no_decay: str | list[str]) -> bool:
    if isinstance(no_decay, str):
        return parameter.ndim < 2
    return any(fnmatchcase(name, pattern) for pattern in no_decay)


def take_step(stepper: torch.optim.Optimizer, rate: float) -> None:
    """Update the parameters at a learning rate."""
    for group in stepper.param_groups:
        group["lr"] = rate
    stepper.step()


def clamp(parameters: Mapping[str, torch.nn.Parameter], optimiser: Optimiser) -> None:
    """Return parameters that left the recipe's range to its end."""
    for pattern, (least, greatest) in optimiser.clamp.items():
        for name, parameter in parameters.items():
            if fnmatchcase(name, pattern):
                parameter.data.clamp_(least, greatest)


def clipped_norm(parameters: Iterable[torch.nn.Parameter], optimiser: Optimiser) -> float:
    """Clip gradients, and return their norm before."""
    import torch

    return float(torch.nn.utils.clip_grad_norm_(parameters, optimiser.clip or math.inf))


@dataclass(frozen=True)
class StepReport:
    """Progress of a training after a step.

    Attributes:
        step: Number of completed steps.
        steps: Number of steps of the training.
        loss: Loss of the step.
        rate: Its learning rate.
        seconds_left: Estimated from the steps so far; None at the first.
    """

    step: int
    steps: int
    loss: float
    rate: float
    seconds_left: float | None


def steps_of(recipe: Recipe, trainer: Trainer) -> int:
    """Return the maximum number of steps."""
    if recipe.stop.steps is not None:
        return recipe.stop.steps
    return max(round((recipe.stop.epochs or 0) * trainer.batches.in_an_epoch), 1)


def every(recipe: Recipe, trainer: Trainer) -> int:
    """Return the number of steps between checkpoints and between validations."""
    return recipe.stop.every or max(trainer.batches.in_an_epoch // 3, 1)


class Loop:
    """A training in a folder.

    Args:
        recipe: The recipe.
        trainer: Its trainer.
        folder: Holds checkpoints and history.
        fingerprint: Of recipe and data; a checkpoint of another training is an error.
        processes: The processes of the training.

    Raises:
        TrainingError: The folder holds another training.
    """

    def __init__(
        self, recipe: Recipe, trainer: SteppedTrainer, folder: Path, fingerprint: str, processes: TrainingProcesses
    ) -> None:
        self._recipe = recipe
        self._trainer = trainer
        self._folder = folder
        self._processes = processes
        self._stepper = optimiser_of(trainer.parameters, recipe.optimiser)
        self._steps = steps_of(recipe, trainer)
        self._rate = rates_of(self._steps, recipe.optimiser, recipe.schedule)
        self.state = TrainingState(fingerprint)
        if (folder / LAST).is_file():
            self._take_up(fingerprint)

    def run(self, on_step: Callable[[StepReport], object]) -> TrainingState:
        """Run the remaining steps, and load the weights that the recipe keeps.

        Args:
            on_step: Called after each step.

        Raises:
            TrainingError: The loss or the gradients are not finite.
        """
        if self._processes.is_first:
            # Lines of later steps are from a killed process.
            kept = [line for line in read_history(self._folder) if line["step"] <= self.state.step]
            write_whole(self._folder / FILE, "".join(json.dumps(line) + "\n" for line in kept))
        began, first = time.monotonic(), self.state.step
        while not self.state.ended:
            line, step = self._step(), self.state.step + 1
            self.state = replace(self.state, step=step)
            self._note(line)
            gone = time.monotonic() - began
            left = gone / (step - first) * (self._steps - step)
            on_step(StepReport(step, self._steps, line["loss"], line["rate"], left if step > first + 1 else None))
            ends = step >= self._steps
            if ends or step % every(self._recipe, self._trainer) == 0:
                self._look(ends)
        if self._recipe.stop.keep == "best":
            self._put(load(self._folder / BEST)[1])
        return self.state

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
            ids = self._trainer.ids(step)
            raise self._no_number(step + 1, f"{fault}; its rows: {', '.join(ids[:20])}{', …' if len(ids) > 20 else ''}")
        take_step(self._stepper, rate)
        clamp(self._trainer.parameters, self._recipe.optimiser)
        seconds = round(time.monotonic() - began, 4)
        return {"step": step + 1, **losses, "rate": rate, "gradient_norm": norm, "seconds": seconds}

    def _look(self, ends: bool) -> None:
        """Validate, update the best weights and the stop rule, and save a checkpoint."""
        stop, state = self._recipe.stop, self.state
        if self._recipe.data.validation is not None:
            loss = self._trainer.validate()
            if not math.isfinite(loss):
                raise self._no_number(state.step, f"the validation loss is {loss}")
            self._note({"step": state.step, "validation_loss": loss})
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
            remembered = {
                f"optimiser/{name}/{kind}": value
                for name, parameter in self._trainer.parameters.items()
                # SGD without momentum has None.
                for kind, value in self._stepper.state[parameter].items()
                if value is not None
            }
            weights = {f"weights/{name}": tensor for name, tensor in self._trainer.parameters.items()}
            save(self._folder / LAST, state, weights | remembered)
        self._processes.wait()

    def _note(self, line: Mapping[str, Any]) -> None:
        """Add a line to the history."""
        if self._processes.is_first:
            with (self._folder / FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def _take_up(self, fingerprint: str) -> None:
        state, tensors = load(self._folder / LAST)
        if state.fingerprint != fingerprint:
            raise TrainingError(
                f"{self._folder}: holds a training with another recipe or other data.",
                "Name another folder with --output, or remove this one.",
            )
        self.state = state
        self._put({name.removeprefix("weights/"): tensor for name, tensor in tensors.items()})
        for key, value in tensors.items():
            if key.startswith("optimiser/"):
                name, _, kind = key.removeprefix("optimiser/").rpartition("/")
                parameter = self._trainer.parameters[name]
                # Its step counter stays on the CPU.
                self._stepper.state[parameter][kind] = value if kind == "step" else value.to(parameter.device)

    def _put(self, weights: dict) -> None:
        import torch

        with torch.no_grad():
            for name, parameter in self._trainer.parameters.items():
                parameter.copy_(weights[name])

    def _no_number(self, step: int, fault: str) -> TrainingError:
        """Return the error, with the losses of the last checkpoint, whose weights may be ruined already."""
        last, note = self._folder / LAST, "There is no earlier checkpoint."
        if last.is_file():
            at = load(last)[0].step
            lines = (line for line in read_history(self._folder) if line["step"] == at)
            known = {key: value for line in lines for key, value in line.items()}
            parts = [f"{key.replace('_', ' ')} {known[key]:.4g}" for key in ("loss", "validation_loss") if key in known]
            note = f"The last checkpoint is {last} ({', '.join([f'step {at}', *parts])})."
        remedy = "Use a new folder and a lower rate, a warm-up or 'optimiser.clip'."
        return TrainingError(f"step {step}: {fault}.", f"{note} {remedy}")


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
    def validate(self) -> float:
        """Return the mean loss of the validation rows, always with the same texts, without gradients."""

    def train(self, folder: Path, on_step: Callable[[StepReport], object], fingerprint: str) -> TrainingState:
        """Train by ``Loop``; see ``Trainer.train``."""
        return Loop(self.recipe, self, folder, fingerprint, self.processes).run(on_step)
