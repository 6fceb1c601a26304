"""The contract of a protocol, and of its settings."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

import numpy as np
from pydantic import BaseModel, ConfigDict

from ...metrics import Items
from ...rows import load_yaml
from ..inputs.failures import FailureLog
from ..inputs.items import EmptyCaption
from ..statistics import Draws
from ..statistics.contract import Statistic, Statistics
from ..statistics.influence import Spread
from ..statistics.rated_rows import Ratings
from ..statistics.significance import Ranking
from .job import Collected, Job, Result, RowScores, ScoredMetrics, Shard, Shards, Summary

Subject = Literal["metric", "model"]
"""The subject of numbers."""

TEXTS: Any = load_yaml(Path(__file__).parent / "texts.yaml")
"""What is said of the protocols that ship, by name."""


class ProtocolSettings(BaseModel):
    """The keys of a task file's section ``protocol``; a protocol that has any declares them in a subclass.

    Every key has a default, and every value is part of a run's fingerprint.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    meanings: ClassVar[Mapping[str, str | Mapping[str, str]]] = {}
    """The description of a setting, or of each of its values, that ``bench show`` prints."""

    def idle(self) -> Set[str]:
        """Return the settings without effect, given the others."""
        return set()

    def shown(self, name: str) -> str:
        """Return the value of a setting for ``bench show``; empty to omit it."""
        value: Any = getattr(self, name)
        if isinstance(value, tuple):
            return ", ".join(map(str, cast("tuple[Any, ...]", value)))
        return "" if value is None else str(value)

    def meaning(self, name: str) -> str:
        """Return the description of a setting's value; empty where the name suffices."""
        known = self.meanings.get(name, "")
        return known if isinstance(known, str) else known.get(getattr(self, name), "")


class EmptyCaptionSettings(ProtocolSettings):
    """The setting of protocols that score single captions."""

    empty_caption: EmptyCaption = "zero"
    """An empty or invalid caption: it is scored as an empty one, as in released code, and keeps its references; or both
    are excluded, which favours a captioner that is silent on hard images."""


IMAGE_KEYS = ("doc_to_id", "doc_to_image", "doc_to_pixels", "doc_to_target", "image_folder", "video_folder")
"""The keys of protocols for images or videos with texts."""


@dataclass(frozen=True)
class ComparedRows:
    """Samples of one run or several, in the same order.

    Attributes:
        images: ``[n]`` the image of each: its name or number.
        scores: Name of a metric, or captioner, to its ``[n]`` values; not finite where it has none.
        ratings: The ratings of the ``n`` samples; None for protocols without.
        systems: ``[n]`` the system of each: its name or number; empty where unknown.
        categories: ``[n]`` the category of each, likewise; empty where there are none.
        by: The number of the protocol that is compared; empty for a statistic of the task.
        lower_is_better: The metrics for which lower is better.
    """

    images: Sequence[str] | np.ndarray
    scores: Mapping[str, np.ndarray]
    ratings: Ratings = field(default_factory=lambda: Ratings.of(()))
    systems: Sequence[str] | np.ndarray = ()
    categories: Sequence[str] | np.ndarray = ()
    by: str = ""
    lower_is_better: Set[str] = frozenset()

    @property
    def usable(self) -> np.ndarray:
        """``[n]`` whether a row has a value of every metric."""
        return np.logical_and.reduce([np.isfinite(values) for values in self.scores.values()])

    @property
    def left_out(self) -> tuple[int, int]:
        """The number of rows without a value of some metric, and the total."""
        return int(np.count_nonzero(~self.usable)), len(self.usable)


@dataclass(frozen=True)
class PairedEstimates:
    """The values that are compared.

    Attributes:
        estimates: Name to its value over the common rows, and on every resample.
        n: Number of common rows.
        groups: Number of their images (or documents), which the bootstrap draws.
        higher_is_better: Whether the greatest value is best, where the metric does not define it.
        classical: Returns the uncorrected p-value of classical tests of two names; None where none applies.
        supposes_independence: A classical test that does not apply, as it needs rows of distinct images; or empty.
        left_out: Number of samples without a value of some metric, and the total.
        is_share: Whether they are shares of rows, whose intervals are Wilson's.
    """

    estimates: Mapping[str, Spread]
    n: int
    groups: int
    higher_is_better: bool = True
    classical: Callable[[str, str], dict[str, float | None]] | None = None
    supposes_independence: str = ""
    left_out: tuple[int, int] = (0, 0)
    is_share: bool = False


