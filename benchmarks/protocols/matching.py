"""``matching``: crops and captions of images are matched by the model under test."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby, islice
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ...adapters import Box, ImageHandle
from ...errors import DataError
from ...metrics import Items
from ..inputs.failures import FailureLog
from ..inputs.items import image_key, printable, text_fault
from ..inputs.pixels import boxes_fault, boxes_of
from ..statistics.contract import Statistic
from ..statistics.influence import influence_of_mean, interval_of_value
from ..statistics.rated_rows import first_seen
from .checks import DataCheck, run_checks
from .contract import Protocol, ProtocolSettings
from .document_reader import DocumentReader, is_list
from .entries import EncodedEntries, Entry
from .image_text_hits import EntryVectors, Hit, match_captions, prefer_captions
from .job import Collected, Job, Shard, Summary, numbers_of
from .results import Result, ScoredMetric

_LABELS = {"scm": "SCM", "neg": "Neg"}


class MatchingSettings(ProtocolSettings):
    """The choices of a matching task that move a number."""

    measure: Literal["scm", "neg"] = "scm"
    """What a matching task reports: whether an entry's image finds its captions among those of its group
    (subcrop-caption matching), or prefers them to the entry's negatives."""
    grouping: Literal["blocks", "per_image"] = "blocks"
    """The entries whose captions compete: consecutive ones, over the borders of images; or those of one image."""
    block_size: int = Field(default=8, ge=1)
    """Entries of a block; the last block holds what is left."""
    captions: int = Field(default=1, ge=1)
    """So many captions of an entry are used; entries with fewer are left out."""
    pick: Literal["first", "random"] = "first"
    """Which ones: the first, or drawn at random without repetition."""
    pick_seed: int = Field(default=0, ge=0)

    meanings: ClassVar[Mapping[str, str | Mapping[str, str]]] = {
        "measure": {
            "scm": "subcrop-caption matching: an entry is right if its image, of all entries of its group, is most "
            "similar to its own captions; every other entry stands with its best caption, the entry itself with its "
            "worst; of equal entries the first is found; images look for captions, never captions for images",
            "neg": "an entry is right if its image is more similar to the worst of its own captions than to its "
            "negative; equal counts as wrong",
        },
        "grouping": {
            "blocks": "consecutive entries over the borders of images, as in the released code; the last block is "
            "smaller, and an entry alone in it is right",
            "per_image": "all entries of one image, as the paper's text has it",
        },
        "block_size": "entries of a block",
        "captions": "so many captions of an entry are used; entries with fewer are left out",
        "pick": {
            "first": "the first in the data, so that every run sees the same; the released code draws them without "
            "a seed",
            "random": "drawn by pick_seed and the entry's name, without repetition",
        },
    }

    def idle(self) -> Set[str]:
        """Return the settings that change nothing: of groups where none is formed, of a draw that is not made."""
        said = {
            "grouping": self.measure == "scm",
            "block_size": self.measure == "scm" and self.grouping == "blocks",
            "pick": self.captions > 1 or self.pick == "random",
            "pick_seed": self.pick == "random",
        }
        return {name for name, has_say in said.items() if not has_say}


