"""What all encoders that run in torch share: batches of images, frames and texts."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import AdapterError, BenchError
from ..contracts import Encoded
from ..lending import Alias, LentEncoder
from ..pixels.handles import ImageHandle, VideoHandle
from ..pixels.pipeline import image_batches
from .torch_batches import Pending, TorchBatches

if TYPE_CHECKING:
    import torch

_TEXTS_AT_ONCE = 1 << 13
"""Texts that are tokenised and sorted by length at a time."""


@dataclass(frozen=True)
class OwnParts:
    """What is a model's own of what it lends; attributes as of ``LentEncoder``."""

    module: torch.nn.Module
    write: Callable[[Path], Alias]
    head_width: int | None = None
    quick_gelu: bool | None = None
    tokenizer_files: Sequence[Path] = ()


class TorchEncoder(TorchBatches):
    """A dual encoder that runs in torch; arguments as of ``TorchBatches``."""

    @abstractmethod
    def _text_inputs(self, texts: Sequence[str], ids: Sequence[list[int]]) -> dict[str, torch.Tensor]:
        """Return the model's inputs for a batch of texts, of whose ids none is cut off yet."""

    @abstractmethod
    def _image_vectors(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return features ``[b, d]`` of images."""

    @abstractmethod
    def _text_vectors(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return features ``[b, d]`` of texts."""

    @abstractmethod
    def _token_vectors(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return projected states ``[b, n, d]`` of the tokens of texts; the first ``n`` positions.

        Raises:
            AdapterError: The model has none.
        """

    def lend(self) -> LentEncoder:
        """Return the module with what belongs to it; see ``Model.lend``.

        Raises:
            AdapterError: It is not in single precision.
        """
        if self._dtype != "fp32":
            raise AdapterError(
                f"a model in {self._dtype} is not trained.",
                "Leave 'dtype' out: steps compute in lower precision where a recipe says so.",
            )
        own = self._lent()
        return LentEncoder(
            module=own.module,
            device=self._device,
            write=own.write,
            transform=self._transform,
            text_inputs=lambda texts: self._text_inputs(texts, self.token_ids(texts)),
            encode_images=self._image_vectors,
            encode_texts=self._text_vectors,
            family=self.family,
            head_width=own.head_width,
            quick_gelu=own.quick_gelu,
            tokenizer_files=own.tokenizer_files,
        )

    @abstractmethod
    def _lent(self) -> OwnParts:
        """Return what is the model's own of what it lends."""

    @cached_property
    def dimension(self) -> int:
        """Length ``d`` of a feature."""
        return len(next(self.texts([""])).vectors[0])

    def images(self, images: Sequence[ImageHandle]) -> Iterator[Encoded]:
        """Encode images and crops; see ``Encoder.images``."""
        waiting: tuple[list[Pending], dict[int, str], dict[int, str]] | None = None
        size, read = self._batch["image"].now, self._reader(len(images))
        for batch in image_batches(images, self._transform, size, self._workers, read):
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
            found = _encoded(pending, failures, {})
            yield Encoded(
                {position: rows[: lengths[position]] for position, rows in found.vectors.items()}, found.failures
            )

    def frames(self, videos: Sequence[VideoHandle]) -> Iterator[Encoded]:
        """Encode the frames of videos, one video at a time; see ``Encoder.frames``."""
        for position, handle in enumerate(videos):
            try:
                yield Encoded({position: self._frames_of(handle)})
            except BenchError:
                raise
            except Exception as error:  # noqa: BLE001 - decoders raise what they like; the other videos go on
                reason = str(error).strip().partition("\n")[0] or type(error).__name__
                named = reason if handle.name in reason else f"{handle.name}: {reason}"
                yield Encoded({}, {position: named})

    def _frames_of(self, handle: VideoHandle) -> np.ndarray:
        from ..pixels.video import read_frames

        read = read_frames(handle)
        if isinstance(read, np.ndarray):
            if read.ndim != 2 or read.shape[1] != self.dimension:
                raise ValueError(
                    f"recorded features of shape {list(read.shape)}, the model's are [frames, {self.dimension}]"
                )
            return read.astype(np.float16 if self._dtype == "fp16" else np.float32)
        found: list[np.ndarray] = []
        images = iter(read)
        while batch := list(itertools.islice(images, self._batch["image"].now)):
            inputs, _ = self._transform.collate([self._transform.of_frame(image) for image in batch])
            failures: dict[int, str] = {}
            positions = range(len(batch))
            made = self._run("image", positions, inputs, self._image_vectors, failures)
            if failures:
                raise ValueError(f"a frame {next(iter(failures.values()))}")
            found.append(np.concatenate([one.arrays() for one in made])[: len(batch)])
        if not found:
            raise ValueError("has no frame")
        return np.concatenate(found)

    def _run_texts(
        self, texts: Sequence[str], forward: Callable[[dict[str, torch.Tensor]], torch.Tensor]
    ) -> Iterator[tuple[list[Pending], dict[int, str], dict[int, int]]]:
        """Yield a batch's results, its failures and the length of each text in tokens, by position."""
        for start, ids in self._tokenized_ahead(texts):
            for numbers in self._text_batches(ids):
                inputs = self._text_inputs([texts[start + n] for n in numbers], [ids[n] for n in numbers])
                positions = [start + n for n in numbers]
                lengths = {start + n: min(len(ids[n]), self.context_length) for n in numbers}
                failures: dict[int, str] = {}
                yield self._run("text", positions, inputs, forward, failures), failures, lengths

    def _text_batches(self, ids: Sequence[list[int]]) -> Iterator[list[int]]:
        """Yield the numbers of the texts of each batch.

        They are of one length: padding moves features in their last bits, and so they would depend on the texts beside
        them. The longest come first, which finds out at once whether they fit.
        """

        def length(number: int) -> int:
            return min(len(ids[number]), self.context_length)

        size = self._batch["text"].now
        for _, alike in itertools.groupby(sorted(range(len(ids)), key=length, reverse=True), key=length):
            while numbers := list(itertools.islice(alike, size)):
                yield numbers

    def _tokenized_ahead(self, texts: Sequence[str]) -> Iterator[tuple[int, list[list[int]]]]:
        """Yield the token ids of texts, piece by piece with its start; the next are made while one is used."""
        pieces = [texts[start : start + _TEXTS_AT_ONCE] for start in range(0, len(texts), _TEXTS_AT_ONCE)]
        with ThreadPoolExecutor(1, thread_name_prefix="tokenise") as worker:
            ahead = [worker.submit(self.token_ids, piece) for piece in pieces[:1]]
            for number in range(len(pieces)):
                if number + 1 < len(pieces):
                    ahead.append(worker.submit(self.token_ids, pieces[number + 1]))
                yield number * _TEXTS_AT_ONCE, ahead.pop(0).result()


def _encoded(pending: Sequence[Pending], failures: dict[int, str], remarks: dict[int, str]) -> Encoded:
    vectors: dict[int, np.ndarray] = {}
    for one in pending:
        # Each row on its own, so that keeping one does not keep its batch.
        vectors |= {position: row.copy() for position, row in zip(one.positions, one.arrays(), strict=True)}
    return Encoded(vectors, failures, remarks)
