"""``agreement``: a metric scores given captions; its scores are held against human ratings."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from ...errors import DataError
from ..inputs.empty_captions import scored_caption
from ..inputs.failures import FailureLog
from ..inputs.items import (
    CaptionRow,
    SeenValues,
    gathered,
    image_key,
    item_key,
    objects_fault,
    references_fault,
    references_of,
)
from ..inputs.pixels import boxes_of, pixels_value, span_of, view_fault
from ..inputs.ratings import arrange, ratings_of
from ..statistics.contract import RatedScores, Statistic, UndefinedStatistic, finite_value
from ..statistics.influence import Spread, by_influence, spreads_of_all
from ..statistics.paired import Estimate, paired_bootstrap
from ..statistics.rated_rows import Ratings, rated_rows
from ..statistics.significance import Ranking, rank
from .checks import DataCheck, Levels, run_checks
from .comparisons import ComparedRows, Draws, PairedEstimates, compare_agreement
from .contract import EmptyCaptionSettings, Protocol, drain
from .document_reader import DocumentReader
from .job import Collected, Job, Shard, Summary, caption_columns, caption_content, numbers_of
from .rated_references import RatedReference, ReferenceMatch, apply_reference_rule
from .results import Result, ScoredMetric


class AgreementSettings(EmptyCaptionSettings):
    """The choices of an agreement task that move a number."""

    raters: Literal["flatten", "mean", "per_rater_mean"] = "flatten"
    """Several ratings of one caption: a row each; their mean; or one statistic per rater, then the mean."""
    rated_reference: RatedReference = "keep"
    """A rated caption that is itself a reference of its image: kept; the pair is dropped; that reference is
    dropped for every candidate of the image; or dropped so once a rating, so that of two equal references
    one stays (the released reader of Flickr8k-CF)."""
    reference_match: ReferenceMatch = "exact"
    """When a caption is a reference: same text, or same lower-cased letters and digits."""
    first_references: int | None = Field(default=None, ge=1)
    """Only the first so many references of a caption are used."""
    human_range: tuple[float, float] | None = None
    """Least and greatest rating; ratings are mapped from it to 0-1. None keeps them as they are."""
    round_scores: int | None = Field(default=None, ge=0)
    """Scores are rounded to so many decimals before they are held against ratings, which makes ties."""

    meanings: ClassVar[Mapping[str, str | Mapping[str, str]]] = {
        **EmptyCaptionSettings.meanings,
        "raters": {
            "flatten": "each rating of a caption is a row of its own",
            "mean": "the ratings of a caption are averaged before correlating",
            "per_rater_mean": "one correlation per rater, then their mean",
        },
        "rated_reference": {
            "keep": "a rated caption that is also a reference stays both",
            "drop_pair": "a rated caption that is one of its image's references is left out",
            "drop_for_image": "a rated caption is nobody's reference for its image",
            "drop_cumulative": "a rated caption is nobody's reference for its image; of two equal references one stays",
        },
        "reference_match": {
            "exact": "a caption is a reference if the texts are equal",
            "letters_and_digits": "a caption is a reference if lower-cased letters and digits are equal",
        },
    }

    @field_validator("human_range")
    @classmethod
    def _ascending(cls, human_range: tuple[float, float] | None) -> tuple[float, float] | None:
        if human_range is not None and not human_range[0] < human_range[1]:
            raise ValueError("the least rating stands first, the greatest second")
        return human_range

    def shown(self, name: str) -> str:
        """Return the value of a setting; of the range, what becomes of it."""
        if name == "human_range" and self.human_range is not None:
            return "ratings of {:g} to {:g} become 0 to 1".format(*self.human_range)
        return super().shown(name)


class Agreement(Protocol[AgreementSettings]):
    """Correlation of scores with ratings, over all ratings of all images.

    ``doc_to_candidate`` gives a caption, ``doc_to_human`` its rating or a list of ratings.
    """

    Settings = AgreementSettings
    reads = (
        "doc_to_id", "doc_to_image", "doc_to_pixels", "doc_to_target", "image_folder", "video_folder", "doc_to_span",
        "doc_to_boxes", "doc_to_objects", "doc_to_candidate", "doc_to_human", "metric_list", "statistics",
    )  # fmt: skip
    needs = frozenset({"doc_to_candidate", "doc_to_human", "metric_list", "statistics"})
    rated = True
    comparable = True
    lm_eval = True

    def read(self, job: Job, failures: FailureLog) -> tuple[int, list[DataCheck]]:
        """Return how many captions can be scored, and the data checks."""
        summary = drain(self.collect(job, failures))
        return summary.effective, list(summary.data_checks)

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Read rated captions and apply the task's rule for captions that are references themselves."""
        found = _Found(job)
        for rated in self._shards(job, failures, found):
            found.add(rated)
            yield _shard(rated)
        if not found.said:
            first = (*failures.entries[:3], *failures.empty[:3])[:3]
            raise DataError(
                f"task '{job.task.task}': no rated caption can be scored",
                "; ".join(f"{f.sample}: {f.subject} {f.reason}" for f in first),
            )
        return Summary(found.samples, found.ruled_out, data_checks=found.checks())

    def _shards(self, job: Job, failures: FailureLog, found: _Found) -> Iterator[list[Rated]]:
        """Yield rated captions, a shard's at a time."""
        rated = self.rated_captions(job, failures)
        if self.settings.rated_reference != "keep":
            # Whether a caption is a reference of its image, any other one may say: all are looked at first.
            every = list(rated)
            samples = [sample for sample, _ in every]
            ruled = apply_reference_rule(
                self.settings.rated_reference, self.settings.reference_match, samples, failures
            )
            found.ruled_out = ruled.count(None) if self.settings.rated_reference == "drop_pair" else 0
            pairs = zip(ruled, every, strict=True)
            rated = iter([(sample, ratings) for sample, (_, ratings) in pairs if sample is not None])
        while shard := list(islice(rated, job.shard)):
            yield shard

    def rated_captions(self, job: Job, failures: FailureLog) -> Iterator[Rated]:
        """Yield the captions that can be scored, with the ratings of each."""
        for identity, values in DocumentReader(job, self.document_keys).read(failures):
            target = references_of(values["doc_to_target"])
            rated = ratings_of(values["doc_to_human"], self.settings.human_range)
            candidate, rule = values["doc_to_candidate"], self.settings.empty_caption
            if "doc_to_target" in job.task.templates and (fault := references_fault(target)):
                failures.add(identity, "reference", fault)
            elif "doc_to_objects" in job.task.templates and (
                fault := objects_fault(values["doc_to_objects"])
            ):
                failures.add(identity, "objects", fault)
            elif isinstance(rated, str):
                failures.add(identity, "rating", rated)
            elif fault := view_fault(job.task, values):
                failures.add(identity, "image", fault)
            elif (candidate := scored_caption(candidate, identity, "candidate", rule, failures)) is not None:
                image = identity if values["doc_to_image"] is None else image_key(values["doc_to_image"])
                rated = arrange(rated, self.settings.raters)
                weight = sum(not math.isnan(rating) for rating in rated)
                objects = values["doc_to_objects"]
                sample = CaptionRow(
                    identity,
                    image,
                    candidate,
                    tuple(target)[: self.settings.first_references],
                    weight,
                    objects=None if objects is None else frozenset(objects),
                    pixels=job.pixels(pixels_value(values), span_of(values["doc_to_span"])),
                    boxes=boxes_of(values["doc_to_boxes"]),
                )
                yield sample, rated

    def results(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
    ) -> list[Result]:
        """Return every statistic of every metric, with intervals over images."""
        settings = job.settings
        found: list[_Agreement] = []
        spread: dict[str, dict[str, Spread]] = {}
        waiting: dict[str, tuple[dict[str, Statistic], list[RatedScores]]] = {}
        for metric in scored:
            one, rated = self._of_metric(collected, metric, statistics)
            found.append(one)
            defined = {name: statistics[name] for name, value in one.values.items() if value is not None}
            if not defined or not settings.resamples:
                continue
            waiting[metric.name] = (defined, rated)
            # Influences are made in one pass for each: its rows are not in memory with those of the others.
            if by_influence(settings.intervals, max(map(len, rated))):
                spread |= self._spreads(job, waiting)
                waiting = {}
        spread |= self._spreads(job, waiting)
        return [
            result
            for one in found
            for result in one.results(job, statistics, spread.get(one.scored.name, {}))
        ]

    def _of_metric(
        self, collected: Collected, scored: ScoredMetric, statistics: Mapping[str, Statistic]
    ) -> tuple[_Agreement, list[RatedScores]]:
        """Return the statistics of a metric, and the rows that they are of."""
        one = _Agreement(scored, 0, dict.fromkeys(statistics), dict.fromkeys(statistics, scored.error))
        if scored.scores is None:
            return one, []
        rated = self._rated(collected, collected.of_samples(scored.scores.values))
        for name, statistic in statistics.items():
            try:
                of_raters = [finite_value(statistic.value, rows, np.ones(len(rows))) for rows in rated]
                one.values[name] = float(np.mean(of_raters))
            except UndefinedStatistic as error:
                one.reasons[name] = str(error)
        return replace(one, n=sum(map(len, rated))), rated

    def _spreads(
        self, job: Job, waiting: Mapping[str, tuple[Mapping[str, Statistic], Sequence[RatedScores]]]
    ) -> dict[str, dict[str, Spread]]:
        settings = job.settings
        return spreads_of_all(
            waiting,
            intervals=settings.intervals,
            resamples=settings.resamples,
            seed=settings.seed,
            progress=job.progress("intervals"),
        )

    def ranking(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
        results: Sequence[Result],
    ) -> dict[str, Ranking]:
        """Return which metrics differ; the resamples are those of the intervals where all scored the same rows."""
        found: dict[str, Ranking] = {}
        for name, statistic in statistics.items():
            of_metric = {one.metric: one for one in results if one.statistic == name}
            scores = {
                one.name: collected.of_samples(one.scores.values)
                for one in scored
                if one.scores is not None and of_metric[one.name].resampled is not None
            }
            estimates = self._estimates(job, collected, statistic, scores, of_metric)
            if len(estimates) > 1:
                found[name] = rank(estimates, higher_is_better=statistic.higher_is_better)
        return found

    def _estimates(
        self,
        job: Job,
        collected: Collected,
        statistic: Statistic,
        scores: Mapping[str, np.ndarray],
        results: Mapping[str, Result],
    ) -> dict[str, Estimate]:
        """Return the statistic of each metric on the rows that all of them scored, and on its resamples."""
        if len(scores) < 2:
            return {}
        usable = np.logical_and.reduce([np.isfinite(values) for values in scores.values()])
        estimates: dict[str, Estimate] = {}
        for name, values in scores.items():
            value, resampled = results[name].value, results[name].resampled
            if value is not None and resampled is not None and np.array_equal(np.isfinite(values), usable):
                estimates[name] = Estimate(value, resampled)
                continue
            rated = self._rated(collected, np.where(usable, values, np.nan))
            settings = job.settings
            try:
                estimates |= paired_bootstrap(
                    statistic,
                    {name: rated},
                    intervals=settings.intervals,
                    resamples=settings.resamples,
                    seed=settings.seed,
                )
            except UndefinedStatistic:
                # Fewer metrics have more rows in common.
                others = {other: one for other, one in scores.items() if other != name}
                return self._estimates(job, collected, statistic, others, results)
        return estimates

    def _rated(self, collected: Collected, scores: np.ndarray) -> list[RatedScores]:
        numbers = collected.numbers
        ratings = Ratings(numbers["rating"], numbers["ratings"])
        return rated_rows(numbers["image"], ratings, scores, self.settings.raters, self.settings.round_scores)

    def compare(self, rows: ComparedRows, statistic: Statistic | None, draws: Draws) -> PairedEstimates:
        """Return the statistic of each metric on the rows that all of them scored."""
        assert statistic is not None  # noqa: S101 - a task of this protocol lists statistics
        return compare_agreement(
            rows, statistic, draws, raters=self.settings.raters, decimals=self.settings.round_scores
        )


