"""What a protocol works on, what it makes of it before anything is scored, and the numbers that it gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from ...adapters import VideoHandle
from ...metrics import MEAN, Aggregate, Metric, Scores, add_sums
from ...metrics.exact_sums import exact_sums, totals
from ...tasks.locate import DataLocations

if TYPE_CHECKING:
    from ...adapters import Captioned, CaptionRequest
    from ...metrics import Cache, Items
    from ...progress import Progress
    from ...tasks.documents import Documents
    from ...tasks.schema import TaskConfig
    from ..inputs.encoding import AnyEncoded
    from ..inputs.failures import Failure
    from ..inputs.images import ImageFinder
    from ..inputs.items import CaptionRow
    from ..inputs.models import Models
    from ..inputs.settings import RunSettings
    from ..statistics.bootstrap import Value
    from ..statistics.contract import Interval
    from ..statistics.influence import Influence, Spread
    from .checks import DataCheck

    Asking = Callable[[Iterable[Sequence[CaptionRequest]]], Iterator[Captioned]]
    """Asks a captioner: requests, some at a time, to what became of each of these, in order."""

    Encoding = Callable[[Iterable[Items]], Iterator[AnyEncoded]]
    """Encodes items, a shard at a time: to the features of each shard, or its scores of pairs, in order."""

CAPTIONS, INTERVALS = "captions", "intervals"
"""Steps of a run whose progress is told."""
SHARD = 10_000
"""Documents of a shard, unless models look at their images: bounds what is in memory at a time."""
SHARD_OF_IMAGES = 2_000


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
        by_id: Whether a metric finds scores by the ids of rows.
    """

    task: TaskConfig
    documents: Documents
    models: Models
    settings: RunSettings
    cache: Cache
    progress: Progress
    pixels: ImageFinder
    shard: int = SHARD
    asking: Asking | None = None
    encoding: Encoding | None = None
    scores_pairs: bool = False
    locations: DataLocations = field(default_factory=DataLocations)
    by_id: bool = False


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

    @property
    def words(self) -> np.ndarray | None:
        """``[rows]`` words of each caption; None where rows are no single captions."""
        captions = self.columns.get("candidate")
        if captions is None:
            return None
        return np.fromiter(map(len, map(str.split, captions)), np.uint32, len(captions))


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
        own, items = self.item_of_sample, len(self.weights)
        return len(own) == items and bool((own == np.arange(items, dtype=np.int32)).all())


def numbers_of(names: Iterable[str]) -> np.ndarray:
    """Return ``[n]`` a number for each name: equal ones for equal names, of this process alone."""
    return np.fromiter(map(hash, names), np.int64)


