"""What all encoders that run in torch share: batches that fit the device, who reads images, frames and texts."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from ...errors import AdapterError, BenchError, require_counts
from ..contracts import Alias, Encoded, Encoder, TrainableEncoder
from ..devices import PRECISIONS, TOO_LARGE, BatchSize, find_device, require_known, torch_dtype
from ..images.handles import ImageHandle, VideoHandle
from ..images.pipeline import HAS_PROCESSES, default_workers, image_batches, made_ahead
from ..images.transforms import ExactTransform, ImageTransform

if TYPE_CHECKING:
    import torch

Precision = Literal["fp32", "fp16", "bf16", "released"]
Reading = Literal["threads", "processes"]
Inputs: TypeAlias = "dict[str, torch.Tensor]"
"""A model's inputs by name."""
_Kind = Literal["image", "text"]
_Forward: TypeAlias = "Callable[[Inputs], torch.Tensor]"
_BATCH_ON_GPU, _BATCH_ON_CPU = 256, 32
_FEWEST_ON_CPU = 4
"""Rows of a batch: products of fewer are computed in another way, to other last bits."""
_TEXTS_AN_IMAGE = 4
"""How many texts take about as much memory and time as an image."""
_TEXTS_AT_ONCE = 1 << 13
"""Texts that are tokenised and sorted by length at a time."""
_FEWEST_CORES, _FEWEST_IMAGES = 4, 4096


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


