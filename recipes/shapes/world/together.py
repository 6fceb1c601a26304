"""The training loop of the shapes world, and its command lines."""

import argparse
import inspect
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch

_T = TypeVar("_T")

HALVES = 2
"""Parts of a batch with pictures, random numbers and losses of their own."""
_PRINTED = 25


def run(train: Callable[..., _T]) -> _T:
    """Run a training as a command, and return its result.

    Args:
        train: Its parameters are the options; those without a default are required paths of files or folders.
    """
    parser = argparse.ArgumentParser(description=inspect.getdoc(train), formatter_class=argparse.RawTextHelpFormatter)
    for name, parameter in inspect.signature(train).parameters.items():
        if parameter.default is parameter.empty:
            parser.add_argument(f"--{name}", type=Path, required=True)
        else:
            parser.add_argument(f"--{name}", type=type(parameter.default), default=parameter.default)
    return train(**vars(parser.parse_args()))


def optimise(
    parts: Sequence[tuple[Sequence[torch.nn.Parameter], float]],
    losses_of: Sequence[Callable[[], dict[str, torch.Tensor]]],
    steps: int,
    weights: Mapping[str, float] | None = None,
    *,
    tunes: bool = False,
    clip: bool = True,
) -> None:
    """Minimise the sum of losses, and print the progress.

    Args:
        parts: The trained parameters, each with its highest learning rate.
        losses_of: Each returns the losses of its part of a batch by name; of several the mean is minimised.
        steps: Number of steps.
        weights: The weight of each loss; losses without a weight are only printed. By default all have weight 1.
        tunes: Whether few weights are tuned, which do not decay.
        clip: Whether gradients are clipped to a norm of 1.
    """
    groups = [
        {"params": [param for param in part if (param.ndim > 1) == is_matrix], "weight_decay": decay, "highest": rate}
        for part, rate in parts
        for is_matrix, decay in ((True, 0.0 if tunes else 0.05), (False, 0.0))
    ]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.999 if tunes else 0.98))
    parameters = [param for part, _ in parts for param in part]
    totals: Counter[str] = Counter()
    began = time.monotonic()
    for step in range(steps):
        optimiser.zero_grad()
        for compute in losses_of:
            losses = compute()
            weighted = [weight * losses[key] for key, weight in (weights or dict.fromkeys(losses, 1.0)).items()]
            (torch.stack(weighted).sum() / len(losses_of)).backward()
            totals.update({key: value.item() / len(losses_of) / _PRINTED for key, value in losses.items()})
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in optimiser.param_groups:
            group["lr"] = group["highest"] * share_of_rate(step, steps)
        optimiser.step()
        if (step + 1) % _PRINTED == 0:
            means = " ".join(f"{key} {mean:.3f}" for key, mean in totals.items())
            print(f"step {step + 1} of {steps}: {means}; {time.monotonic() - began:.0f} s", flush=True)
            totals.clear()


def share_of_rate(step: int, steps: int) -> float:
    """Return the learning rate of a step as a share of the highest: warm-up, constant, decay to 0."""
    return min(1.0, (step + 1) / 50, (steps - step) / (0.3 * steps))
