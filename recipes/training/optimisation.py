"""The optimiser of a recipe, its learning rate at a step, and its state as tensors by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .schema import Optimiser, Schedule

if TYPE_CHECKING:
    import torch


def rate_at(step: int, steps: int, optimiser: Optimiser, schedule: Schedule) -> float:
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


class Steps:
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
