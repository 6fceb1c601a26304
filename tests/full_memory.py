"""Memory that is full: that of the CPU really is asked for too much, that of a GPU is said to be."""

from collections.abc import Callable
from typing import Any

import pytest
import torch


def fill_gpu() -> None:
    """Raise what torch raises where a GPU's memory is full."""
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


def fill_cpu() -> None:
    """Ask the CPU's allocator for more than any machine has."""
    torch.empty(1 << 60)


FULL_MEMORY = {"gpu": fill_gpu, "cpu": fill_cpu}


def batch_size(*arguments: Any, **named: Any) -> int:
    """Return how many inputs a model is given."""
    return len(named.get("input_ids", arguments[-1] if arguments else ()))


def fits(
    patch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    most: int,
    fill: Callable[[], None] = fill_cpu,
    size: Callable[..., int] = batch_size,
) -> list[int]:
    """Let memory be full where a method is asked for more than so much.

    Args:
        patch: Undoes it.
        owner: Whose method it is.
        name: That of the method.
        most: The largest size that fits.
        fill: One of ``FULL_MEMORY``.
        size: Of what the method is given.

    Returns:
        The sizes that the method is asked for, as they come.
    """
    method, sizes = getattr(owner, name), []

    def small(*arguments: Any, **named: Any) -> Any:
        sizes.append(size(*arguments, **named))
        if sizes[-1] > most:
            fill()
        return method(*arguments, **named)

    patch.setattr(owner, name, small)
    return sizes
