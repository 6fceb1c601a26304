"""``matching``: crops and captions of images are matched by the model under test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any, ClassVar

import numpy as np

from ...adapters import Box, ImageHandle
from ...errors import DataError
from ...metrics import Context, Items
from ...metrics.features import (
    image_features,
    keep_image_features,
    keep_text_features,
    over_context,
    text_features,
)
from ...tasks.schema import ProtocolSettings
from ..checks import run_checks
from ..failures import Stage
from ..items import image_key, printable, text_fault
from ..pixels import boxes_fault, boxes_of
from ..statistics.bootstrap import bootstrap_value
from ..statistics.contract import Statistic
from .contract import Collected, DocumentReader, FailureLog, Job, Protocol, Result, ScoredMetric
from .image_text_hits import EntryVectors, Hit, match_captions, prefer_captions

_KEYS = ("doc_to_id", "doc_to_image", "doc_to_entries")
_LABELS = {"scm": "SCM", "neg": "Neg"}
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


@dataclass(frozen=True)
class CollectedMatches(Collected):
    """Entries, and what became of each."""

    entries: list[Entry] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    image_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def effective(self) -> int:
        """How many images have an entry that is scored."""
        return len({entry.image for entry in self.entries})

    def content(self) -> Iterator[list[Any]]:
        """Yield what was matched, in order, as JSON values."""
        for entry in self.entries:
            yield [self.image_names[entry.image], entry.pixels.box, entry.captions, entry.negatives]


class Matching(Protocol):
    """Share of entries whose image finds its captions, or prefers them to negatives."""

    needs_encoder: ClassVar[bool] = True
    takes_metrics: ClassVar[bool] = False

    def read(self, job: Job, failures: FailureLog) -> tuple[int, list[dict[str, Any]]]:
        """Return how many images have entries, and the data checks."""
        entries, _, checks = _read(job, failures)
        return len({entry.image for entry in entries}), checks

    def collect(self, job: Job, failures: FailureLog) -> CollectedMatches:
        """Read entries, have them encoded, and match them.

        Everything is encoded in one pass that fills the store, then taken from it in pieces: the memory
        that features need does not grow with the data set, and tasks of the same crops encode them once.
        """
        entries, image_names, checks = _read(job, failures)
        settings = job.task.protocol
        keep_image_features([entry.pixels for entry in entries], _context(job, "images"))
        texts = dict.fromkeys(text for entry in entries for text in entry.texts)
        keep_text_features(list(texts), _context(job, "texts"))
        encoded = _Encoded(job, failures, len(entries))
        matched = list(_matched(encoded.vectors(entries), settings))
        if not matched:
            raise _nothing_left(job, failures)
        return CollectedMatches(
            samples=[],
            items=Items(ids=[], candidates=[], references=[], weights=np.zeros(0)),
            item_of_sample=np.zeros(0, dtype=np.int64),
            data_checks=checks,
            cut={settings.measure: (encoded.texts, encoded.cut)},
            entries=[entry for entry, _ in matched],
            hits=[hit for _, hit in matched],
            image_names=image_names,
        )

    def results(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
    ) -> list[Result]:
        """Return the accuracy over all entries, with an interval over images.

        Blocks are not formed anew on a resample: what is drawn are images with the hits of their entries.
        """
        assert isinstance(collected, CollectedMatches)  # noqa: S101 - what collect returned
        hits = np.array([one.hit for one in collected.hits], dtype=np.float64)
        images: dict[str, int] = {}
        interval = bootstrap_value(
            lambda weights: float(np.average(hits, weights=weights)),
            np.array([images.setdefault(entry.image, len(images)) for entry in collected.entries]),
            resamples=job.settings.resamples,
            seed=job.settings.seed,
            level=job.settings.level,
        )
        measure = job.task.protocol.measure
        return [
            Result(
                measure,
                "accuracy",
                (_LABELS[measure], "accuracy"),
                float(hits.mean()),
                len(hits),
                higher_is_better=True,
                scale=job.task.scale,
                interval=interval,
            )
        ]

    def sample_columns(self, collected: Collected, scored: Sequence[ScoredMetric]) -> dict[str, list[Any]]:
        """Return a row an entry: ``hit`` is 1 or 0, ``own`` and ``rival`` are the cosines that decided."""
        assert isinstance(collected, CollectedMatches)  # noqa: S101 - what collect returned
        entries, hits = collected.entries, collected.hits
        return {
            "id": [entry.id for entry in entries],
            "image": [collected.image_names[entry.image] for entry in entries],
            "candidates": [list(entry.captions) for entry in entries],
            "negatives": [list(entry.negatives) for entry in entries],
            "hit": [float(one.hit) for one in hits],
            "own": [one.own for one in hits],
            "rival": [one.rival for one in hits],
            "failure": [None] * len(entries),
        }


class _Encoded:
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


def _matched(
    entries: Iterator[tuple[Entry, EntryVectors]], settings: ProtocolSettings
) -> Iterator[tuple[Entry, Hit]]:
    """Yield what became of each entry, in order, a group at a time."""
    if settings.measure == "neg":
        yield from ((entry, prefer_captions(vectors)) for entry, vectors in entries)
        return
    for group in _groups(entries, settings):
        hits = match_captions([vectors for _, vectors in group])
        yield from zip([entry for entry, _ in group], hits, strict=True)


def _groups(
    entries: Iterator[tuple[Entry, EntryVectors]], settings: ProtocolSettings
) -> Iterator[list[tuple[Entry, EntryVectors]]]:
    if settings.grouping == "per_image":
        for _, group in groupby(entries, key=lambda pair: pair[0].image):
            yield list(group)
        return
    while block := list(islice(entries, settings.block_size)):
        yield block


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


def _context(job: Job, step: str) -> Context:
    return Context(cache=job.cache, progress=job.progress(step), encoder=job.models.encoder)


def _read(job: Job, failures: FailureLog) -> tuple[list[Entry], dict[str, str], list[dict[str, Any]]]:
    """Return the entries in order, the image's name of each document, and the data checks."""
    entries: list[Entry] = []
    image_names: dict[str, str] = {}
    for identity, values in DocumentReader(job, _KEYS).read(failures):
        given = values["doc_to_entries"]
        pixels = job.pixels(values["doc_to_image"])
        if fault := _entries_fault(given, job.task.protocol):
            failures.add(identity, "data", fault)
        elif not isinstance(pixels, ImageHandle):
            failures.add(identity, "image", f"is no image of this machine: {values['doc_to_image']!r:.80}")
        else:
            image_names[identity] = image_key(values["doc_to_image"])
            entries += _entries(job.task.protocol, identity, pixels, given, failures)
    if not entries:
        raise _nothing_left(job, failures)
    checks = run_checks(
        job,
        documents=len(job.documents.rows),
        rows=len(entries),
        items=len({entry.pixels for entry in entries}),
        images=len({entry.image for entry in entries}),
    )
    return entries, image_names, checks


