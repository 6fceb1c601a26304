"""The contract of a protocol, and what passes through it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from ...errors import DataError
from ...metrics import Cache, Items, Metric, Scores
from ...tasks.documents import Documents
from ...tasks.schema import TaskConfig
from ...tasks.templates import DocumentError, Getter, compile_template
from ..failures import Failure, Stage
from ..items import CaptionRow, printable
from ..models import Models
from ..pixels import PixelFinder
from ..settings import RunSettings
from ..statistics.bootstrap import Interval, Resampled
from ..statistics.contract import Statistic
from ..statistics.significance import Ranking


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
    progress: Callable[[str], Callable[[int, int], None]]
    pixels: PixelFinder


@dataclass
class FailureLog:
    """Collects failures; in strict mode the first one ends the run."""

    strict: bool
    entries: list[Failure] = field(default_factory=list)

    def add(self, sample: str, stage: Stage, reason: str) -> None:
        """Record a failure.

        Raises:
            DataError: In strict mode.
        """
        self.entries.append(Failure(sample, stage, reason))
        if self.strict:
            raise DataError(
                f"{sample}: {stage} {reason}", "Without --strict such samples are counted and left out."
            )


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
        documents_hash: Hash of the documents that a model was asked to caption, whatever it wrote; empty where
            captions are given.
    """

    samples: list[CaptionRow]
    items: Items
    item_of_sample: np.ndarray
    ratings: list[list[float]] = field(default_factory=list)
    data_checks: list[dict[str, Any]] = field(default_factory=list)
    ruled_out: int = 0
    generation: dict[str, Any] = field(default_factory=dict)
    cut: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    documents_hash: str = ""

    @property
    def effective(self) -> int:
        """How many documents of the task are scored."""
        return len(self.samples)

    def content(self) -> Iterator[list[Any]]:
        """Yield what was scored, in order, as JSON values: two runs with the same have the same data."""
        for number, sample in enumerate(self.samples):
            ratings = self.ratings[number] if self.ratings else []
            known: list[Any] = [sample.image, sample.candidate, sample.references, ratings]
            if sample.objects is not None:
                known.append(sorted(sample.objects))
            yield known


@dataclass(frozen=True)
class ScoredMetric:
    """A metric with its scores of the items, or the reason why it has none."""

    name: str
    metric: Metric
    aggregation: str
    scores: Scores | None
    error: str = ""

    def system_value(self, weights: np.ndarray) -> float | None:
        """Return the system-level value of the items that have a score; None if none has, or it is not finite.

        Args:
            weights: ``[n]`` how often each item counts.
        """
        if self.scores is None:
            return None
        usable = np.isfinite(self.scores.values)
        weights = np.where(usable, weights, 0.0)
        if not weights.any():
            return None
        # The mean is what every metric's corpus value is, unless it defines one of its own.
        corpus = self.metric.corpus if self.aggregation == "corpus" else partial(Metric.corpus, self.metric)
        value = corpus(self.scores, weights)
        return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Result:
    """One number of a run.

    Attributes:
        metric: Name of the metric.
        statistic: Name of the statistic; ``mean`` or ``corpus`` for system-level values.
        label: Both as papers print them.
        value: The number; None if undefined, with the reason.
        n: Rows behind it.
        higher_is_better: Whether more is better.
        scale: Tables show the value times this.
        interval: Confidence interval; None if none was asked for.
        reason: Why there is no value.
        category: The part of the data set that it is of; empty for all of it.
        resampled: The number on each resample, where it can be held against that of other metrics.
    """

    metric: str
    statistic: str
    label: tuple[str, str]
    value: float | None
    n: int
    higher_is_better: bool
    scale: float = 1.0
    interval: Interval | None = None
    reason: str = ""
    category: str = ""
    resampled: Resampled | None = field(default=None, compare=False, repr=False)


