"""How much a device's memory holds at once, which is found out while working."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ..errors import AdapterError

TOO_LARGE = "does not fit into the device's memory"

_One = TypeVar("_One")
_Made = TypeVar("_Made")


class BatchSize:
    """The size of a batch: halved whenever the device's memory does not hold one, and kept to from then on.

    Args:
        now: Things a batch to start with; where things have a length, the sum of their lengths, padding counted.
    """

    def __init__(self, now: int) -> None:
        self.now = now

    def batches(
        self,
        things: Sequence[_One],
        work: Callable[[Sequence[_One]], _Made],
        length: Callable[[_One], int] = lambda one: 1,
    ) -> Iterator[tuple[Sequence[_One], _Made | None]]:
        """Work off things batch by batch, in their order.

        Args:
            things: What to work off; those of like length together and the longest first, where lengths differ.
            work: Makes something of a batch.
            length: Of a thing; a batch is padded to that of its longest.

        Yields:
            A batch, and what was made of it; None of a single thing that does not fit by itself.
        """
        start = 0
        while start < len(things):
            longest, stop = length(things[start]), start + 1
            while stop < len(things):
                widened = max(longest, length(things[stop]))
                if (stop + 1 - start) * widened > self.now:
                    break
                longest, stop = widened, stop + 1
            batch = things[start:stop]
            made = _unless_too_large(work, batch)
            if made is None and len(batch) > 1:
                self.now = len(batch) * longest // 2
                continue
            yield batch, made
            start = stop


def _unless_too_large(work: Callable[[Sequence[_One]], _Made], batch: Sequence[_One]) -> _Made | None:
    try:
        return work(batch)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    import torch

    # Only here, where the exception no longer holds what was computed, can memory be freed; of a GPU that is not
    # used there is none.
    torch.cuda.empty_cache()
    return None


def is_out_of_memory(error: Exception) -> bool:
    """Return whether a device has no memory left, be it a GPU or the CPU."""
    import torch

    # The CPU's allocator raises an exception of no type of its own.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error)


def require_counts(**numbers: int | None) -> None:
    """Raise if an argument that was given is not a whole number above 0.

    Raises:
        AdapterError: It names the argument.
    """
    for name, number in numbers.items():
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise AdapterError(f"{name}={number} is not a whole number above 0.")