@dataclass(kw_only=True, eq=False, repr=False)
class TorchBatches(Encoder):
    """An encoder of any kind that runs in torch.

    Args:
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        dtype: ``fp32``, ``fp16`` or ``bf16``: of the weights and what is computed with them. Features are given
            out as float16 for ``fp16``, else as float32.
        batch_size: Images (or texts) to start with; halved when the device runs out of memory.
        workers: Threads or processes that read images; one a core by default.
        name: How results call the model.

    Raises:
        AdapterError: An argument has no meaning.
    """

    takes_released: ClassVar[bool] = False
    """Whether ``dtype`` may be ``released``: what OpenAI's ``clip.load`` computes in."""
    dtype: Precision = "fp32"
    device: str | None = None
    batch_size: int | None = None
    workers: int | None = None
    name: str = ""
    _transform: ImageTransform = field(init=False)
    """What makes inputs of images."""

    def __post_init__(self) -> None:
        require_known((*PRECISIONS, *(("released",) if self.takes_released else ())), dtype=self.dtype)
        require_counts(AdapterError, batch_size=self.batch_size, workers=self.workers)
        self._device = find_device(self.device)
        if self.dtype == "released":
            self.dtype = released_precision(self._device)
        self._output_dtype = torch_dtype("fp16" if self.dtype == "fp16" else "fp32")
        images = self.batch_size or (_BATCH_ON_GPU if self._device.type == "cuda" else _BATCH_ON_CPU)
        self._batch = {"image": BatchSize(images), "text": BatchSize(self.batch_size or _TEXTS_AN_IMAGE * images)}
        self._workers = self.workers or default_workers()

    def _of_one_length(self, ids: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Yield the numbers of the texts of each batch.

        They have one length: padding changes the last bits of features, so they would depend on the other texts of
        the batch. The longest come first, which shows at once whether they fit.
        """

        def length(number: int) -> int:
            return min(len(ids[number]), self.context_length)

        size = self._batch["text"].now
        for _, alike in itertools.groupby(sorted(range(len(ids)), key=length, reverse=True), key=length):
            while numbers := list(itertools.islice(alike, size)):
                yield numbers

    def _filled(self, kind: _Kind, positions: Sequence[int], inputs: Inputs) -> tuple[Sequence[int], Inputs]:
        """Return inputs padded on a CPU to the smallest batch that rounds like large ones, by copies of the first."""
        fills = self._device.type == "cpu" and self._batch[kind].now >= _FEWEST_ON_CPU
        if not fills or not 0 < len(positions) < _FEWEST_ON_CPU:
            return positions, inputs
        filled = [*range(len(positions)), *[0] * (_FEWEST_ON_CPU - len(positions))]
        return [positions[at] for at in filled], {name: value[filled] for name, value in inputs.items()}

    def _run(
        self, kind: _Kind, positions: Sequence[int], inputs: Inputs, forward: _Forward, failures: dict[int, str]
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
                return _start_copy(positions[rows], forward(placed).to(self._output_dtype))

        copies: list[Pending] = []
        for part, pending in self._batch[kind].batches(range(len(positions)), run):
            if pending is None:
                failures[positions[part[0]]] = TOO_LARGE
            else:
                copies.append(pending)
        return copies


def released_precision(device: torch.device) -> Precision:
    """Return what OpenAI's ``clip.load`` computes in: half precision on a GPU, single precision on the CPU."""
    return "fp16" if device.type == "cuda" else "fp32"


def _start_copy(positions: Sequence[int], rows: torch.Tensor) -> Pending:
    import torch

    if not rows.is_cuda:
        return Pending(positions, rows.cpu(), None)
    copy = rows.to("cpu", non_blocking=True)
    event = torch.cuda.Event()
    event.record()
    return Pending(positions, copy, event)


@dataclass(kw_only=True, eq=False, repr=False)
class TorchEncoder(TorchBatches):
    """A dual encoder that runs in torch; other arguments as of ``TorchBatches``.

    Args:
        transform: ``exact``, or ``fast``: in torch, nearly the same.
        reading: Who reads images: ``threads`` or ``processes``. By default processes where a GPU waits for images that
            Pillow decodes and resizes, with at least 4 workers and 4,096 images at once; else threads. What they read
            is the same.

    Raises:
        AdapterError: An argument has no meaning.
    """

    transform: Literal["exact", "fast"] = "exact"
    reading: Reading | None = None
    _model: Any = field(init=False)
    # As of ``TrainableEncoder``.
    _head_width: int | None = field(default=None, init=False)
    _quick_gelu: bool | None = field(default=None, init=False)
    _tokenizer_files: Sequence[Path] = field(default=(), init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known((None, "threads", "processes"), reading=self.reading)
        require_known(("exact", "fast"), transform=self.transform)

    def _by_processes(self, images: int) -> bool:
        """Return whether processes read this number of images.

        By default they do where a GPU waits for images whose transform blocks other threads, where there are enough
        cores, and where the number of images is worth the start of processes. On a CPU the model needs the cores.
        """
        pays = self._device.type == "cuda" and self._workers >= _FEWEST_CORES and images >= _FEWEST_IMAGES
        is_wanted = pays if self.reading is None else self.reading == "processes"
        return is_wanted and HAS_PROCESSES and isinstance(self._transform, ExactTransform)

    @abstractmethod
    def _text_inputs(self, texts: Sequence[str], ids: Sequence[list[int]]) -> Inputs:
        """Return the model's inputs for a batch of texts, of whose ids none is cut off yet."""

    @abstractmethod
    def _image_vectors(self, inputs: Inputs) -> torch.Tensor:
        """Return features ``[b, d]`` of images."""

    @abstractmethod
    def _text_vectors(self, inputs: Inputs) -> torch.Tensor:
        """Return features ``[b, d]`` of texts."""

    @abstractmethod
    def _token_vectors(self, inputs: Inputs) -> torch.Tensor:
        """Return projected states ``[b, n, d]`` of the tokens of texts; the first ``n`` positions.

        Raises:
            AdapterError: The model has none.
        """

    def to_trainable(self) -> TrainableEncoder:
        """Return the trainable encoder; see ``Model.to_trainable``.

        Raises:
            AdapterError: It is not in single precision.
        """
        if self.dtype != "fp32":
            raise AdapterError(
                f"a model in {self.dtype} cannot be trained.",
                "Leave 'dtype' out: the recipe sets the precision of training steps.",
            )
        return TrainableEncoder(
            module=self._model,
            device=self._device,
            write=self._write,
            transform=self._transform,
            text_inputs=lambda texts: self._text_inputs(texts, self.token_ids(texts)),
            encode_images=self._image_vectors,
            encode_texts=self._text_vectors,
            family=self.family,
            head_width=self._head_width,
            quick_gelu=self._quick_gelu,
            tokenizer_files=self._tokenizer_files,
        )

    @abstractmethod
    def _write(self, folder: Path) -> Alias:
        """Write the model into a new folder; see ``TrainableModel``."""

    @cached_property
    def dimension(self) -> int:
        """Length ``d`` of a feature."""
        return len(next(self.texts([""])).vectors[0])

    def images(self, images: Sequence[ImageHandle]) -> Iterator[Encoded]:
        """Encode images and crops; see ``Encoder.images``."""
        waiting: tuple[list[Pending], dict[int, str], dict[int, str]] | None = None
        size, by_processes = self._batch["image"].now, self._by_processes(len(images))
        for batch in image_batches(images, self._transform, size, self._workers, by_processes):
            failures = dict(batch.failures)
            pending = self._run("image", batch.positions, batch.inputs, self._image_vectors, failures)
            # While these are computed, those before are handed over.
            if waiting:
                yield _encoded(*waiting)
            waiting = (pending, failures, batch.remarks)
        if waiting:
            yield _encoded(*waiting)

    def texts(self, texts: Sequence[str]) -> Iterator[Encoded]:
        """Encode texts; see ``Encoder.texts``."""
        for pending, failures, _ in self._run_texts(texts, self._text_vectors):
            yield _encoded(pending, failures, {})

    def tokens(self, texts: Sequence[str]) -> Iterator[Encoded]:
        """Encode texts token by token; see ``Encoder.tokens``."""
        for pending, failures, lengths in self._run_texts(texts, self._token_vectors):
            encoded = _encoded(pending, failures, {})
            yield Encoded(
                {position: rows[: lengths[position]] for position, rows in encoded.vectors.items()}, encoded.failures
            )

    def frames(self, videos: Sequence[VideoHandle]) -> Iterator[Encoded]:
        """Encode the frames of videos, one video at a time; see ``Encoder.frames``."""
        for position, handle in enumerate(videos):
            try:
                yield Encoded({position: self._frames_of(handle)})
            except BenchError:
                raise
            except Exception as error:  # noqa: BLE001 - decoders raise any type; the other videos go on
                reason = str(error).strip().partition("\n")[0] or type(error).__name__
                named = reason if handle.name in reason else f"{handle.name}: {reason}"
                yield Encoded({}, {position: named})

    def _frames_of(self, handle: VideoHandle) -> np.ndarray:
        from ..images.video import read_frames

        read = read_frames(handle)
        if isinstance(read, np.ndarray):
            if read.ndim != 2 or read.shape[1] != self.dimension:
                raise ValueError(
                    f"recorded features of shape {list(read.shape)}, the model's are [frames, {self.dimension}]"
                )
            return read.astype(np.float16 if self.dtype == "fp16" else np.float32)
        features: list[np.ndarray] = []
        images = iter(read)
        while batch := list(itertools.islice(images, self._batch["image"].now)):
            inputs, _ = self._transform.collate([self._transform.of_frame(image) for image in batch])
            failures: dict[int, str] = {}
            positions = range(len(batch))
            copies = self._run("image", positions, inputs, self._image_vectors, failures)
            if failures:
                raise ValueError(f"a frame {next(iter(failures.values()))}")
            features.append(np.concatenate([part.arrays() for part in copies])[: len(batch)])
        if not features:
            raise ValueError("has no frame")
        return np.concatenate(features)

    def _run_texts(
        self, texts: Sequence[str], forward: _Forward
    ) -> Iterator[tuple[list[Pending], dict[int, str], dict[int, int]]]:
        """Yield a batch's results, its failures and the length of each text in tokens, by position."""
        starts = range(0, len(texts), _TEXTS_AT_ONCE)
        pieces = (partial(self.token_ids, texts[start : start + _TEXTS_AT_ONCE]) for start in starts)
        # The ids of the next texts are made while those before are used.
        for start, ids in zip(starts, made_ahead(pieces), strict=True):
            for numbers in self._of_one_length(ids):
                inputs = self._text_inputs([texts[start + n] for n in numbers], [ids[n] for n in numbers])
                positions = [start + n for n in numbers]
                lengths = {start + n: min(len(ids[n]), self.context_length) for n in numbers}
                failures: dict[int, str] = {}
                yield self._run("text", positions, inputs, forward, failures), failures, lengths


def _encoded(pending: Sequence[Pending], failures: dict[int, str], remarks: dict[int, str]) -> Encoded:
    vectors: dict[int, np.ndarray] = {}
    for part in pending:
        # Each row on its own, so that keeping one does not keep its batch.
        vectors |= {position: row.copy() for position, row in zip(part.positions, part.arrays(), strict=True)}
    return Encoded(vectors, failures, remarks)
