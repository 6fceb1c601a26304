"""Where a model runs, in which precision, and how much its memory holds at once, which is found out while working."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..errors import AdapterError, BenchError

if TYPE_CHECKING:
    import torch

_TORCH_NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
PRECISIONS = tuple(_TORCH_NAMES)
DTYPES = ("auto", *PRECISIONS, *_TORCH_NAMES.values(), "float", "half")
"""Those of models whose checkpoint may decide (``auto``): each adapter decides on which device."""


def find_device(device: str | None, fault: type[BenchError] = AdapterError) -> torch.device:
    """Return a device that is there; a GPU by default, where there is one.

    Args:
        device: Such as ``cpu`` or ``cuda:1``.
        fault: The exception to raise: a metric's own device is a fault of the metric.

    Raises:
        BenchError: It is not known, or not there.
    """
    import torch

    try:
        torch_device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=torch_device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise fault(f"device={device}: {reason}", "Name one such as cpu, cuda or cuda:1.") from error
    return torch_device


def require_known(known: Sequence[str | None], **arguments: str | None) -> None:
    """Raise if the value of an argument is not among those that an adapter knows.

    Raises:
        AdapterError: The hint lists them.
    """
    for name, value in arguments.items():
        if value not in known:
            raise AdapterError(f"{name}={value} is not known.", f"Known are {', '.join(filter(None, known))}.")


def torch_dtype(dtype: str) -> torch.dtype:
    """Return what torch calls a precision; ``auto`` is none."""
    import torch

    return getattr(torch, _TORCH_NAMES.get(dtype, dtype))


def placed(inputs: Mapping[str, torch.Tensor], device: torch.device, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return a model's inputs on its device, numbers with a fraction in its precision."""
    return {
        name: value.to(device, dtype if value.is_floating_point() else None, non_blocking=True)
        for name, value in inputs.items()
    }


def torch_version() -> str:
    """Return torch's version for fingerprints: the digits left out change no number."""
    import torch

    return ".".join(torch.__version__.split(".")[:2])


def padded(ids: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids ``[b, l]`` of texts, padded on the right, and ``[b, l]`` 1 where there is a token."""
    import torch

    width = max(map(len, ids))
    rows = [[*tokens, *[pad] * (width - len(tokens))] for tokens in ids]
    mask = [[1] * len(tokens) + [0] * (width - len(tokens)) for tokens in ids]
    return torch.tensor(rows, device=device), torch.tensor(mask, device=device)


TOO_LARGE = "does not fit into the device's memory"

_Input = TypeVar("_Input")
_Result = TypeVar("_Result")


class BatchSize:
    """The size of a batch: halved when the device runs out of memory, and kept from then on.

    Args:
        now: Things a batch to start with; where things have a length, the sum of their lengths, padding counted.
    """

    def __init__(self, now: int) -> None:
        self.now = now

    def batches(
        self,
        things: Sequence[_Input],
        work: Callable[[Sequence[_Input]], _Result],
        length: Callable[[_Input], int] = lambda thing: 1,
    ) -> Iterator[tuple[Sequence[_Input], _Result | None]]:
        """Work off things batch by batch, in their order.

        Args:
            things: What to work off; those of like length together and the longest first, where lengths differ.
            work: Makes something of a batch.
            length: Of a thing; a batch is padded to that of its longest.

        Yields:
            A batch and its result; None for a single input that does not fit.
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
            result = _unless_too_large(work, batch)
            if result is None and len(batch) > 1:
                self.now = len(batch) * longest // 2
                continue
            yield batch, result
            start = stop


def _unless_too_large(work: Callable[[Sequence[_Input]], _Result], batch: Sequence[_Input]) -> _Result | None:
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

    # The CPU's allocator has no exception type.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error)