class Protocol(ABC):
    """Turns documents into items, and scores into results."""

    needs_captioner: ClassVar[bool] = False
    """Whether the model of the run writes the captions."""
    needs_encoder: ClassVar[bool] = False
    """Whether the protocol itself uses a model that encodes images and texts."""
    takes_metrics: ClassVar[bool] = True
    """Whether its results are of metrics; without, they are of the model, and tasks list none."""

    @abstractmethod
    def read(self, job: Job, failures: FailureLog) -> tuple[int, list[dict[str, Any]]]:
        """Read the documents without a model; return how many are usable, and the data checks.

        Raises:
            DataError: The data is not what the task expects.
        """

    @abstractmethod
    def collect(self, job: Job, failures: FailureLog) -> Collected:
        """Return the captions to score.

        Raises:
            DataError: The data is not what the task expects, or nothing can be scored.
        """

    @abstractmethod
    def results(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
    ) -> list[Result]:
        """Return the numbers of the run."""

    def ranking(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
        results: Sequence[Result],
    ) -> dict[str, Ranking]:
        """Return which metrics differ, by statistic, as ``bench compare`` finds them.

        Only metrics that have a value are ranked, and only the rows that all of them scored count. Protocols
        whose results are not compared within a run, and statistics with fewer than two metrics, have none.
        """
        return {}

    def sample_columns(self, collected: Collected, scored: Sequence[ScoredMetric]) -> dict[str, list[Any]]:
        """Return what is written of each sample, by column: identity, texts, and a value a metric.

        ``failure`` is why a metric could not score it, or None.
        """
        # What a metric could not score is an item, which several samples may share.
        reasons: dict[int, list[str]] = {}
        for one in scored:
            for item, reason in one.scores.failures.items() if one.scores else ():
                reasons.setdefault(item, []).append(f"metric {one.name}: {reason}")
        item_of_sample = collected.item_of_sample.tolist()
        columns: dict[str, list[Any]] = {
            "id": [sample.id for sample in collected.samples],
            "image": [sample.image for sample in collected.samples],
            "candidate": [sample.candidate for sample in collected.samples],
            "references": [list(sample.references) for sample in collected.samples],
            "ratings": list(map(_given, collected.ratings)) or [None] * len(collected.samples),
        }
        for one in scored:
            values = None if one.scores is None else one.scores.values.tolist()
            columns[one.name] = [values[item] if values else None for item in item_of_sample]
        columns["failure"] = ["; ".join(reasons[i]) if i in reasons else None for i in item_of_sample]
        return columns


def _given(ratings: Sequence[float]) -> list[float | None]:
    return [None if math.isnan(rating) else rating for rating in ratings]


class DocumentReader:
    """Reads documents through the ``doc_to_*`` keys of a task.

    Args:
        job: The job.
        keys: The keys that the protocol reads; those that the task leaves out give None.
    """

    def __init__(self, job: Job, keys: Sequence[str]) -> None:
        self._job = job
        columns = job.documents.columns
        self._getters: dict[str, Getter] = {
            key: compile_template(job.task, key, columns)
            for key in keys
            # A copy without the images does for metrics that look at none.
            if (template := getattr(job.task, key)) is not None
            and not (key == "doc_to_pixels" and isinstance(template, str) and template not in columns)
        }
        self._keys = keys

    def __len__(self) -> int:
        total = len(self._job.documents.rows)
        return total if self._job.settings.limit is None else min(total, self._job.settings.limit)

    def read(self, failures: FailureLog) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield id and values of each usable document; rows without an id are named by their number.

        Failures of reading, documents that lack a column and ids that occur twice are recorded.
        """
        for bad in self._job.documents.bad_rows:
            failures.add(bad.place, "data", bad.reason)
        seen: set[str] = set()
        for number, document in enumerate(islice(self._job.documents.rows, len(self))):
            try:
                values = {key: get(document) for key, get in self._getters.items()}
            except DocumentError as error:
                failures.add(f"document {number}", "data", printable(str(error)))
                continue
            named = values.get("doc_to_id")
            identity = str(number) if named is None else printable(str(named))
            if identity in seen:
                failures.add(identity, "data", "has an id that occurred before; the first one was kept")
                continue
            seen.add(identity)
            yield identity, {key: values.get(key) for key in self._keys}
