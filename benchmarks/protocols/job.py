"""What a protocol works on, and what it makes of it before anything is scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...adapters import VideoHandle
from ...tasks.locate import DataLocations

if TYPE_CHECKING:
    from ...adapters import Captioned, CaptionRequest
    from ...metrics import Cache, Items
    from ...progress import Progress
    from ...tasks.documents import Documents
    from ...tasks.schema import TaskConfig
    from ..inputs.encoding import AnyEncoded
    from ..inputs.failures import Failure
    from ..inputs.items import CaptionRow
    from ..inputs.models import Models
    from ..inputs.pixels import PixelFinder
    from ..inputs.settings import RunSettings
    from .checks import DataCheck

    Asking = Callable[[Iterable[Sequence[CaptionRequest]]], Iterator[Captioned]]
    """Asks a captioner: requests, some at a time, to what became of each of these, in order."""

    Encoding = Callable[[Iterable[Items]], Iterator[AnyEncoded]]
    """Encodes items, a shard at a time: to the features of each shard, or its scores of pairs, in order."""

CAPTIONS, INTERVALS = "captions", "intervals"
"""Steps of a run whose progress is told."""
SHARD = 10_000
"""Documents of a shard, unless models look at their images: bounds what is in memory at a time."""
SHARD_OF_IMAGES = 5_000


@dataclass(frozen=True)
class Job:
    """One task and one model, ready to run.

    Attributes:
        task: The task.
        documents: Its documents.
        models: The models, loaded; None each where others carry out what needs them.
        settings: What the user set.
        cache: Where captions are kept.
        progress: Gives a reporter of (done, total) for a step of that name.
        pixels: Finds the images and videos that documents name.
        shard: Documents, or what the protocol counts, that make a shard.
        asking: Asks the captioner; None asks the one of ``models``.
        encoding: Encodes what the protocol itself matches; None lets the encoder of ``models`` do it.
        scores_pairs: Whether the encoder scores an image and a text together, and has no vectors.
        locations: Where local copies of data may be.
    """

    task: TaskConfig
    documents: Documents
    models: Models
    settings: RunSettings
    cache: Cache
    progress: Progress
    pixels: PixelFinder
    shard: int = SHARD
    asking: Asking | None = None
    encoding: Encoding | None = None
    scores_pairs: bool = False
    locations: DataLocations = field(default_factory=DataLocations)


@dataclass(frozen=True)
class Subset:
    """A part of a task's documents, as a recorded source holds captions of no others.

    Attributes:
        documents: How many they are.
        of: How many captions were asked for.
        hash: Hash of the documents: ids, references and objects, in order.
    """

    documents: int
    of: int
    hash: str


@dataclass(frozen=True)
class Shard:
    """What a protocol made of some documents: ``n`` rows, of ``m`` samples that metrics score.

    Attributes:
        items: What metrics score: the unique ones of the samples.
        item_of_sample: ``[m]`` index into the items.
        columns: What is written of each row besides its scores: name of a column to ``n`` numbers, texts or lists.
            ``image`` tells images apart; where rows are single captions, ``candidate`` is theirs.
        numbers: What results are made of besides scores: arrays whose first axis runs through rows, or through what
            rows are made of; those of all shards are put together.
        content: What was read, as JSON values: two runs with the same have the same data.
        item_numbers: A number for each item: items of several shards that have one number are one item. None where
            no item is in two shards.
    """

    items: Items
    item_of_sample: np.ndarray
    columns: Mapping[str, Sequence[Any]]
    numbers: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    content: Sequence[Any] = ()
    item_numbers: np.ndarray | None = None

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.columns["id"])


@dataclass(frozen=True)
class Summary:
    """What a protocol says when it has made its last shard.

    Attributes:
        effective: How many documents of the task are scored.
        ruled_out: Captions that the task's rule for rated references leaves out.
        generation: What is known of the captions that a model wrote: how many, how long, how many cut.
        data_checks: Each check of the task with expected and found value.
        cut: What the protocol itself had encoded: name of a result to how many texts it was made of, and how
            many of them were cut to the encoder's context.
        identical: Name of a result to how many of its choices hold texts that are the same once they are cut.
        remarks: What was done to read images, before anything was scored, that is not as usual.
        documents_hash: Hash of the documents that a model was asked to caption, whatever it wrote; empty where
            captions are given.
        subset: The part of them that was captioned; None where all were asked for.
        categories: The parts of the data by which results are given; one without a name where there are none.
        systems: What wrote the captions, where results are of systems.
    """

    effective: int
    ruled_out: int = 0
    generation: Mapping[str, Any] = field(default_factory=dict[str, Any])
    data_checks: Sequence[DataCheck] = ()
    cut: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    identical: Mapping[str, int] = field(default_factory=dict[str, int])
    remarks: Sequence[Failure] = ()
    documents_hash: str = ""
    subset: Subset | None = None
    categories: Sequence[str] = ("",)
    systems: Sequence[str] = ()


@dataclass(frozen=True)
class Collected:
    """All shards of a run, without their texts: ``n`` rows, ``m`` samples, ``k`` items.

    Attributes:
        item_of_sample: ``[m]`` index into the items of all shards, in the order in which they first occur.
        weights: ``[k]`` how many samples each item stands for (``Items.weights``).
        numbers: Those of all shards.
        summary: What the protocol says besides.
        rows: How many rows there are.
    """

    item_of_sample: np.ndarray
    weights: np.ndarray
    numbers: Mapping[str, np.ndarray]
    summary: Summary
    rows: int

    def of_samples(self, of_items: np.ndarray) -> np.ndarray:
        """Return ``[m]`` what each sample's item has; the same array where each sample is an item of its own.

        Args:
            of_items: ``[k]`` what the items have.
        """
        return of_items if self._is_an_item_each else of_items[self.item_of_sample]

    @cached_property
    def _is_an_item_each(self) -> bool:
        return np.array_equal(self.item_of_sample, np.arange(len(self.weights), dtype=np.int32))


def numbers_of(names: Iterable[str]) -> np.ndarray:
    """Return ``[n]`` a number for each name: equal ones for equal names, of this process alone."""
    return np.fromiter(map(hash, names), np.int64)


def caption_columns(samples: Sequence[CaptionRow], ratings: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """Return the columns of rows that are single captions."""
    return {
        "id": [sample.id for sample in samples],
        "image": [sample.image for sample in samples],
        "candidate": [sample.candidate for sample in samples],
        "references": [sample.references for sample in samples],
        "ratings": ratings,
    }


def caption_content(sample: CaptionRow, ratings: Sequence[float] | Mapping[str, Sequence[float]]) -> list[Any]:
    """Return what is known of a caption and held against it, as JSON values."""
    known: list[Any] = [sample.image, sample.candidate, sample.references, ratings]
    if sample.objects is not None:
        known.append(sorted(sample.objects))
    if sample.boxes is not None:
        known.append({"boxes": sample.boxes})
    if isinstance(sample.pixels, VideoHandle) and sample.pixels.span is not None:
        known.append({"span": sample.pixels.span})
    return known
