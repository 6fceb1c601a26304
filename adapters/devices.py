"""Where a model runs, and in which precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import AdapterError, BenchError

if TYPE_CHECKING:
    import torch

_TORCH_NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
PRECISIONS = tuple(_TORCH_NAMES)
DTYPES = ("auto", *PRECISIONS, *_TORCH_NAMES.values())
"""Those of models whose checkpoint may decide (``auto``): each adapter says on which device it does."""


def find_device(device: str | None, fault: type[BenchError] = AdapterError) -> torch.device:
    """Return a device that is there; a GPU by default, where there is one.

    Args:
        device: Such as ``cpu`` or ``cuda:1``.
        fault: What is raised: a metric's own device is a fault of the metric.

    Raises:
        BenchError: It is not known, or not there.
    """
    import torch

    try:
        found = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise fault(f"device={device}: {reason}", "Name one such as cpu, cuda or cuda:1.") from error
    return found


def require_dtype(dtype: str, known: Sequence[str] = DTYPES) -> None:
    """Raise if a precision is not among those that an adapter knows.

    Raises:
        AdapterError: The hint lists them.
    """
    if dtype not in known:
        raise AdapterError(f"dtype={dtype} is not known.", f"Known are {', '.join(known)}.")


def torch_dtype(dtype: str) -> torch.dtype:
    """Return what torch calls a precision; ``auto`` is none."""
    import torch

    return getattr(torch, _TORCH_NAMES.get(dtype, dtype))


def torch_version() -> str:
    """Return torch's version as fingerprints have it: further digits change no number."""
    import torch

    return ".".join(torch.__version__.split(".")[:2])