@dataclass(frozen=True)
class _Agreement:
    """The statistics of a metric: their values, or the reasons why they have none, on ``n`` rows."""

    scored: ScoredMetric
    n: int
    values: dict[str, float | None]
    reasons: dict[str, str]

    def results(
        self, job: Job, statistics: Mapping[str, Statistic], spread: Mapping[str, Spread]
    ) -> list[Result]:
        intervals = {name: one.interval(job.settings.level) for name, one in spread.items()}
        return [
            Result(
                self.scored.name,
                name,
                (self.scored.metric.label, statistic.label),
                self.values[name],
                self.n,
                statistic.higher_is_better,
                job.task.scale,
                intervals.get(name),
                self.reasons[name] if self.values[name] is None else "",
                resampled=spread.get(name),
            )
            for name, statistic in statistics.items()
        ]


Rated = tuple[CaptionRow, list[float]]
"""A caption with its ratings."""


class _Found:
    """Counts what shards hold.

    Attributes:
        samples: How many captions there are.
        said: Whether one of them says something.
        ruled_out: How many the task's rule leaves out.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.samples, self.said, self.ruled_out = 0, False, 0
        self._items, self._images = SeenValues(), SeenValues()
        self._levels = Levels()

    def add(self, rated: Sequence[Rated]) -> None:
        """Count the captions of a shard."""
        samples = [sample for sample, _ in rated]
        self.samples += len(samples)
        self.said = self.said or any(sample.candidate for sample in samples)
        if self._job.task.checks.items is not None:
            self._items.add(map(item_key, samples))
        if self._job.task.checks.images is not None:
            self._images.add(sample.image for sample in samples)
        self._levels.add(Ratings.of([ratings for _, ratings in rated]).values)

    def checks(self) -> list[DataCheck]:
        """Hold the counts against what the task expects."""
        return run_checks(
            self._job,
            self._levels,
            documents=len(self._job.documents.rows),
            rows=self._levels.n,
            items=len(self._items),
            images=len(self._images),
        )


def _shard(rated: Sequence[Rated]) -> Shard:
    samples, of_sample = [sample for sample, _ in rated], [ratings for _, ratings in rated]
    items, item_of_sample, numbers = gathered(samples)
    ratings = Ratings.of(of_sample)
    given = [[None if rating != rating else rating for rating in one] for one in of_sample]
    return Shard(
        items,
        item_of_sample,
        caption_columns(samples, given),
        {
            "image": numbers_of(sample.image for sample in samples),
            "rating": ratings.values,
            "ratings": ratings.counts,
        },
        [caption_content(sample, one) for sample, one in rated],
        numbers,
    )