def _entries(
    settings: ProtocolSettings,
    image: str,
    pixels: ImageHandle,
    given: Iterable[Mapping[str, Any]],
    failures: FailureLog,
) -> Iterator[Entry]:
    for number, one in enumerate(given):
        identity = printable(f"{image}|{one.get('key', number)}")
        captions = one["captions"]
        if len(captions) < settings.captions:
            failures.add(
                identity,
                "candidate",
                f"is left out: {len(captions)} captions of {settings.captions} are there",
            )
            continue
        box = one.get("box")
        yield Entry(
            identity,
            image,
            ImageHandle(pixels.source, _box(box)),
            _picked(captions, settings, identity),
            tuple(one["negatives"]) if settings.measure == "neg" else (),
        )


def _picked(captions: Sequence[str], settings: ProtocolSettings, identity: str) -> tuple[str, ...]:
    """Return the captions that are used; a draw depends on the entry's name and the seed, not on other entries."""
    if settings.pick == "first":
        return tuple(captions[: settings.captions])
    generator = np.random.default_rng([settings.pick_seed, *identity.encode()])
    chosen: list[int] = generator.choice(len(captions), settings.captions, replace=False).tolist()
    return tuple(captions[number] for number in chosen)


def _box(box: Any) -> Box | None:
    boxes = None if box is None else boxes_of([box])
    return boxes[0] if boxes else None


def _entries_fault(entries: Any, settings: ProtocolSettings) -> str | None:
    """Return why a value cannot stand as the entries of an image, or None if it can."""
    needed = ("captions", "negatives") if settings.measure == "neg" else ("captions",)
    if not isinstance(entries, list | tuple) or not all(isinstance(one, Mapping) for one in entries):
        return "has no list of entries with captions and negatives"
    for number, entry in enumerate(entries):
        name = f"entry {entry.get('key', number)}"
        if entry.get("box") is not None and (fault := boxes_fault([entry["box"]])):
            return f"{name} {fault}"
        for key in needed:
            texts = entry.get(key)
            if not isinstance(texts, list | tuple) or not texts:
                return f"{name} has no list of {key}"
            for text in texts:
                # A model has a vector for no words, too, and released data is matched as it is.
                blank = isinstance(text, str) and not text.strip()
                if not blank and (fault := text_fault(text)):
                    return f"{name}: one of its {key} {fault}"
    return None


def _nothing_left(job: Job, failures: FailureLog) -> DataError:
    return DataError(
        f"task '{job.task.task}': no image can be matched",
        "; ".join(f"{one.sample}: {one.subject} {one.reason}" for one in failures.entries[:3]),
    )
