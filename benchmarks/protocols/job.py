"""What a protocol works on, and what it makes of it before anything is scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...adapters import VideoHandle
from ...metrics import Cache, Items
from ...progress import Progress
from ...tasks.documents import Documents
from ...tasks.schema import TaskConfig
from ..inputs.failures import Failure
from ..inputs.items import CaptionRow
from ..inputs.models import Models
from ..inputs.pixels import PixelFinder
from ..inputs.settings import RunSettings
from .checks import DataCheck


@dataclass(frozen=True)
class Job:
    """One task and one model, ready to run.

    Attributes:
        task: The task.
        documents: Its documents.
        models: The models, loaded.
        settings: What the user set.
        cache: Where captions are kept.
        progress: Gives a reporter of (done, total) for a step of that name.
        pixels: Finds the images and videos that documents name.
    """

    task: TaskConfig
    documents: Documents
    models: Models
    settings: RunSettings
    cache: Cache
    progress: Progress
    pixels: PixelFinder


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
class Collected:
    """What a protocol made of documents and model.

    Attributes:
        samples: Captions that will be scored, in document order.
        items: The unique ones.
        item_of_sample: ``[samples]`` index into the items.
        ratings: Ratings of each sample; empty where the protocol has none.
        ruled_out: Captions that the task's rule for rated references leaves out.
        generation: What is known of the captions that a model wrote: how many, how long, how many cut.
        data_checks: Each check of the task with expected and found value.
        cut: What the protocol itself had encoded: name of a result to how many texts it was made of, and how
            many of them were cut to the encoder's context.
        remarks: What was done to read images, before anything was scored, that is not as usual.
        documents_hash: Hash of the documents that a model was asked to caption, whatever it wrote; empty where
            captions are given.
        subset: The part of them that was captioned; None where all were asked for.
    """

    samples: list[CaptionRow]
    items: Items
    item_of_sample: np.ndarray
    ratings: list[list[float]] = field(default_factory=list[list[float]])
    data_checks: list[DataCheck] = field(default_factory=list[DataCheck])
    ruled_out: int = 0
    generation: dict[str, Any] = field(default_factory=dict[str, Any])
    cut: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    remarks: Sequence[Failure] = ()
    documents_hash: str = ""
    subset: Subset | None = None

    @property
    def effective(self) -> int:
        """How many documents of the task are scored."""
        return len(self.samples)

    @property
    def categories(self) -> list[str]:
        """The parts of the data by which results are given; one without a name where there are none."""
        return [""]

    def content(self) -> Iterator[list[Any]]:
        """Yield what was scored, in order, as JSON values: two runs with the same have the same data."""
        for number, sample in enumerate(self.samples):
            ratings = self.ratings[number] if self.ratings else []
            known: list[Any] = [sample.image, sample.candidate, sample.references, ratings]
            if sample.objects is not None:
                known.append(sorted(sample.objects))
            if sample.boxes is not None:
                known.append({"boxes": sample.boxes})
            if isinstance(sample.pixels, VideoHandle) and sample.pixels.span is not None:
                known.append({"span": sample.pixels.span})
            yield known
