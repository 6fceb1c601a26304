"""Training loops of the shapes world, in one process or in several with shared gradients, and their command lines."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn


def run(description: str, settings: type, train: Callable[..., None], **places: str) -> None:
    """Run a training command.

    Args:
        description: Its help.
        settings: A dataclass with defaults for all fields; each field is an option.
        train: Called with the settings and the paths.
        places: Names of required options with paths of files or folders, and their help.
    """
    parser = argparse.ArgumentParser(description=description)
    for name, meaning in places.items():
        parser.add_argument(f"--{name}", type=Path, required=True, help=meaning)
    known: Any = fields(settings)
    for field in known:
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    arguments = vars(parser.parse_args())
    train(settings(**{field.name: arguments[field.name] for field in known}), *(arguments[name] for name in places))


def in_processes(work: Callable[..., None], settings: Any, *extra: Any) -> None:
    """Start the processes of a training.

    Args:
        work: Called with the number of the process, the settings and ``extra``.
        settings: The settings of the training.
        extra: Additional arguments.
    """
    with tempfile.TemporaryDirectory() as shared:
        arguments = work, f"file://{shared}/store", settings, *extra
        if settings.processes == 1:
            _be_one(0, *arguments)
        else:
            spawn(_be_one, arguments, settings.processes)


def _be_one(number: int, work: Callable[..., None], store: str, settings: Any, *extra: Any) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=store, rank=number, world_size=settings.processes)
    work(number, settings, *extra)
    distributed.destroy_process_group()


_PRINTED = 25


def optimise(
    parts: Sequence[tuple[Sequence[torch.nn.Parameter], float]],
    compute: Callable[[], dict[str, torch.Tensor]],
    steps: int,
    name: str,
    weights: Mapping[str, float] | None = None,
) -> None:
    """Minimise the sum of losses; the first process prints the progress.

    Args:
        parts: The trained modules, each with its highest learning rate.
        compute: Returns the losses of a step by name.
        steps: Number of steps.
        name: Printed before the losses.
        weights: The weight of each loss; losses without a weight are only printed. By default all have weight 1.
    """
    groups = [
        {"params": [param for param in part if (param.ndim > 1) == is_matrix], "weight_decay": decay, "highest": rate}
        for part, rate in parts
        for is_matrix, decay in ((True, 0.05), (False, 0.0))
    ]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98))
    parameters = [param for part, _ in parts for param in part]
    _descend(optimiser, parameters, compute, steps, name, weights)


def tune(
    parameters: Sequence[torch.Tensor],
    rate: float,
    compute: Callable[[], dict[str, torch.Tensor]],
    steps: int,
    *,
    clip: bool = True,
) -> None:
    """Minimise the sum of losses over few weights, in one process, without weight decay.

    Args:
        parameters: The trainable parameters.
        rate: The highest learning rate.
        compute: Returns the losses of a step by name.
        steps: Number of steps.
        clip: Whether gradients are clipped to a norm of 1.
    """
    optimiser = torch.optim.AdamW([{"params": parameters, "highest": rate}], weight_decay=0.0)
    _descend(optimiser, parameters, compute, steps, "tuning", clip=clip)


def _descend(
    optimiser: torch.optim.Optimizer,
    parameters: Sequence[torch.Tensor],
    compute: Callable[[], dict[str, torch.Tensor]],
    steps: int,
    name: str,
    weights: Mapping[str, float] | None = None,
    *,
    clip: bool = True,
) -> None:
    several = distributed.is_initialized()
    is_first = not several or distributed.get_rank() == 0
    totals: Counter[str] = Counter()
    wall, cpu = time.monotonic(), time.process_time()
    for step in range(steps):
        losses = compute()
        optimiser.zero_grad()
        counted = weights or dict.fromkeys(losses, 1.0)
        parts_of_loss = [counted[key] * value for key, value in losses.items() if key in counted]
        torch.stack(parts_of_loss).sum().backward()
        if several:
            _share_gradients(parameters)
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in optimiser.param_groups:
            group["lr"] = group["highest"] * share_of_rate(step, steps)
        optimiser.step()
        totals.update({key: value.item() for key, value in losses.items()})
        if (step + 1) % _PRINTED == 0:
            means = " ".join(f"{key} {total / _PRINTED:.3f}" for key, total in totals.items())
            seconds = f"{time.monotonic() - wall:.0f} s, CPU {time.process_time() - cpu:.0f} s"
            if is_first:
                print(f"{name} {step + 1}/{steps} {means}; {seconds}", flush=True)
            totals.clear()


def share_of_rate(step: int, steps: int) -> float:
    """Return the learning rate of a step as a share of the highest: warm-up, constant, decay to 0."""
    return min(1.0, (step + 1) / 50, (steps - step) / (0.3 * steps))


def _share_gradients(parameters: Sequence[torch.Tensor]) -> None:
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(flat)
    flat /= distributed.get_world_size()
    for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))
