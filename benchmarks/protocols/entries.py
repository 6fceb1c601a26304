"""Entries: crops of images with their texts, and their vectors, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ...adapters import ImageHandle
from ...metrics import Context
from ...metrics.vectors.features import image_features, over_context, text_features
from ..inputs.failures import Failure, FailureLog, Stage
from .image_text_hits import EntryVectors
from .job import Job

_PIECE = 1024
"""Entries whose features are held in memory at once, but for the rest of an image."""


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
    """Takes features from the store, piece by piece; leaves out images of which a part cannot be encoded.

    Args:
        job: The run.
        failures: Receives the images that are left out.
        total: Number of entries, for progress.
    """

    def __init__(self, job: Job, failures: FailureLog, total: int) -> None:
        self._context = Context(cache=job.cache, encoder=job.models.encoder)
        self._failures = failures
        self._report = job.progress("matches")
        self._total = total
        self.texts = 0
        self.cut = 0
        self.remarks: list[Failure] = []

    def vectors(self, entries: Sequence[Entry]) -> Iterator[tuple[Entry, EntryVectors]]:
        """Yield the vectors of each entry, in order."""
        done = 0
        for piece in _pieces(entries):
            yield from self._of_piece(piece)
            done += len(piece)
            self._report(done, self._total)

    def _of_piece(self, piece: Sequence[Entry]) -> Iterator[tuple[Entry, EntryVectors]]:
        crops = image_features([entry.pixels for entry in piece], self._context)
        texts = [text for entry in piece for text in entry.texts]
        encoded = text_features(texts, self._context)
        ends = np.cumsum([len(entry.texts) for entry in piece])
        dropped: set[str] = set()
        for number, reason in crops.failures.items():
            self._drop(piece[number], "image", reason.removeprefix("image").lstrip(": "), dropped)
        for number, reason in encoded.failures.items():
            entry = piece[int(np.searchsorted(ends, number, side="right"))]
            self._drop(entry, "candidate", reason.removeprefix("text").lstrip(": "), dropped)
        cut = over_context(texts, self._context)
        for number, (entry, end) in enumerate(zip(piece, ends.tolist(), strict=True)):
            if entry.image in dropped:
                continue
            if number in crops.remarks:
                self.remarks.append(Failure(entry.image, "image", crops.remarks[number]))
            own = slice(end - len(entry.texts), end)
            self.texts += len(entry.texts)
            self.cut += int(cut[own].sum())
            vectors = encoded.vectors[encoded.rows[own]]
            count = len(entry.captions)
            yield entry, EntryVectors(crops.vectors[crops.rows[number]], vectors[:count], vectors[count:])

    def _drop(self, entry: Entry, stage: Stage, reason: str, dropped: set[str]) -> None:
        # As in the released code an image that cannot be read is left out with all of its entries.
        if entry.image not in dropped:
            dropped.add(entry.image)
            self._failures.add(entry.image, stage, reason)


def _pieces(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield consecutive entries of whole images."""
    piece: list[Entry] = []
    for _, of_image in groupby(entries, key=lambda entry: entry.image):
        piece += of_image
        if len(piece) >= _PIECE:
            yield piece
            piece = []
    if piece:
        yield piece
