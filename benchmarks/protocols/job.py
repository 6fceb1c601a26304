"""The input of a protocol, its output before scoring, and its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

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
    from ..inputs.models import Models
    from ..inputs.recorded import RecordedCheck, RecordedSubset
    from ..inputs.settings import RunSettings
    from ..statistics.bootstrap import Value
    from ..statistics.contract import Interval
    from ..statistics.influence import Influence, Spread, WeightedValue

    Asking = Callable[[Iterable[Sequence[CaptionRequest]]], Iterator[Captioned]]
    """Requests captions: lists of requests to the answers of each, in order."""

    Encoding = Callable[[Iterable[Items]], Iterator[AnyEncoded]]
    """Encodes items, a shard at a time, to features or scores of pairs, in order."""

CAPTIONS, INTERVALS = "captions", "intervals"
"""Steps of a run with progress reports."""
SHARD = 10_000
"""Documents of a shard, unless models look at their images: bounds the memory."""
SHARD_OF_IMAGES = 2_000


@dataclass(frozen=True)
class Job:
    """One task and one model, ready to run.

    Attributes:
        task: The task.
        documents: Its documents.
        models: The loaded models; a role is None where workers load its model.
        settings: The settings of the user.
        cache: The cache of captions.
        progress: Returns a reporter of (done, total) for a step.
        pixels: Finds the images and videos that documents name.
        shard: Number of documents, or of the protocol's units, in a shard.
        asking: Requests captions; None uses the captioner of ``models``.
        encoding: Encodes items that the protocol matches; None uses the encoder of ``models``.
        scores_pairs: Whether the encoder scores pairs of image and text and has no vectors.
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
class Shard:
    """The output of a protocol for some documents: ``n`` rows, of ``m`` samples that metrics score.

    Attributes:
        items: The unique items of the samples, which metrics score.
        item_of_sample: ``[m]`` index into the items.
        columns: The columns of a row without its scores: name to ``n`` numbers, texts or lists. ``image`` identifies
            images; where rows are single captions, ``candidate`` is the caption.
        numbers: The input of results in addition to scores: arrays whose first axis is rows or parts of rows; those
            of all shards are concatenated.
        content: The data as JSON values: runs with equal content have the same data.
        item_numbers: A number per item: items of several shards with the same number are equal. None where no item
            is in two shards.
    """

    items: Items
    item_of_sample: np.ndarray
    columns: Mapping[str, Sequence[Any]]
    numbers: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    content: Sequence[Any] = ()
    item_numbers: np.ndarray | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.columns["id"])

    @property
    def words(self) -> np.ndarray | None:
        """``[rows]`` words of each caption; None where rows are not single captions."""
        captions = self.columns.get("candidate")
        if captions is None:
            return None
        return np.fromiter(map(len, map(str.split, captions)), np.uint32, len(captions))


@dataclass(frozen=True)
class Summary:
    """The summary of a protocol after its last shard.

    Attributes:
        effective: Number of documents of the task that are scored.
        ruled_out: Captions that the task's rule for rated references excludes.
        generation: Number, lengths and truncations of the captions that a model wrote.
        data_checks: Each check of the task with expected and found value.
        cut: Of texts that the protocol encoded: name of a result to the number of texts, the number truncated to the
            encoder's context, and the number of choices with texts that are equal after that.
        remarks: Unusual steps in reading images before scoring.
        documents_hash: Hash of the documents that a model was to caption; empty where captions are given.
        subset: The part of them that was captioned; None for all.
        categories: The categories by which results are given; one empty name where there are none.
        systems: The systems that wrote the captions, where results are of systems.
    """

    effective: int
    ruled_out: int = 0
    generation: Mapping[str, Any] = field(default_factory=dict[str, Any])
    data_checks: Sequence[RecordedCheck] = ()
    cut: Mapping[str, tuple[int, int, int]] = field(default_factory=dict[str, tuple[int, int, int]])
    remarks: Sequence[Failure] = ()
    documents_hash: str = ""
    subset: RecordedSubset | None = None
    categories: Sequence[str] = ("",)
    systems: Sequence[str] = ()


Shards = Generator[Shard, None, Summary]
"""What a protocol, or another source of captions, gives: shards, and last the summary of all."""


@dataclass(frozen=True)
class Collected:
    """All shards of a run, without their texts: ``n`` rows, ``m`` samples, ``k`` items.

    Attributes:
        item_of_sample: ``[m]`` index into the items of all shards, in the order in which they first occur.
        weights: ``[k]`` number of samples of each item (``Items.weights``).
        numbers: Those of all shards.
        summary: The summary of the protocol.
        rows: Number of rows.
    """

    item_of_sample: np.ndarray
    weights: np.ndarray
    numbers: Mapping[str, np.ndarray]
    summary: Summary
    rows: int

    def of_samples(self, of_items: np.ndarray) -> np.ndarray:
        """Return ``[m]`` the value of each sample's item; the same array where each sample is a separate item.

        Args:
            of_items: ``[k]`` values of the items.
        """
        return of_items if self._is_an_item_each else of_items[self.item_of_sample]

    @cached_property
    def _is_an_item_each(self) -> bool:
        own, items = self.item_of_sample, len(self.weights)
        return len(own) == items and bool((own == np.arange(items, dtype=np.int32)).all())