def caption_columns(samples: Sequence[CaptionRow], ratings: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """Return the columns of rows that are single captions."""
    names = ("id", "image", "candidate", "references")
    return {name: list(map(attrgetter(name), samples)) for name in names} | {"ratings": ratings}


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


CHANCE = "chance"
"""Of what a result would be without the image: the name of a draw among the answers."""


def shown_times(scale: float, ends: tuple[float, float]) -> float:
    """Return what tables show values between two ends times.

    That is the task's scale, but 1 where there is no upper end: a count, or a ratio of errors, is no percentage.
    """
    return scale if math.isfinite(ends[1]) else 1.0


@dataclass(frozen=True)
class ScoredMetric:
    """A metric with its scores of the items, or the reason why it has none.

    Attributes:
        name: How the metric is called.
        metric: The metric.
        aggregation: How its system-level value is made.
        scores: Those of the items; of parts, only what is needed. None where it failed.
        error: Why it did.
        sums: What the system-level value of all items is made of; None where it must see all scores.
        terms: Gives what items add to the sums (``Aggregate.terms``), where there are sums: ``[m, k]`` of some after
            the other.
    """

    name: str
    metric: Metric
    aggregation: str
    scores: Scores | None
    error: str = ""
    sums: Mapping[str, np.ndarray] | None = None
    terms: Callable[[], Iterator[np.ndarray]] | None = None

    @property
    def aggregate(self) -> Aggregate:
        """How the system-level value is made of items."""
        return self.metric if self.aggregation == "corpus" else MEAN

    def value_of_all(self, weights: np.ndarray) -> float | None:
        """Return the system-level value of all items that have a score; None if it is not defined.

        Args:
            weights: ``[n]`` how often each item counts in the run.
        """
        if self.scores is None or self.sums is None:
            return self.system_value(weights)
        value = self.aggregate.value(self.sums)
        return value if math.isfinite(value) else None

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
        value = self.aggregate.corpus(self.scores, weights)
        return value if math.isfinite(value) else None

    def value_of_weights(self, members: np.ndarray) -> Value:
        """Return what gives the system-level value for any weights of the items; it holds what that is made of.

        Args:
            members: ``[n]`` whether an item counts.
        """
        if self.terms is None:
            return lambda weights: self._defined(self.system_value(weights * members))
        from ..statistics.bootstrap import OfSums

        terms = np.concatenate(list(self.terms()))
        return OfSums(self._pool, terms if members.all() else terms * members[:, None])

    def influence(self, members: np.ndarray) -> Influence | None:
        """Return what each item adds to the system-level value, of a few items at a time; None if it has no sums.

        Args:
            members: ``[n]`` whether an item counts.
        """
        if self.terms is None:
            return None
        from ..statistics.influence import influence_of_sums

        # Exact, and so the same however the items are cut.
        sums = add_sums([{"": exact_sums(piece, np.ones(len(piece)))} for piece in self._terms_of(members)])
        return influence_of_sums(self._pool, totals(sums[""]), self._terms_of(members))

    def _terms_of(self, members: np.ndarray) -> Iterator[np.ndarray]:
        first = 0
        for piece in self.terms() if self.terms else ():
            yield piece * members[first : first + len(piece), None]
            first += len(piece)

    def _pool(self, totals: np.ndarray) -> float:
        return self._defined(self.aggregate.pool(totals))

    def _defined(self, value: float | None) -> float:
        if value is None or not math.isfinite(value):
            from ..statistics.contract import UndefinedStatistic

            raise UndefinedStatistic(self.aggregate.undefined)
        return value


@dataclass(frozen=True)
class Result:
    """One number of a run.

    Attributes:
        metric: Name of the metric.
        statistic: Name of the statistic; ``mean`` or ``corpus`` for system-level values.
        label: Both as papers print them.
        value: The number; None if undefined, with the reason.
        n: Rows behind it.
        higher_is_better: Whether more is better; None where that says nothing (``Metric.has_direction``).
        scale: Tables show the value times this.
        interval: Confidence interval; None if none was asked for.
        reason: Why there is no value.
        category: The part of the data set that it is of; empty for all of it.
        alone: What the number would be without a look at the image, by rule.
        p: Of an exact test that the statistic has; None where it has none.
        remark: What is to be said beside the number.
        resampled: How the number scatters over images, where it can be held against that of other metrics.
    """

    metric: str
    statistic: str
    label: tuple[str, str]
    value: float | None
    n: int
    higher_is_better: bool | None
    scale: float = 1.0
    interval: Interval | None = None
    reason: str = ""
    category: str = ""
    alone: Mapping[str, float] = field(default_factory=dict[str, float])
    p: float | None = None
    remark: str = ""
    resampled: Spread | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> str:
        """Its name in records: ``metric`` for system values, else ``metric.statistic``, and ``.category`` if any."""
        if self.statistic in ("mean", "corpus") and not self.category:
            return self.metric
        return ".".join(filter(None, (self.metric, self.statistic, self.category)))

    @property
    def best_alone(self) -> tuple[str, float] | None:
        """The rule, of those that look at texts and not just draw, that gets most without the image, and how much."""
        rules = [(rule, value) for rule, value in self.alone.items() if rule != CHANCE]
        return max(rules, key=lambda one: one[1], default=None)


def estimated_result(
    job: Job,
    metric: str,
    statistic: str,
    label: tuple[str, str],
    value: Value,
    images: np.ndarray,
    influence: Callable[[], np.ndarray] | None,
    *,
    n: int,
    higher_is_better: bool = True,
    reason: str = "",
    category: str = "",
) -> Result:
    """Return a number of rows with its interval over images; without a value, but with the reason, if undefined.

    Args:
        job: The run.
        metric: As of :class:`Result`; ``statistic``, ``label``, ``n``, ``higher_is_better`` and ``category``, too.
        statistic: See there.
        label: See there.
        value: Gives the number for weights of the rows; may raise ``UndefinedStatistic``.
        images: ``[rows]`` integers: the image of each.
        influence: Gives the ``[rows]`` influence of each row on the number; None where it is not known.
        n: See there.
        higher_is_better: See there.
        reason: Why there is no number, where that is known.
        category: See there.
    """
    from ..statistics.contract import UndefinedStatistic
    from ..statistics.influence import spreads_of_values

    number, interval, settings = None, None, job.settings
    try:
        if not reason:
            number = float(value(np.ones(len(images))))
            if settings.resamples:
                spread = spreads_of_values({"": (value, influence)}, images, settings.draws())[""]
                interval = spread.interval(settings.level)
    except UndefinedStatistic as error:
        reason = str(error)
    return Result(metric, statistic, label, number, n, higher_is_better, job.task.scale, interval, reason, category)


def expected_result(metric: ScoredMetric, statistic: str, higher_is_better: bool, category: str = "") -> Result:
    """Return a result of which no more is known than what it will be of."""
    label = (metric.name, statistic)
    return Result(metric.name, statistic, label, None, 0, higher_is_better, category=category)
