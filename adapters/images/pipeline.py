"""Reads and prepares images ahead of the model, in worker threads or processes."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from .handles import ImageHandle
from .reading import UnreadableImage
from .transforms import ExactTransform, ImageTransform, Prepared, to_device

if TYPE_CHECKING:
    import torch

_T = TypeVar("_T")
_Item = TypeVar("_Item")
_Batch = TypeVar("_Batch")
_BATCHES_AHEAD = 2
"""Batches that wait or are being made while the model has one: memory is bounded however slow it is."""
_IMAGES_A_PART = 32
"""Images that a process makes ready at a time: 20 MB of shared memory."""
HAS_PROCESSES = "fork" in multiprocessing.get_all_start_methods()
"""Whether processes can be started that share this one's memory."""


@dataclass(frozen=True)
class ImageBatch:
    """Images that are ready for the model.

    Attributes:
        positions: Of each row of the inputs, among all images.
        inputs: The model's inputs by name; empty where no image of the batch could be read.
        failures: Position to the reason why an image has no row.
        remarks: Position to an unusual step in reading the image.
    """

    positions: list[int]
    inputs: dict[str, torch.Tensor]
    failures: dict[int, str] = field(default_factory=dict)
    remarks: dict[int, str] = field(default_factory=dict)


def default_workers() -> int:
    """Return one worker a core that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def made_ahead(makers: Iterator[Callable[[], _T]]) -> Iterator[_T]:
    """Yield the result of each function; a separate thread calls them ahead of the consumer."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="make batches")
    ahead: deque[Future[_T]] = deque()
    try:
        for make in makers:
            ahead.append(thread.submit(make))
            if len(ahead) > _BATCHES_AHEAD:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        thread.shutdown(cancel_futures=True)


def read_ahead(
    items: Sequence[_Item],
    batches: Iterable[Sequence[int]],
    read: Callable[[_Item], _T],
    collate: Callable[[dict[int, _T]], _Batch],
    workers: int,
) -> Iterator[_Batch]:
    """Yield batches that are made ahead of the consumer.

    Args:
        items: What to read.
        batches: The positions of each batch among the items.
        read: Reads an item, in one of ``workers`` threads.
        collate: Makes a batch of what was read, by position, in a separate thread.
        workers: Threads that read.
    """
    readers = ThreadPoolExecutor(workers, thread_name_prefix="read image")

    def batch_of(reading: dict[int, Future[_T]]) -> _Batch:
        return collate({at: future.result() for at, future in reading.items()})

    try:
        yield from made_ahead(
            partial(batch_of, {at: readers.submit(read, items[at]) for at in positions}) for positions in batches
        )
    finally:
        readers.shutdown(cancel_futures=True)


def image_batches(
    images: Sequence[ImageHandle], transform: ImageTransform, batch_size: int, workers: int, by_processes: bool = False
) -> Iterator[ImageBatch]:
    """Yield images in batches, in their order.

    Args:
        images: What to read.
        transform: How.
        batch_size: Images a batch; those that cannot be read count.
        workers: Threads or processes that read.
        by_processes: Whether processes read; of an ``ExactTransform`` alone. Where one dies, threads go on.
    """
    starts = range(0, len(images), batch_size)
    batches = [range(start, min(start + batch_size, len(images))) for start in starts]
    if by_processes and isinstance(transform, ExactTransform):
        # Batches must not depend on the readers: sums would have other last bits.
        parts = [batch[at : at + _IMAGES_A_PART] for batch in batches for at in range(0, len(batch), _IMAGES_A_PART)]
        loaded = _parts_by_processes(images, transform, parts, workers)
        yield from made_ahead(
            partial(_joined, islice(loaded, -(-len(batch) // _IMAGES_A_PART)), transform) for batch in batches
        )
    else:
        read = partial(read_image_with, transform.read)
        yield from read_ahead(images, batches, read, partial(_batch, transform), workers)


def read_image_with(read: Callable[[ImageHandle], _T], handle: ImageHandle) -> _T | str:
    """Return an image as ``read`` prepares it, or the reason why it cannot be read."""
    try:
        return read(handle)
    except UnreadableImage as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - transforms raise any type; one image must not fail the others
        return f"{handle.name}: cannot be prepared: {type(error).__name__}: {error}"


def _batch(transform: ImageTransform, read: dict[int, Prepared | str]) -> ImageBatch:
    prepared = {position: image for position, image in read.items() if not isinstance(image, str)}
    failures = {position: reason for position, reason in read.items() if isinstance(reason, str)}
    remarks = {position: "; ".join(image.remarks) for position, image in prepared.items() if image.remarks}
    if not prepared:
        return ImageBatch([], {}, failures)
    positions = list(prepared)
    inputs, failed = transform.collate(list(prepared.values()))
    failures |= {positions[number]: reason for number, reason in failed.items()}
    rows = [position for number, position in enumerate(positions) if number not in failed]
    return ImageBatch(rows, inputs, failures, remarks)


@dataclass(frozen=True)
class _Parts:
    """What torch's loader takes for a data set: an item is a batch of some images, on the CPU."""

    images: Sequence[ImageHandle]
    transform: ExactTransform

    def __getitem__(self, positions: Sequence[int]) -> ImageBatch:
        return _batch(self.transform, {at: read_image_with(self.transform.read, self.images[at]) for at in positions})


def _parts_by_processes(
    images: Sequence[ImageHandle], transform: ExactTransform, parts: Sequence[Sequence[int]], workers: int
) -> Iterator[ImageBatch]:
    """Yield a batch of the images at each part's positions, on the CPU."""
    import torch

    source = _Parts(images, replace(transform, device=torch.device("cpu")))
    done = 0
    try:
        for batch in _loaded(source, parts, workers):
            yield batch
            done += 1
    except (AssertionError, OSError, RuntimeError) as error:
        # None can begin, or one died.
        logging.getLogger(__name__).warning(
            "processes cannot read the images; threads do, which may be slower: %s", str(error).partition("\n")[0]
        )
    read = partial(read_image_with, transform.read)
    yield from read_ahead(images, parts[done:], read, partial(_batch, source.transform), workers)


def _loaded(source: _Parts, parts: Sequence[Sequence[int]], workers: int) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(
        source,  # pyrefly: ignore[bad-argument-type] - nothing but its items is asked for
        sampler=parts,
        batch_size=None,
        num_workers=workers,
        collate_fn=_shared,  # pyrefly: ignore[bad-argument-type] - of an item, as there is no batch size
        multiprocessing_context="fork",
    )


def _shared(batch: ImageBatch) -> ImageBatch:
    """Put inputs into shared memory; here an error reports that there is too little of it."""
    for tensor in batch.inputs.values():
        tensor.share_memory_()
    return batch


def _joined(batches: Iterable[ImageBatch], transform: ExactTransform) -> ImageBatch:
    """Return batches as one, on the transform's device."""
    import torch

    whole = ImageBatch([], {})
    placed: list[dict[str, torch.Tensor]] = []
    for batch in batches:
        whole.positions.extend(batch.positions)
        whole.failures.update(batch.failures)
        whole.remarks.update(batch.remarks)
        if batch.positions:
            placed.append({name: to_device(tensor, transform.device) for name, tensor in batch.inputs.items()})
    for name in placed[0] if placed else ():
        whole.inputs[name] = torch.cat([inputs[name] for inputs in placed])
    return whole
