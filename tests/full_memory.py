"""Memory that is full: that of the CPU really is asked for too much, that of a GPU is said to be."""

from __future__ import annotations

import torch


def fill_gpu() -> None:
    """Raise what torch raises where a GPU's memory is full."""
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


def fill_cpu() -> None:
    """Ask the CPU's allocator for more than any machine has."""
    torch.empty(1 << 60)


FULL_MEMORY = {"gpu": fill_gpu, "cpu": fill_cpu}
