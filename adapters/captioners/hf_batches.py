"""Reads images ahead of a captioner, and makes the model's inputs of them, in worker threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..contracts import CaptionRequest
from ..decoding.contract import Sample
from ..pixels.handles import ImageHandle
from ..pixels.reading import UnreadableImage, image_size, read_image

if TYPE_CHECKING:
    import torch

_BATCHES_AHEAD = 2
"""Batches that wait or are being made while the model has one: memory is bounded however slow it is."""

Collate = Callable[[Sequence[Sample]], Mapping[str, "torch.Tensor"]]


@dataclass(frozen=True)
class Batch:
    """Samples that are ready for the model.

    Attributes:
        positions: Of each sample, among all requests.
        samples: What to write.
        inputs: The model's inputs, not on its device yet; None where they were not asked for or cannot be made.
        failures: Position to the reason why the image of a request could not be read.
    """

    positions: list[int]
    samples: list[Sample]
    inputs: Mapping[str, torch.Tensor] | None = None
    failures: dict[int, str] = field(default_factory=dict)

    def part(self, numbers: Sequence[int]) -> Batch:
        """Return some of the samples, whose inputs are to be made anew; the batch itself for all of them."""
        if len(numbers) == len(self.samples):
            return self
        return Batch([self.positions[n] for n in numbers], [self.samples[n] for n in numbers])


def costliest_first(requests: Sequence[CaptionRequest], positions: Sequence[int], workers: int) -> list[int]:
    """Return positions ordered by what they cost: long instructions first, and of these large images.

    Those of like size share a batch, so that there is little padding; whether the costliest fit into memory is
    found out at once.
    """
    with ThreadPoolExecutor(workers, thread_name_prefix="image size") as pool:
        areas = list(pool.map(lambda position: _area(requests[position]), positions))
    cost = {
        position: (-len(requests[position].prompt), -area)
        for position, area in zip(positions, areas, strict=True)
    }
    return sorted(positions, key=cost.__getitem__)


def _area(request: CaptionRequest) -> int:
    if not isinstance(request.pixels, ImageHandle):
        return 0
    width, height = image_size(request.pixels)
    return width * height


def batches_ahead(
    requests: Sequence[CaptionRequest],
    order: Sequence[int],
    size: Callable[[], int],
    workers: int,
    collate: Collate | None,
) -> Iterator[Batch]:
    """Yield batches in order.

    Args:
        requests: What is asked for.
        order: Positions of those that are wanted.
        size: Returns how many samples the next batch should have; those that cannot be read count.
        workers: Threads that read.
        collate: Makes the model's inputs, in a thread of its own.
    """
    readers = ThreadPoolExecutor(workers, thread_name_prefix="read image")
    collator = ThreadPoolExecutor(1, thread_name_prefix="make inputs")
    ahead: deque[Future[Batch]] = deque()
    start = 0
    try:
        while start < len(order) or ahead:
            while start < len(order) and len(ahead) <= _BATCHES_AHEAD:
                stop = start + size()
                read = {p: readers.submit(_read, requests[p]) for p in order[start:stop]}
                ahead.append(collator.submit(_batch, read, collate))
                start = stop
            yield ahead.popleft().result()
    finally:
        readers.shutdown(cancel_futures=True)
        collator.shutdown(cancel_futures=True)


def _read(request: CaptionRequest) -> Sample | str:
    if not isinstance(request.pixels, ImageHandle):
        return (
            f"was not written: the document's image ({request.image!r:.80}) is not on this machine"
            if request.pixels is None
            else f"was not written: {request.pixels.name} is a video, and the model takes images"
        )
    try:
        read = read_image(request.pixels)
        return Sample(request.id, request.prompt, read.image.convert("RGB"), read.remark)
    except UnreadableImage as error:
        return f"was not written: {error}"
    except Exception as error:  # noqa: BLE001 - one image must not cost the others, whatever a decoder raises
        return f"was not written: {request.pixels.name}: {type(error).__name__}: {error}"


def _batch(read: Mapping[int, Future[Sample | str]], collate: Collate | None) -> Batch:
    found = {position: future.result() for position, future in read.items()}
    samples = {position: one for position, one in found.items() if isinstance(one, Sample)}
    failures = {position: one for position, one in found.items() if isinstance(one, str)}
    inputs = None
    if samples and collate is not None:
        try:
            inputs = collate(list(samples.values()))
        except Exception:  # noqa: BLE001 - it is tried again, where the sample that is at fault can be told
            inputs = None
    return Batch(list(samples), list(samples.values()), inputs, failures)