class Matching(Protocol[MatchingSettings]):
    """Share of entries whose image finds its captions, or prefers them to negatives.

    ``doc_to_entries`` gives the parts of an image that are matched with captions: a list of mappings with
    ``captions`` and ``negatives`` (lists of texts), ``box`` (left, top, right, bottom in pixels; null for the whole
    image) and ``key`` (its name).
    """

    Settings = MatchingSettings
    reads = ("doc_to_id", "doc_to_image", "image_folder", "doc_to_entries")
    needs = frozenset({"doc_to_image", "doc_to_entries"})
    about = (
        "Every entry is an image or a crop of one, with captions and a negative; similarity is the cosine of the "
        "model's features, in float32. An image of which a crop cannot be read is left out with all of its entries. "
        "Accuracy is the share of entries that are right; its interval draws images with the hits of their entries, "
        "and does not group anew. Texts longer than the model takes are cut, and counted in run.json."
    )
    subject = "model"
    needs_encoder = True
    statistic = "accuracy"
    sample = "entry"

    @property
    def measures(self) -> tuple[str, ...]:
        """The measure that the task chose."""
        return (self.settings.measure,)

    def read(self, job: Job, failures: FailureLog) -> tuple[int, list[DataCheck]]:
        """Return how many images have entries, and the data checks."""
        entries, _, checks = _read(job, self.settings, self.document_keys, failures)
        return len({entry.image for entry in entries}), checks

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Read entries, have them encoded a shard at a time, and match them."""
        settings = self.settings
        entries, image_names, checks = _read(job, settings, self.document_keys, failures)
        encoded = EncodedEntries(job, failures, len(entries))
        matched = _matched(encoded.vectors(entries), settings)
        images: set[str] = set()
        while some := list(islice(matched, job.shard)):
            images.update(entry.image for entry, _ in some)
            yield _shard(some, image_names)
        if not images:
            raise _nothing_left(job, failures)
        return Summary(
            len(images),
            data_checks=checks,
            cut={settings.measure: (encoded.texts, encoded.cut)},
            remarks=encoded.remarks,
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
        hits = collected.numbers["hit"]
        interval = interval_of_value(
            lambda weights: float(np.average(hits, weights=weights)),
            first_seen(collected.numbers["image"]),
            lambda: influence_of_mean(hits),
            intervals=job.settings.intervals,
            resamples=job.settings.resamples,
            seed=job.settings.seed,
            level=job.settings.level,
        )
        measure = self.settings.measure
        return [
            Result(
                measure,
                self.statistic,
                (_LABELS[measure], self.statistic),
                float(hits.mean()),
                len(hits),
                higher_is_better=True,
                scale=job.task.scale,
                interval=interval,
            )
        ]


def _shard(matched: Sequence[tuple[Entry, Hit]], image_names: Mapping[str, str]) -> Shard:
    """Return entries with what became of them: ``hit`` is 1 or 0, ``own`` and ``rival`` the cosines that decided."""
    entries, hits = [entry for entry, _ in matched], [hit for _, hit in matched]
    return Shard(
        Items(ids=[], candidates=[], references=[], weights=np.zeros(0)),
        np.zeros(0, dtype=np.int64),
        {
            "id": [entry.id for entry in entries],
            "image": [image_names[entry.image] for entry in entries],
            "candidates": [list(entry.captions) for entry in entries],
            "negatives": [list(entry.negatives) for entry in entries],
            "hit": [float(one.hit) for one in hits],
            "own": [one.own for one in hits],
            "rival": [one.rival for one in hits],
        },
        {
            "hit": np.array([one.hit for one in hits], dtype=np.float64),
            "image": numbers_of(entry.image for entry in entries),
        },
        [[image_names[one.image], one.pixels.box, one.captions, one.negatives] for one in entries],
    )


def _matched(
    entries: Iterator[tuple[Entry, EntryVectors]], settings: MatchingSettings
) -> Iterator[tuple[Entry, Hit]]:
    """Yield what became of each entry, in order, a group at a time."""
    if settings.measure == "neg":
        yield from ((entry, prefer_captions(vectors)) for entry, vectors in entries)
        return
    for group in _groups(entries, settings):
        hits = match_captions([vectors for _, vectors in group])
        yield from zip([entry for entry, _ in group], hits, strict=True)


def _groups(
    entries: Iterator[tuple[Entry, EntryVectors]], settings: MatchingSettings
) -> Iterator[list[tuple[Entry, EntryVectors]]]:
    if settings.grouping == "per_image":
        for _, group in groupby(entries, key=lambda pair: pair[0].image):
            yield list(group)
        return
    while block := list(islice(entries, settings.block_size)):
        yield block


def _read(
    job: Job, settings: MatchingSettings, keys: Sequence[str], failures: FailureLog
) -> tuple[list[Entry], dict[str, str], list[DataCheck]]:
    """Return the entries in order, the image's name of each document, and the data checks."""
    entries: list[Entry] = []
    image_names: dict[str, str] = {}
    for identity, values in DocumentReader(job, keys).read(failures):
        given = values["doc_to_entries"]
        pixels = job.pixels(values["doc_to_image"])
        if fault := _entries_fault(given, settings):
            failures.add(identity, "data", fault)
        elif not isinstance(pixels, ImageHandle):
            failures.add(identity, "image", f"is no image of this machine: {values['doc_to_image']!r:.80}")
        else:
            image_names[identity] = image_key(values["doc_to_image"])
            entries += _entries(settings, identity, pixels, given, failures)
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
    settings: MatchingSettings,
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


def _picked(captions: Sequence[str], settings: MatchingSettings, identity: str) -> tuple[str, ...]:
    """Return the captions that are used; a draw depends on the entry's name and the seed, not on other entries."""
    if settings.pick == "first":
        return tuple(captions[: settings.captions])
    generator = np.random.default_rng([settings.pick_seed, *identity.encode()])
    chosen: list[int] = generator.choice(len(captions), settings.captions, replace=False).tolist()
    return tuple(captions[number] for number in chosen)


def _box(box: Any) -> Box | None:
    boxes = None if box is None else boxes_of([box])
    return boxes[0] if boxes else None


def _entries_fault(entries: Any, settings: MatchingSettings) -> str | None:
    """Return why a value cannot stand as the entries of an image, or None if it can."""
    needed = ("captions", "negatives") if settings.measure == "neg" else ("captions",)
    if not is_list(entries) or not all(isinstance(one, Mapping) for one in entries):
        return "has no list of entries with captions and negatives"
    for number, entry in enumerate(entries):
        name = f"entry {entry.get('key', number)}"
        if entry.get("box") is not None and (fault := boxes_fault([entry["box"]])):
            return f"{name} {fault}"
        for key in needed:
            texts = entry.get(key)
            if not is_list(texts) or not texts:
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
