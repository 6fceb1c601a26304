"""Reads and prepares images ahead of the model, in worker threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from .handles import ImageHandle
from .reading import UnreadableImage
from .transforms import ImageTransform, Prepared

if TYPE_CHECKING:
    import torch

_T = TypeVar("_T")
_BATCHES_AHEAD = 2
"""Batches that wait or are being made while the model has one: memory is bounded however slow it is."""


@dataclass(frozen=True)
class ImageBatch:
    """Images that are ready for the model.

    Attributes:
        positions: Of each row of the inputs, among all images.
        inputs: The model's inputs by name; empty where no image of the batch could be read.
        failures: Position to the reason why an image has no row.
        remarks: Position to what was done to read an image that is not as usual.
    """

    positions: list[int]
    inputs: dict[str, torch.Tensor]
    failures: dict[int, str] = field(default_factory=dict)
    remarks: dict[int, str] = field(default_factory=dict)


def default_workers() -> int:
    """Return one worker a core that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def image_batches(
    images: Sequence[ImageHandle],
    transform: ImageTransform,
    batch_size: int,
    workers: int,
    read: Callable[[ImageHandle], Prepared] | None = None,
) -> Iterator[ImageBatch]:
    """Yield images in batches, in their order.

    Args:
        images: What to read.
        transform: How.
        batch_size: Images a batch; those that cannot be read count.
        workers: Threads that read.
        read: Reads an image in place of ``transform.read``: by another process, say.
    """
    read = read or transform.read
    readers = ThreadPoolExecutor(workers, thread_name_prefix="read image")
    collator = ThreadPoolExecutor(1, thread_name_prefix="collate images")
    ahead: deque[Future[ImageBatch]] = deque()
    try:
        for start in range(0, len(images), batch_size):
            reading = {
                position: readers.submit(read_image_with, read, images[position])
                for position in range(start, min(start + batch_size, len(images)))
            }
            ahead.append(collator.submit(_collate, reading, transform))
            if len(ahead) > _BATCHES_AHEAD:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        readers.shutdown(cancel_futures=True)
        collator.shutdown(cancel_futures=True)


def read_image_with(read: Callable[[ImageHandle], _T], handle: ImageHandle) -> _T | str:
    """Return an image as ``read`` prepares it, or the reason why it cannot be read."""
    try:
        return read(handle)
    except UnreadableImage as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - one image must not cost the others, whatever a transform raises
        return f"{handle.name}: cannot be prepared: {type(error).__name__}: {error}"


def _collate(read: dict[int, Future[Prepared | str]], transform: ImageTransform) -> ImageBatch:
    prepared: dict[int, Prepared] = {}
    failures: dict[int, str] = {}
    for position, future in read.items():
        one = future.result()
        if isinstance(one, str):
            failures[position] = one
        else:
            prepared[position] = one
    remarks = {position: "; ".join(one.remarks) for position, one in prepared.items() if one.remarks}
    if not prepared:
        return ImageBatch([], {}, failures)
    positions = list(prepared)
    inputs, failed = transform.collate(list(prepared.values()))
    failures |= {positions[number]: reason for number, reason in failed.items()}
    rows = [position for number, position in enumerate(positions) if number not in failed]
    return ImageBatch(rows, inputs, failures, remarks)
