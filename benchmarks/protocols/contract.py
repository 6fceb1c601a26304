"""The contract of a protocol, and of its choices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from ...metrics import Items
from ..inputs.failures import FailureLog
from ..inputs.items import MEANINGS, EmptyCaption
from ..statistics import Draws
from ..statistics.contract import Statistic
from ..statistics.paired import SpreadEstimate
from ..statistics.rated_rows import Ratings
from ..statistics.significance import Ranking
from .checks import DataCheck
from .job import Collected, Job, Result, ScoredMetric, Shard, Summary, expected_result

Subject = Literal["metric", "model"]
"""What numbers are of."""


class ProtocolSettings(BaseModel):
    """The keys of a task file's section ``protocol``; a protocol that has any declares them in a subclass.

    Every key has a default, and every value is part of a run's fingerprint.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    meanings: ClassVar[Mapping[str, str | Mapping[str, str]]] = {}
    """What ``bench show`` says of a setting, or of each of its choices, by name."""

    @classmethod
    def recorded(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings that a record holds; keys of other protocols, which older ones have, say nothing."""
        return cls.model_validate({key: value for key, value in values.items() if key in cls.model_fields})

    def idle(self) -> Set[str]:
        """Return the settings that change nothing, given the others."""
        return set()

    def shown(self, name: str) -> str:
        """Return the value of a setting as ``bench show`` prints it; empty where there is nothing to say."""
        value = getattr(self, name)
        return "" if value is None else str(value)

    def meaning(self, name: str) -> str:
        """Return what a setting does as it stands; empty where its name says it."""
        known = self.meanings.get(name, "")
        return known if isinstance(known, str) else known.get(getattr(self, name), "")


class EmptyCaptionSettings(ProtocolSettings):
    """The choice of protocols that score single captions."""

    empty_caption: EmptyCaption = "zero"
    """A caption that says nothing, or is none: it counts as an empty one, as released code counts it, and keeps its
    references; or both are left out, which favours who is silent where it is bad."""

    meanings: ClassVar[Mapping[str, str | Mapping[str, str]]] = {"empty_caption": MEANINGS}


@dataclass(frozen=True)
class ComparedRows:
    """Samples of one run or several, in one order.

    Attributes:
        images: ``[n]`` the image of each: its name, or a number that stands for it.
        scores: Name of a metric, or captioner, to its ``[n]`` values; not finite where it has none.
        ratings: Those of the ``n``; none for protocols without.
        systems: ``[n]`` what wrote each; empty where the data does not say.
        categories: ``[n]`` the part of the data that each is of; empty where there are none.
        by: Which of the protocol's own numbers they are compared by; empty where it is a statistic of the task.
        lower_is_better: The metrics of which less is better.
    """

    images: Sequence[str] | np.ndarray
    scores: Mapping[str, np.ndarray]
    ratings: Ratings = field(default_factory=lambda: Ratings.of(()))
    systems: Sequence[str] = ()
    categories: Sequence[str] = ()
    by: str = ""
    lower_is_better: Set[str] = frozenset()

    @property
    def usable(self) -> np.ndarray:
        """``[n]`` whether a row has a value of all."""
        return np.logical_and.reduce([np.isfinite(values) for values in self.scores.values()])

    @property
    def left_out(self) -> tuple[int, int]:
        """How many rows lack a value of one of them, and of how many."""
        return int(np.count_nonzero(~self.usable)), len(self.usable)


@dataclass(frozen=True)
class PairedEstimates:
    """What was found.

    Attributes:
        estimates: Name to its value, over the rows that all have, and on every resample.
        n: How many rows these are.
        groups: How many images (or documents) they are of, which are what is drawn.
        higher_is_better: Whether the greatest value is the best, if the metric does not say.
        classical: Gives the p of classical tests of two names, uncorrected; None where none applies.
        supposes_independence: The classical test that would need rows of distinct images, which these are not;
            empty where there is none.
        left_out: How many samples lack a value of one of them, and of how many.
    """

    estimates: Mapping[str, SpreadEstimate]
    n: int
    groups: int
    higher_is_better: bool = True
    classical: Callable[[str, str], dict[str, float | None]] | None = None
    supposes_independence: str = ""
    left_out: tuple[int, int] = (0, 0)


SettingsT = TypeVar("SettingsT", bound=ProtocolSettings)


class Protocol(ABC, Generic[SettingsT]):
    """Turns documents into items, and scores into results.

    A protocol is one class in one file, under the name that the registry gives it. What the rest of capbench
    must know of it, its attributes say; nothing else looks at its name.

    Args:
        settings: The choices of the task.
    """

    Settings: ClassVar[type[ProtocolSettings]] = ProtocolSettings
    """What may stand in the section ``protocol`` of a task file."""
    reads: ClassVar[tuple[str, ...]] = ()
    """The keys of a task file that it reads, besides those that every task has: ``doc_to_*`` of any name, and
    ``image_folder``, ``video_folder``, ``generation_kwargs``, ``metric_list``, ``statistics``. Any other of
    these is an error; ``bench show`` keeps the order."""
    needs: ClassVar[Set[str]] = frozenset()
    """Those without which there is nothing to do, whatever a task says besides."""
    needs_one: ClassVar[Sequence[str]] = ()
    """Of these a task must have exactly one."""
    lists: ClassVar[Set[str]] = frozenset({"doc_to_target"})
    """The ``doc_to_*`` keys of which a task may give a list of templates."""
    mappings: ClassVar[Set[str]] = frozenset()
    """Those of which it may give several by name."""
    about: ClassVar[str] = ""
    """What ``bench show`` says before the settings, where their meanings do not say it all."""

    subject: ClassVar[Subject] = "metric"
    """What its results are of: metrics, held against people's judgement by statistics; or a model, either by
    the metrics' own values or by what the protocol measures itself."""
    needs_captioner: ClassVar[bool] = False
    """Whether the model of the run writes the captions."""
    needs_encoder: ClassVar[bool] = False
    """Whether the protocol itself uses a model that encodes images and texts."""
    statistic: ClassVar[str] = ""
    """What its results, and comparisons of its runs, are of; empty where the task lists ``statistics``."""
    category_key: ClassVar[str] = ""
    """The ``doc_to_*`` key by which results are given in parts; empty where there is none."""
    resampled: ClassVar[str] = "images"
    """What a resample draws with all of its rows."""

    terms: ClassVar[Mapping[str, str]] = {}
    """What its labels stand for, as the legend of a table has it."""
    counted: ClassVar[str] = "captions"
    """What ``n`` counts."""
    steps: ClassVar[Sequence[str]] = ()
    """Steps whose progress it tells, besides captions and metrics."""
    sample: ClassVar[str] = "caption"
    """What a row of the samples is: ``caption`` if metrics score it by itself, which is what histograms count."""
    by_rule: ClassVar[bool] = False
    """Whether its results are of rules that change captions: tables have a row a rule and a column a metric."""
    rated: ClassVar[bool] = False
    """Whether every sample has human ratings."""
    comparable: ClassVar[bool] = False
    """Whether runs can be compared (:meth:`compare`): metrics of the same data, or models over the documents that
    their runs have in common, as ``subject`` says."""
    lm_eval: ClassVar[bool] = False
    """Whether lm-eval can run its tasks: captions come with the data, or are what lm-eval's model writes."""

    def __init__(self, settings: SettingsT) -> None:
        self.settings = settings

    @property
    def takes_metrics(self) -> bool:
        """Whether metrics score its captions; without, it measures a model by itself, and tasks list none."""
        return "metric_list" in self.reads

    @property
    def document_keys(self) -> tuple[str, ...]:
        """The ``doc_to_*`` keys that it reads."""
        return tuple(key for key in self.reads if key.startswith("doc_to_"))

    @property
    def compared_by(self) -> Sequence[str]:
        """Which of its own numbers its runs may be compared by, the first unless another is asked for.

        None where the task lists ``statistics``.
        """
        return [self.statistic] if self.statistic else []

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of what it measures itself, in place of metrics."""
        return ()

    def needed(self, given: Set[str]) -> Set[str]:
        """Return the keys without which there is nothing to do, beside those that a task gives."""
        return self.needs

    def unread(self, given: Set[str]) -> Set[str]:
        """Return the keys, of those that a task gives, that say nothing beside the others and the settings."""
        return frozenset()

    def fingerprint(self) -> dict[str, Any]:
        """Return every choice that moves a number, defaults spelled out, as JSON values."""
        return self.settings.model_dump(mode="json")

    def read(self, job: Job, failures: FailureLog) -> tuple[int, list[DataCheck]]:
        """Read the documents without a model; return how many are usable, and the data checks.

        A protocol that asks a model in :meth:`collect` overrides it.

        Raises:
            DataError: The data is not what the task expects.
        """
        summary = drain(self.collect(job, failures))
        return summary.effective, list(summary.data_checks)

    def categories(self, job: Job, failures: FailureLog) -> Sequence[str]:
        """Return the parts of the data by which results are given; one without a name where there are none."""
        return drain(self.collect(job, failures)).categories

    @abstractmethod
    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Yield the captions to score, ``job.shard`` at a time, and return what is to be said of all.

        What a shard holds must not be needed for the next one, but for what the protocol keeps in small.

        Raises:
            DataError: The data is not what the task expects, or nothing can be scored.
        """

    @abstractmethod
    def results(
        self, job: Job, collected: Collected, scored: Sequence[ScoredMetric], statistics: Mapping[str, Statistic]
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

    def compare(self, rows: ComparedRows, statistic: Statistic | None, draws: Draws) -> PairedEstimates:
        """Return what finished runs are compared by; of protocols that are ``comparable``.

        Args:
            rows: Their samples.
            statistic: Which of the task's statistics; None where the protocol names its own.
            draws: The resamples.

        Raises:
            UndefinedStatistic: There is no value to compare; the message says why.
        """
        raise NotImplementedError(f"{type(self).__name__} compares no runs")

    def row_details(self, collected: Collected, scored: Sequence[ScoredMetric]) -> dict[str, np.ndarray]:
        """Return what is written of each row by metrics besides, in columns ``scores.METRIC``.

        Returns:
            Metric to ``[n]`` objects: lists of numbers, None where a row has none.
        """
        return {}

    def expected(
        self, metrics: Sequence[ScoredMetric], statistics: Mapping[str, Statistic], categories: Sequence[str]
    ) -> list[Result]:
        """Return the results that a run will have, without values.

        Args:
            metrics: The metrics of the run, without scores.
            statistics: Those of the task.
            categories: The values of ``category_key``; one without a name where there is none.
        """
        return [
            expected_result(one, name, statistic.higher_is_better)
            for one in metrics
            for name, statistic in statistics.items()
        ]

    def row_scores(
        self, collected: Collected, scored: Sequence[ScoredMetric]
    ) -> tuple[dict[str, np.ndarray], dict[int, str]]:
        """Return what is written of each row by metrics.

        Returns:
            Metric to ``[n]`` values, NaN where it has none; and row to why metrics could not score it.
        """
        values: dict[str, np.ndarray] = {}
        # What a metric could not score is an item, which several samples may share.
        reasons: dict[int, list[str]] = {}
        for one in scored:
            if one.scores is None:
                values[one.name] = np.full(collected.rows, np.nan)
                continue
            values[one.name] = collected.of_samples(one.scores.values)
            for item, reason in one.scores.failures.items():
                reasons.setdefault(item, []).append(f"metric {one.name}: {reason}")
        if not reasons:
            return values, {}
        faulty = np.flatnonzero(np.isin(collected.item_of_sample, list(reasons)))
        of_item = collected.item_of_sample[faulty].tolist()
        return values, {row: "; ".join(reasons[item]) for row, item in zip(faulty.tolist(), of_item, strict=True)}


def drain(shards: Generator[Shard, None, Summary]) -> Summary:
    """Go through shards for what is said at their end."""
    while True:
        try:
            next(shards)
        except StopIteration as end:
            return end.value


def unscored_shard(
    columns: Mapping[str, Sequence[Any]], numbers: Mapping[str, np.ndarray], content: Sequence[Any] = ()
) -> Shard:
    """Return a shard whose rows no metric scores: the protocol itself measures; the parts are those of ``Shard``."""
    nothing = Items(ids=[], candidates=[], references=[], weights=np.zeros(0))
    return Shard(nothing, np.zeros(0, dtype=np.int64), columns, numbers, content)


def keys_of_judgements(*, references: bool) -> dict[str, str]:
    """Return the keys that tasks of people's judgements share, whose rows the program itself writes."""
    keys = {"doc_to_id": "id", "doc_to_image": "image", "doc_to_pixels": "picture"}
    return {**keys, "doc_to_target": "references"} if references else keys


def metrics_of_judgements(*, references: bool) -> list[str]:
    """Return the metrics of such a task: without references it is the length alone."""
    return ["bleu_4", "rouge_l", "cider", "length"] if references else ["length"]