CHANCE = "chance"
"""Name of the image-blind baseline that draws among the answers."""


def shown_times(scale: float, ends: tuple[float, float]) -> float:
    """Return the factor of values with two bounds in tables.

    It is the task's scale, or 1 without an upper bound: a count or a ratio of errors is not a percentage.
    """
    return scale if math.isfinite(ends[1]) else 1.0


@dataclass(frozen=True)
class ScoredMetric:
    """A metric with its scores of the items, or the reason why it has none.

    Attributes:
        name: How the metric is called.
        metric: The metric.
        aggregation: The aggregation of its system-level value.
        scores: Scores of the items; of parts, only those needed. None where it failed.
        error: Why it failed.
        sums: The sums of the system-level value of all items; None where it must see all scores.
        terms: Yields the terms of items in the sums (``Aggregate.terms``), where there are sums: ``[m, k]`` of
            consecutive items.
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
        """The aggregation of items to the system-level value."""
        return self.metric if self.aggregation == "corpus" else MEAN

    def value_of_all(self, weights: np.ndarray) -> float | None:
        """Return the system-level value of all scored items; None if it is undefined.

        Args:
            weights: ``[n]`` weight of each item in the run.
        """
        if self.scores is None or self.sums is None:
            return self.system_value(weights)
        value = self.aggregate.value(self.sums)
        return value if math.isfinite(value) else None

    def system_value(self, weights: np.ndarray) -> float | None:
        """Return the system-level value of the scored items; None if there are none or it is not finite.

        Args:
            weights: ``[n]`` weight of each item.
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
        """Return a function from weights of the items to the system-level value; it holds the terms.

        Args:
            members: ``[n]`` whether an item counts.
        """
        if self.terms is None:
            return lambda weights: self._defined(self.system_value(weights * members))
        from ..statistics.bootstrap import OfSums

        terms = np.concatenate(list(self.terms()))
        return OfSums(self._pool, terms if members.all() else terms * members[:, None])

    def influence(self, members: np.ndarray) -> Influence | None:
        """Return the terms of items in the system-level value, in batches; None if it has no sums.

        Args:
            members: ``[n]`` whether an item counts.
        """
        if self.terms is None:
            return None
        from ..statistics.influence import influence_of_sums

        # Exact sums, so that the value does not depend on the shards.
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


ScoredMetrics = Sequence[ScoredMetric]
RowScores = tuple[dict[str, np.ndarray], dict[int, str]]
"""By metric the ``[n]`` values of rows, NaN where a row has none; by row why metrics could not score it."""


@dataclass(frozen=True)
class Result:
    """One number of a run.

    Attributes:
        metric: Name of the metric.
        statistic: Name of the statistic; ``mean`` or ``corpus`` for system-level values.
        label: Label of both, as in papers.
        value: The number; None if undefined, with the reason.
        n: Number of its rows.
        higher_is_better: Whether higher is better; None for a metric without direction (``Metric.has_direction``).
        scale: The factor of the value in tables.
        interval: Confidence interval; None if none was requested.
        reason: Why there is no value.
        category: The category of the data; empty for all of it.
        alone: The value of image-blind baselines, by rule.
        p: p-value of the statistic's exact test; None where it has none.
        remark: A remark that is shown next to the number.
        resampled: Distribution of the number over resamples of images, where it can be compared with other metrics.
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

    def with_interval(self, interval: Interval | None, caution: str = "") -> Result:
        """Return the result with an interval; why that may not cover what is stated joins the remark.

        Args:
            interval: The interval.
            caution: A caution besides its own.
        """
        if interval is None or interval.reason:
            return replace(self, interval=interval)
        remark = "; ".join(filter(None, [self.remark, interval.caution, caution]))
        return replace(self, interval=interval, remark=remark)

    @property
    def best_alone(self) -> tuple[str, float] | None:
        """The best image-blind baseline other than chance, and its value."""
        rules = [(rule, value) for rule, value in self.alone.items() if rule != CHANCE]
        return max(rules, key=lambda rule: rule[1], default=None)


def estimated_result(
    job: Job,
    result: Result,
    estimate: WeightedValue,
    images: np.ndarray,
    *,
    is_share: bool = True,
    counted: np.ndarray | None = None,
) -> Result:
    """Return a result with its value and interval over images; without, but with the reason, if undefined.

    Args:
        job: The run.
        result: The result without its value; with a reason, where it has none.
        estimate: The number of weighted rows; may raise ``UndefinedStatistic``.
        images: ``[rows]`` integers: the image of each.
        is_share: Whether it is a share of rows, or another mean between 0 and 1, whose interval is Wilson's.
        counted: ``[rows]`` mask of those that it is a share of; all by default.
    """
    from ..statistics.contract import UndefinedStatistic
    from ..statistics.influence import spreads_of_values

    number, interval, settings = None, None, job.settings
    try:
        if not result.reason:
            number = float(estimate[0](np.ones(len(images))))
            if settings.resamples:
                spread = spreads_of_values({"": estimate}, images, settings.draws())[""]
                of = None if counted is None else len(np.unique(images[counted]))
                interval = spread.interval(settings.level, is_share=is_share, of=of)
    except UndefinedStatistic as error:
        result = replace(result, reason=str(error))
    return replace(result, value=number).with_interval(interval)
