"""Learning rates, optimisers, and what a step does to parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ...errors import UsageError, did_you_mean
from .schema import Optimiser, RateSchedule

if TYPE_CHECKING:
    import torch


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
