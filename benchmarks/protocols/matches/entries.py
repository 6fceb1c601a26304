"""Entries: crops of images with their texts, and their vectors, piece by piece."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ....adapters import ImageHandle
from ....metrics import Items
from ...inputs.encoding import EncodedItems, encode_items
from ...inputs.failures import Failure, FailureLog, Stage
from ...inputs.shard_progress import ShardProgress
from ..job import Job
from .image_text_hits import EntryVectors


@dataclass(frozen=True)
class Entry:
    """A crop, or a whole image, with the texts that are held against it.

    Attributes:
        id: Its name in messages and records.
        image: Id of its document, which is one image.
        pixels: The crop.
        captions: Those that are used.
        negatives: Empty where the task does not ask for them.
    """

    id: str
    image: str
    pixels: ImageHandle
    captions: tuple[str, ...]
    negatives: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """Captions, then negatives."""
        return self.captions + self.negatives


class EncodedEntries:
    """Has entries encoded, a shard at a time; leaves out images of which a part cannot be encoded.

    Args:
        job: The run.
        failures: Receives the images that are left out.
        total: Number of entries, for progress.
    """

    def __init__(self, job: Job, failures: FailureLog, total: int) -> None:
        self._job = job
        self._failures = failures
        self._report = job.progress("matches")
        self._total = total
        self.texts = 0
        self.cut = 0
        self.remarks: list[Failure] = []

    def vectors(self, entries: Sequence[Entry]) -> Iterator[tuple[Entry, EntryVectors]]:
        """Yield the vectors of each entry, in order; no more than a shard's are in memory."""
        waiting: deque[list[Entry]] = deque()

        def to_encode() -> Iterator[Items]:
            for piece in _pieces(entries, self._job.shard):
                waiting.append(piece)
                yield _items(piece)

        encoding, done = self._job.encoding or self._encoded, 0
        for encoded in encoding(to_encode()):
            piece = waiting.popleft()
            yield from self._of_piece(piece, encoded)
            done += len(piece)
            self._report(done, self._total)

    def _encoded(self, shards: Iterable[Items]) -> Iterator[EncodedItems]:
        """Yield what the encoder of this process makes of entries."""
        job = self._job
        progress = ShardProgress(job.progress)
        for items in shards:
            yield encode_items(items, job.models.encoder, job.cache, progress)

    def _of_piece(
        self, piece: Sequence[Entry], encoded: EncodedItems
    ) -> Iterator[tuple[Entry, EntryVectors]]:
        crops, texts = encoded.images, encoded.texts
        ends = np.cumsum([len(entry.texts) for entry in piece])
        dropped: set[str] = set()
        for number, reason in crops.failures.items():
            self._drop(piece[number], "image", reason.removeprefix("image").lstrip(": "), dropped)
        for number, reason in texts.failures.items():
            entry = piece[int(np.searchsorted(ends, number, side="right"))]
            self._drop(entry, "candidate", reason.removeprefix("text").lstrip(": "), dropped)
        for number, (entry, end) in enumerate(zip(piece, ends.tolist(), strict=True)):
            if entry.image in dropped:
                continue
            if number in crops.remarks:
                self.remarks.append(Failure(entry.image, "image", crops.remarks[number]))
            own = slice(end - len(entry.texts), end)
            self.texts += len(entry.texts)
            self.cut += int(encoded.cut[own].sum())
            vectors = texts.vectors[texts.rows[own]]
            count = len(entry.captions)
            yield entry, EntryVectors(crops.vectors[crops.rows[number]], vectors[:count], vectors[count:])

    def _drop(self, entry: Entry, stage: Stage, reason: str, dropped: set[str]) -> None:
        # As in the released code an image that cannot be read is left out with all of its entries.
        if entry.image not in dropped:
            dropped.add(entry.image)
            self._failures.add(entry.image, stage, reason)


def _items(entries: Sequence[Entry]) -> Items:
    """Return entries as items, whose references are the texts."""
    return Items(
        ids=[entry.id for entry in entries],
        candidates=[""] * len(entries),
        references=[entry.texts for entry in entries],
        weights=np.ones(len(entries)),
        images=[entry.pixels for entry in entries],
    )


def _pieces(entries: Sequence[Entry], size: int) -> Iterator[list[Entry]]:
    """Yield consecutive entries of whole images, so many at least."""
    piece: list[Entry] = []
    for _, of_image in groupby(entries, key=lambda entry: entry.image):
        piece += of_image
        if len(piece) >= size:
            yield piece
            piece = []
    if piece:
        yield piece
