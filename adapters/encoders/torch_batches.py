"""How models that look at images run in torch: batches that fit the device, and who reads images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...errors import AdapterError
from ..batch_size import TOO_LARGE, BatchSize, require_counts
from ..contracts import Encoder
from ..devices import PRECISIONS, find_device, require_dtype
from ..pixels.handles import ImageHandle
from ..pixels.pipeline import default_workers
from ..pixels.readers import HAS_PROCESSES, ReaderProcesses, processes_pay
from ..pixels.transforms import ImageTransform, Prepared

if TYPE_CHECKING:
    import torch

Precision = Literal["fp32", "fp16", "bf16"]
Reading = Literal["threads", "processes"]
_BATCH_ON_GPU, _BATCH_ON_CPU = 256, 32
_FEWEST_ON_CPU = 4
"""Rows of a batch: products of fewer are computed in another way, to other last bits."""
_TEXTS_AN_IMAGE = 4
"""How many texts take about as much memory and time as an image."""


@dataclass
class Pending:
    """Results on their way from the device.

    Attributes:
        positions: Of the rows, among all inputs.
        rows: ``[b, d]`` or ``[b, n, d]``.
        copied: Says when the copy is complete; None where nothing is copied.
    """

    positions: Sequence[int]
    rows: torch.Tensor
    copied: torch.cuda.Event | None

    def arrays(self) -> np.ndarray:
        """Return the rows, when they have arrived."""
        if self.copied is not None:
            self.copied.synchronize()
        return self.rows.numpy()


class TorchBatches(Encoder):
    """An encoder of any kind that runs in torch.

    Args:
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        dtype: ``fp32``, ``fp16`` or ``bf16``: of the weights and what is computed with them. Features are given
            out as float16 for ``fp16``, else as float32.
        batch_size: Images (or texts) to start with; halved whenever the device's memory does not do.
        workers: Threads or processes that read images; one a core by default.
        reading: Who reads images: ``threads`` or ``processes``. By default processes where a GPU waits for images that
            Pillow decodes and resizes, with at least 4 workers, from the first 4,096 images at once on; else threads.
            What they read is the same.

    Raises:
        AdapterError: An argument has no meaning.
    """

    def __init__(
        self,
        device: str | None,
        dtype: str,
        batch_size: int | None,
        workers: int | None,
        reading: Reading | None = None,
    ) -> None:
        require_dtype(dtype, PRECISIONS)
        require_counts(batch_size=batch_size, workers=workers)
        if reading not in (None, "threads", "processes"):
            raise AdapterError(f"reading={reading} is not known.", "Known are threads, processes.")
        self._device = find_device(device)
        self._dtype = dtype
        images = batch_size or (_BATCH_ON_GPU if self._device.type == "cuda" else _BATCH_ON_CPU)
        self._batch = {"image": BatchSize(images), "text": BatchSize(batch_size or _TEXTS_AN_IMAGE * images)}
        self._workers = workers or default_workers()
        self._reading: Reading | None = reading
        self._readers: ReaderProcesses | None = None

    @property
    @abstractmethod
    def _transform(self) -> ImageTransform:
        """What makes inputs of images."""

    @property
    def _given_out(self) -> torch.dtype:
        """The precision in which results are given out."""
        import torch

        return torch.float16 if self._dtype == "fp16" else torch.float32

    def _reader(self, images: int) -> Callable[[ImageHandle], Prepared] | None:
        """Return what reads so many images in place of this process' threads; None where they do."""
        transform = self._transform
        if self._reading is None and processes_pay(transform, self._device, self._workers, images):
            self._reading = "processes"
        if self._reading == "processes" and self._readers is None:
            can = HAS_PROCESSES and transform.holds_interpreter
            self._readers = ReaderProcesses.begin(transform, self._workers) if can else None
            self._reading = "processes" if self._readers else "threads"
        return self._readers.read if self._readers else None

    def _filled(
        self, kind: Literal["image", "text"], positions: Sequence[int], inputs: dict[str, torch.Tensor]
    ) -> tuple[Sequence[int], dict[str, torch.Tensor]]:
        """Return inputs of so many rows at least that they are computed as those of many are; the first is repeated."""
        fills = self._device.type == "cpu" and self._batch[kind].now >= _FEWEST_ON_CPU
        if not fills or not 0 < len(positions) < _FEWEST_ON_CPU:
            return positions, inputs
        filled = [*range(len(positions)), *[0] * (_FEWEST_ON_CPU - len(positions))]
        return [positions[at] for at in filled], {name: value[filled] for name, value in inputs.items()}

    def _run(
        self,
        kind: Literal["image", "text"],
        positions: Sequence[int],
        inputs: dict[str, torch.Tensor],
        forward: Callable[[dict[str, torch.Tensor]], torch.Tensor],
        failures: dict[int, str],
    ) -> list[Pending]:
        """Run the model over inputs in pieces that fit; positions that do not fit alone become failures.

        A position may come more than once, after all others have come.
        """
        import torch

        positions, inputs = self._filled(kind, positions, inputs)

        def run(part: Sequence[int]) -> Pending:
            rows = slice(part[0], part[-1] + 1)
            with torch.inference_mode():
                placed = {name: value[rows].to(self._device, non_blocking=True) for name, value in inputs.items()}
                return _start_copy(positions[rows], forward(placed).to(self._given_out))

        found: list[Pending] = []
        for part, pending in self._batch[kind].batches(range(len(positions)), run):
            if pending is None:
                failures[positions[part[0]]] = TOO_LARGE
            else:
                found.append(pending)
        return found


def _start_copy(positions: Sequence[int], rows: torch.Tensor) -> Pending:
    import torch

    if not rows.is_cuda:
        return Pending(positions, rows.cpu(), None)
    copy = rows.to("cpu", non_blocking=True)
    event = torch.cuda.Event()
    event.record()
    return Pending(positions, copy, event)
