"""Texts through a model that a metric loads for itself: padded, and in batches that fit into the device's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from ...adapters.batch_size import TOO_LARGE, BatchSize
from ...errors import MetricError

if TYPE_CHECKING:
    import torch

_One = TypeVar("_One")
_Made = TypeVar("_Made")


def padded(ids: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids ``[b, l]`` of texts, padded on the right, and ``[b, l]`` 1 where there is a token."""
    import torch

    width = max(map(len, ids))
    rows = [[*its, *[pad] * (width - len(its))] for its in ids]
    mask = [[1] * len(its) + [0] * (width - len(its)) for its in ids]
    return torch.tensor(rows, device=device), torch.tensor(mask, device=device)


def batches_that_fit(
    what: str,
    size: BatchSize,
    things: Sequence[_One],
    work: Callable[[Sequence[_One]], _Made],
    length: Callable[[_One], int] = lambda one: 1,
) -> Iterator[tuple[Sequence[_One], _Made]]:
    """Yield each batch and what was made of it; see ``BatchSize.batches``.

    Args:
        what: What is at work, in messages ("CAPTURE's parser").
        size: How much goes through at once.
        things: What to work off.
        work: Makes something of a batch.
        length: Of a thing.

    Raises:
        MetricError: One thing alone does not fit.
    """
    for batch, made in size.batches(things, work, length):
        if made is None:
            raise MetricError(
                f"{what}: a single input {TOO_LARGE}.", "The metric's 'device' may be another, such as cpu."
            )
        yield batch, made
