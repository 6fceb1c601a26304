"""Scores entries and texts with the encoder, by vectors or pairs, and groups the entries that compete."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import TypeVar

import numpy as np

from ....batches import grouped
from ....errors import UsageError
from ....metrics import Items
from ....progress import ShardProgress
from ...inputs.encoding import AnyEncoded, EncodedItems, ScoredItems, encode_items
from ...inputs.failures import Failure, FailureLog, Stage
from ..job import Job
from .documents import MatchEntry, MatchingSettings
from .image_text_hits import Likeness

_Piece = TypeVar("_Piece")


@dataclass(frozen=True)
class ScoredEntry:
    """An entry that was compared with texts.

    Attributes:
        entry: The entry.
        likeness: Its similarity to the texts.
        seen: A number for the tokens that the encoder sees of each of the entry's texts, 0 where none are cut; see
            :func:`~....metrics.vectors.features.seen_tokens`.
    """

    entry: MatchEntry
    likeness: Likeness
    seen: np.ndarray

    @property
    def image(self) -> str:
        """Its document."""
        return self.entry.image


_EntryT = TypeVar("_EntryT", MatchEntry, ScoredEntry)


def groups_of(entries: Iterable[_EntryT], settings: MatchingSettings) -> Iterator[list[_EntryT]]:
    """Yield entries that compete with each other: a block, those of an image, the two of a square, or one alone.

    Args:
        entries: In order.
        settings: The choices of the task.
    """
    if settings.measure in ("neg", "texts"):
        yield from ([entry] for entry in entries)
    elif settings.measure == "square" or settings.grouping == "per_image":
        for _, group in groupby(entries, key=lambda entry: entry.image):
            yield list(group)
    else:
        some = iter(entries)
        while block := list(islice(some, settings.block_size)):
            yield block


def cut_to_one(group: Sequence[ScoredEntry]) -> list[bool]:
    """Return the entries of a group with a caption that equals a competing text only after truncation.

    Args:
        group: The entries that compete; for a single entry its negatives compete.
    """
    if not any(scored.seen.any() for scored in group):
        return [False] * len(group)
    repeated: list[bool] = []
    for number, scored in enumerate(group):
        count = len(scored.entry.captions)
        texts = list(zip(scored.entry.texts, scored.seen.tolist(), strict=True))
        rivals = texts[count:]
        for place, other in enumerate(group):
            if place != number:
                rivals += list(zip(other.entry.captions, other.seen.tolist(), strict=False))
        repeated.append(any(a and a == b and mine != theirs for mine, a in texts[:count] for theirs, b in rivals))
    return repeated


def encode_pieces(
    job: Job, pieces: Iterable[_Piece], to_items: Callable[[_Piece], Items]
) -> Iterator[tuple[_Piece, AnyEncoded]]:
    """Yield pieces with the output of the encoder, which may be in another process."""
    waiting, progress = deque[_Piece](), ShardProgress(job.progress)

    def to_encode() -> Iterator[Items]:
        for piece in pieces:
            waiting.append(piece)
            yield to_items(piece)

    def here(shards: Iterable[Items]) -> Iterator[AnyEncoded]:
        for items in shards:
            yield encode_items(items, job.models.encoder, job.cache, progress)

    for encoded in (job.encoding or here)(to_encode()):
        yield waiting.popleft(), encoded


class EntryScorer:
    """Scores entries and texts, a shard at a time; excludes images of which a part cannot be encoded.

    Args:
        job: The run.
        settings: The choices of the task.
        failures: Receives the excluded images.
        total: Number of entries, for progress.
    """

    def __init__(self, job: Job, settings: MatchingSettings, failures: FailureLog, total: int) -> None:
        self._job = job
        self._settings = settings
        self._failures = failures
        self._report = job.progress("matches")
        self._total = total
        self.texts = 0
        self.cut = 0
        self.remarks: list[Failure] = []

    def scored(self, entries: Sequence[MatchEntry]) -> Iterator[ScoredEntry]:
        """Yield the scored entries, in order; only the vectors of one shard are in memory."""
        if self._job.scores_pairs and self._settings.measure == "texts":
            raise UsageError(
                f"task '{self._job.task.task}' compares texts, and the model scores pairs of image and text.",
                "Name a model that encodes texts ('bench ls models').",
            )
        return self._by_pairs(entries) if self._job.scores_pairs else self._by_vectors(entries)

    def _by_vectors(self, entries: Sequence[MatchEntry]) -> Iterator[ScoredEntry]:
        done = 0
        of_images = (list(group) for _, group in groupby(entries, key=lambda entry: entry.image))
        pieces = (list(chain.from_iterable(images)) for images in grouped(of_images, len, self._job.shard))
        for piece, encoded in encode_pieces(self._job, pieces, lambda some: items_of((e, e.texts) for e in some)):
            assert isinstance(encoded, EncodedItems)  # noqa: S101 - the encoder has vectors
            yield from self._of_piece(piece, encoded)
            done += len(piece)
            self._report(done, self._total)

    def _by_pairs(self, entries: Sequence[MatchEntry]) -> Iterator[ScoredEntry]:
        """Yield entries with the scores of pairs.

        An excluded image shifts the next entries into other groups. These are scored again; scores in the store are
        reused. Scores are few numbers, so those of all entries are in memory.
        """
        while True:
            scored, dropped = self._all_pairs(entries)
            if not dropped:
                break
            entries = [entry for entry in entries if entry.image not in dropped]
        for held, cut, remark in scored:
            self.texts += len(cut)
            self.cut += int(cut.sum())
            if remark:
                self.remarks.append(Failure(held.entry.image, "image", remark))
            yield held

    def _all_pairs(self, entries: Sequence[MatchEntry]) -> tuple[list[tuple[ScoredEntry, np.ndarray, str]], set[str]]:
        """Return each entry with its truncated texts and its remarks; and the excluded images."""
        scored: list[tuple[ScoredEntry, np.ndarray, str]] = []
        dropped, done = set[str](), 0
        groups = groups_of(entries, self._settings)
        for some, encoded in encode_pieces(self._job, grouped(groups, len, self._job.shard), _groups_texts):
            assert isinstance(encoded, ScoredItems)  # noqa: S101 - the encoder scores pairs
            scores, start = encoded.scores, 0
            places = ((group, number) for group in some for number in range(len(group)))
            for item, (group, number) in enumerate(places):
                entry, count = group[number], len(group[number].captions)
                if item in scores.failures:
                    self._drop(entry, "image", scores.failures[item], dropped)
                at = slice(start, start + len(_texts_against(group, number)))
                values, cut, seen, start = scores.values[at], encoded.cut[at], encoded.seen[at], at.stop
                if entry.negatives:
                    likeness = Likeness(values[:count], values[count:], values[None, :count])
                else:
                    own = slice(number * count, (number + 1) * count)
                    likeness = Likeness(values[own], values[:0], values.reshape(len(group), count))
                    cut, seen = cut[own], seen[own]
                scored.append((ScoredEntry(entry, likeness, seen), cut, scores.remarks.get(item, "")))
            done += sum(map(len, some))
            self._report(done, self._total)
        return scored, dropped

    def _of_piece(self, piece: Sequence[MatchEntry], encoded: EncodedItems) -> Iterator[ScoredEntry]:
        crops, texts = encoded.images, encoded.texts
        ends = np.cumsum([len(entry.texts) for entry in piece])
        dropped: set[str] = set()
        for number, reason in crops.failures.items():
            self._drop(piece[number], "image", reason, dropped)
        for number, reason in texts.failures.items():
            self._drop(piece[int(np.searchsorted(ends, number, side="right"))], "candidate", reason, dropped)
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
            likeness = (
                Likeness.of_texts(vectors[:count], vectors[count:])
                if entry.pixels is None
                else Likeness.of_vectors(crops.vectors[crops.rows[number]], vectors[:count], vectors[count:])
            )
            yield ScoredEntry(entry, likeness, encoded.seen[own])

    def _drop(self, entry: MatchEntry, stage: Stage, reason: str, dropped: set[str]) -> None:
        # As in the released code an unreadable image is excluded with all of its entries.
        if entry.image not in dropped:
            dropped.add(entry.image)
            self._failures.add(entry.image, stage, reason_of(reason))


def reason_of(failure: str) -> str:
    """Return why an image or text could not be encoded, without its name before it."""
    return failure.removeprefix("image").removeprefix("text").lstrip(": ")


def _groups_texts(groups: Sequence[Sequence[MatchEntry]]) -> Items:
    """Return the entries of groups as items, whose references are the texts to compare with."""
    return items_of((entry, _texts_against(group, number)) for group in groups for number, entry in enumerate(group))


def _texts_against(group: Sequence[MatchEntry], number: int) -> tuple[str, ...]:
    """Return the texts to compare an entry of a group with: all captions, or its own texts with its negatives."""
    own = group[number]
    return own.texts if own.negatives else tuple(text for entry in group for text in entry.captions)


def items_of(entries: Iterable[tuple[MatchEntry, tuple[str, ...]]]) -> Items:
    """Return entries as items, whose references are texts to encode, or to compare each with."""
    listed = list(entries)
    return Items(
        ids=[entry.id for entry, _ in listed],
        candidates=[""] * len(listed),
        references=[texts for _, texts in listed],
        weights=np.ones(len(listed)),
        images=[entry.pixels for entry, _ in listed if entry.pixels is not None],
    )