SettingsT = TypeVar("SettingsT", bound=ProtocolSettings)


class Protocol(ABC, Generic[SettingsT]):
    """Turns documents into items, and scores into results.

    A protocol is one class in one file, registered under a name. Its attributes describe it to the rest of capbench;
    no other code depends on its name.

    Args:
        settings: The settings of the task.
    """

    Settings: ClassVar[type[ProtocolSettings]] = ProtocolSettings
    """The schema of the section ``protocol`` of a task file."""
    reads: ClassVar[tuple[str, ...]] = ()
    """The keys of a task file that it reads, in addition to those of every task: ``doc_to_*`` of any name, and
    ``image_folder``, ``video_folder``, ``video_frames``, ``generation_kwargs``, ``metric_list``, ``statistics``. Other
    keys among these are errors; ``bench show`` keeps the order."""
    needs: ClassVar[Set[str]] = frozenset()
    """The keys that every task must have."""
    needs_one: ClassVar[Sequence[str]] = ()
    """Keys of which a task must have exactly one."""
    lists: ClassVar[Set[str]] = frozenset({"doc_to_target"})
    """The ``doc_to_*`` keys that may be a list of templates."""
    mappings: ClassVar[Set[str]] = frozenset()
    """The ``doc_to_*`` keys that may be a mapping of names to templates."""
    about: ClassVar[str] = ""
    """A note that ``bench show`` prints before the settings."""

    subject: ClassVar[Subject] = "metric"
    """The subject of its results: metrics, compared with human judgement by statistics; or a model, by the values of
    metrics or by the protocol's own measures."""
    needs_captioner: ClassVar[bool] = False
    """Whether the model of the run writes the captions."""
    needs_encoder: ClassVar[bool] = False
    """Whether the protocol itself uses a model that encodes images and texts."""
    statistic: ClassVar[str] = ""
    """The statistic of its results and comparisons; empty where the task lists ``statistics``."""
    category_key: ClassVar[str] = ""
    """The ``doc_to_*`` key of categories, by which results are given; empty where there is none."""
    resampled: ClassVar[str] = "images"
    """The unit of the cluster bootstrap."""
    lower_is_better: ClassVar[Set[str]] = frozenset()
    """Columns of samples, beside metrics, of which less is better."""

    terms: ClassVar[Mapping[str, str]] = {}
    """The meaning of its labels, for the legend of a table."""
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """The least and the greatest value of its own measures, where these are not 0 and 1."""
    counted: ClassVar[str] = "captions"
    """The unit of ``n``."""
    steps: ClassVar[Sequence[str]] = ()
    """Its progress steps, in addition to captions and metrics."""
    sample: ClassVar[str] = "caption"
    """The content of a sample row: ``caption`` if metrics score rows one by one; histograms count these."""
    by_rule: ClassVar[bool] = False
    """Whether its results are of rules that change captions: tables have a row per rule, a column per metric."""
    rated: ClassVar[bool] = False
    """Whether every sample has human ratings."""
    comparable: ClassVar[bool] = False
    """Whether runs can be compared (:meth:`compare`): metrics on the same data, or models over the common documents of
    their runs, by ``subject``."""
    lm_eval: ClassVar[bool] = False
    """Whether lm-eval can run its tasks: captions are in the data, or its model writes them."""

    def __init__(self, settings: SettingsT) -> None:
        self.settings = settings

    @property
    def takes_metrics(self) -> bool:
        """Whether metrics score its captions; otherwise it measures a model, and tasks list no metrics."""
        return "metric_list" in self.reads

    @property
    def document_keys(self) -> tuple[str, ...]:
        """The ``doc_to_*`` keys that it reads."""
        return tuple(key for key in self.reads if key.startswith("doc_to_"))

    @property
    def compared_by(self) -> Sequence[str]:
        """The numbers by which its runs may be compared; the first is the default.

        None where the task lists ``statistics``.
        """
        return [self.statistic] if self.statistic else []

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of its own measures, in place of metrics."""
        return ()

    def score_column(self, metric: str) -> str:
        """Return the column of ``samples.parquet`` with the values of a metric, or of a measure."""
        return metric

    def needed(self, keys: Set[str]) -> Set[str]:
        """Return the required keys, given the keys of a task."""
        return self.needs

    def unread(self, keys: Set[str]) -> Set[str]:
        """Return the keys of a task that have no effect with its other keys and settings."""
        return frozenset()

    def fingerprint(self) -> dict[str, Any]:
        """Return every setting that affects a number, defaults included, as JSON values."""
        return self.settings.model_dump(mode="json")

    def read(self, job: Job, failures: FailureLog) -> Summary:
        """Read the documents without a model; return the number of usable ones, the data checks and the categories.

        A protocol that calls a model in :meth:`collect` overrides it.

        Raises:
            DataError: The data is not what the task expects.
        """
        return drain(self.collect(job, failures))

    @abstractmethod
    def collect(self, job: Job, failures: FailureLog) -> Shards:
        """Yield the captions to score, ``job.shard`` at a time, and return the summary of all.

        A shard must not be needed for the next one, apart from small state of the protocol.

        Raises:
            DataError: The data is not what the task expects, or nothing can be scored.
        """

    @abstractmethod
    def results(self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics) -> list[Result]:
        """Return the results of the run; those of a metric without scores have its error in place of a value."""

    def ranking(
        self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics, results: Sequence[Result]
    ) -> dict[str, Ranking]:
        """Return which metrics differ, by statistic, as ``bench compare`` finds them.

        Only metrics with a value are ranked, over the rows that all of them scored. Protocols without comparisons
        within a run, and statistics with fewer than two metrics, return none.
        """
        return {}

    def compare(self, rows: ComparedRows, statistic: Statistic | None, draws: Draws) -> PairedEstimates:
        """Return the values by which finished runs are compared, for ``comparable`` protocols.

        Args:
            rows: Their samples.
            statistic: The statistic of the task; None where the protocol has its own.
            draws: The resamples.

        Raises:
            UndefinedStatistic: There is no value to compare.
        """
        raise NotImplementedError(f"{type(self).__name__} does not compare runs")

    def row_details(self, collected: Collected, scored: ScoredMetrics) -> dict[str, np.ndarray]:
        """Return the additional columns ``scores.METRIC`` of each row.

        Returns:
            Metric to ``[n]`` objects: lists of numbers, None where a row has none.
        """
        return {}

    def row_influence(self, collected: Collected, scored: ScoredMetrics) -> dict[str, np.ndarray]:
        """Return the additional columns ``influence.METRIC`` of each row, from which runs are compared.

        Returns:
            Metric with a corpus value to the ``[n]`` influence of each row on it.
        """
        return {}

    def row_scores(self, collected: Collected, scored: ScoredMetrics) -> RowScores:
        """Return the score of each row by each metric, and why rows have none."""
        values: dict[str, np.ndarray] = {}
        # Metrics score items, which several samples may share.
        reasons: dict[int, list[str]] = {}
        for metric in scored:
            if metric.scores is None:
                values[metric.name] = np.full(len(collected.item_of_sample), np.nan)
                continue
            values[metric.name] = collected.of_samples(metric.scores.values)
            for item, reason in metric.scores.failures.items():
                reasons.setdefault(item, []).append(f"metric {metric.name}: {reason}")
        if not reasons:
            return values, {}
        faulty = np.flatnonzero(np.isin(collected.item_of_sample, list(reasons)))
        of_item = collected.item_of_sample[faulty].tolist()
        return values, {row: "; ".join(reasons[item]) for row, item in zip(faulty.tolist(), of_item, strict=True)}


def drain(shards: Shards) -> Summary:
    """Return the summary after the last shard."""
    while True:
        try:
            next(shards)
        except StopIteration as end:
            return end.value


def unscored_shard(
    columns: Mapping[str, Sequence[Any]], numbers: Mapping[str, np.ndarray], content: Sequence[Any] = ()
) -> Shard:
    """Return a shard for a protocol that measures without metrics; arguments as of ``Shard``."""
    nothing = Items(ids=[], candidates=[], references=[], weights=np.zeros(0))
    return Shard(nothing, np.zeros(0, dtype=np.int64), columns, numbers, content)
