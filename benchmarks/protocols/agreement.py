"""``agreement``: a metric scores given captions; its scores are compared with human ratings."""

from __future__ import annotations

import math
import numbers
import reprlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from ...errors import DataError
from ...rows import parse_number
from ...tasks.schema import TaskConfig
from ..inputs.failures import FailureLog
from ..inputs.items import CaptionRow, caption_columns, gather, numbers_of, scored_caption
from ..inputs.recorded import RecordedCheck
from ..statistics import Draws
from ..statistics.bootstrap import by_influence, finite_value
from ..statistics.classical import williams_test
from ..statistics.contract import RatedScores, Statistic, Statistics, UndefinedStatistic
from ..statistics.correlation import Pearson
from ..statistics.influence import Spread, spreads_of_all
from ..statistics.paired import paired_bootstrap
from ..statistics.rated_rows import Ratings, first_seen, rated_rows
from ..statistics.significance import Ranking, rank
from .checks import Tally, no_rows
from .contract import IMAGE_KEYS, TEXTS, ComparedRows, EmptyCaptionSettings, PairedEstimates, Protocol
from .document_reader import Document, UnusableDocument, is_list, read_each
from .job import INTERVALS, Collected, Job, Result, ScoredMetrics, Shard, Summary, shown_times

RatedReference = Literal["keep", "drop_pair", "drop_for_image", "drop_cumulative"]
ReferenceMatch = Literal["exact", "letters_and_digits"]

_GREATEST = 1e100
"""Limit of ratings, below which their squares and products are finite."""


class AgreementSettings(EmptyCaptionSettings):
    """The settings of an agreement task that affect its numbers."""

    raters: Literal["flatten", "mean", "per_rater_mean"] = "flatten"
    """Several ratings of one caption: one row per rating; their mean; or one statistic per rater, then the mean."""
    rated_reference: RatedReference = "keep"
    """A rated caption that is itself a reference of its image: kept; the pair is dropped; that reference is
    dropped for every candidate of the image; or dropped so once a rating, so that of two equal references
    one stays (the released reader of Flickr8k-CF)."""
    reference_match: ReferenceMatch = "exact"
    """When a caption is a reference: same text, or same lower-cased letters and digits."""
    first_references: int | None = Field(default=None, ge=1)
    """The number of references of a caption that are used, from the first."""
    human_range: tuple[float, float] | None = None
    """Least and greatest rating; ratings are mapped from it to 0-1. None keeps them as they are."""
    round_scores: int | None = Field(default=None, ge=0)
    """Decimals to which scores are rounded before the comparison with ratings; rounding makes ties."""
    aggregate: Literal["all", "categories"] = "all"
    """The overall value next to the categories: that of all rows, or the unweighted mean of categories."""

    meanings: ClassVar = TEXTS["agreement"]["meanings"]

    @field_validator("human_range")
    @classmethod
    def _ascending(cls, human_range: tuple[float, float] | None) -> tuple[float, float] | None:
        if human_range is not None and not human_range[0] < human_range[1]:
            raise ValueError("expected the lowest rating, then the highest")
        return human_range


RATED_ROWS: Mapping[str, Any] = {
    "output_type": "agreement",
    "doc_to_candidate": "caption",
    "doc_to_system": "system",
    "protocol": {"raters": "mean"},
    "statistics": ["kendall_b", "kendall_c", "pearson"],
}
"""Keys of a task whose rows, of rated captions, capbench writes."""


class Agreement(Protocol[AgreementSettings]):
    """Correlation of scores with ratings, over all ratings of all images.

    ``doc_to_candidate`` gives a caption, ``doc_to_human`` its rating or a list of ratings; or, as a mapping, those of
    several aspects by name, each with separate statistics (``kendall_c.precision``). With ``doc_to_category``
    statistics are also given by category; statistics of systems need ``doc_to_system``.
    """

    Settings = AgreementSettings
    reads = (
        *IMAGE_KEYS, "doc_to_span", "doc_to_boxes", "doc_to_objects", "doc_to_candidate", "doc_to_human",
        "doc_to_system", "doc_to_category", "metric_list", "statistics",
    )  # fmt: skip
    needs = frozenset({"doc_to_candidate", "doc_to_human", "metric_list", "statistics"})
    mappings = frozenset({"doc_to_human"})
    category_key = "doc_to_category"
    rated = True
    steps = (INTERVALS,)
    counted = "rated captions, or their ratings where each rating is one row"
    comparable = True
    lm_eval = True

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Read rated captions and apply the task's rule for captions that are references themselves."""
        rule, tally = self.settings.rated_reference, RatedTally(job)
        rated, ruled_out = self.rated_captions(job, failures), 0
        if rule != "keep":
            # A caption may be a reference of its image in any other row: all rows are read first.
            every = list(rated)
            ruled = apply_reference_rule(
                rule, self.settings.reference_match, [caption.sample for caption in every], failures
            )
            ruled_out = ruled.count(None) if rule == "drop_pair" else 0
            rated = (
                replace(caption, sample=sample)
                for sample, caption in zip(ruled, every, strict=True)
                if sample is not None
            )
        while shard := list(islice(rated, job.shard)):
            tally.add_captions(shard)
            yield shard_of(shard, tally)
        if not tally.said:
            raise no_rows(job, "no rated caption can be scored", failures)
        return Summary(tally.rows, ruled_out, data_checks=tally.checks_of_all(), categories=list(tally.categories))

    def rated_captions(self, job: Job, failures: FailureLog) -> Iterator[RatedCaption]:
        """Return the captions that can be scored, with the ratings of each."""
        read = partial(rated_caption, settings=self.settings, failures=failures)
        return read_each(job, self.document_keys, read, failures)

    def results(self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics) -> list[Result]:
        """Return every statistic by metric, aspect and category, with bootstrap intervals over images."""
        draws, task = job.settings.draws(job.progress(INTERVALS)), job.task
        results: list[Result] = []
        spread: dict[str, dict[str, Spread]] = {}
        waiting: dict[str, tuple[dict[str, Statistic], list[RatedScores]]] = {}
        measured_by: dict[int, Statistic] = {}
        for entry, aspect in product(scored, task.aspects or [""]):
            rated = []
            if entry.scores is not None:
                rated = self._rated(_rows_of(collected, aspect, {}), collected.of_samples(entry.scores.values))
            of_aspect = {name: statistic for name, statistic in statistics.items() if aspect_of(name, task) == aspect}
            # Statistics that have a value, by the index of their result.
            defined: dict[str, Statistic] = {}
            for name, category, statistic in self._measured(of_aspect, collected.summary.categories):
                value, n, p, remark, reason = measured(statistic, rated, entry.error)
                if value is not None:
                    defined[str(len(results))] = measured_by[len(results)] = statistic
                label = entry.metric.label, " ".join(filter(None, (statistic.label, aspect, category)))
                better, scale = statistic.higher_is_better, shown_times(task.scale, statistic.range)
                results.append(
                    Result(entry.name, name, label, value, n, better, scale, None, reason, category, p=p, remark=remark)
                )
            if not defined or not draws.resamples:
                continue
            # Names of aspects have no dot.
            waiting[f"{aspect}.{entry.name}"] = (defined, rated)
            # One pass per statistic: only its rows are in memory.
            if by_influence(draws.intervals, max(map(len, rated))):
                spread |= spreads_of_all(waiting, draws)
                waiting = {}
        spread |= spreads_of_all(waiting, draws)
        for place, resamples in (item for of_metric in spread.values() for item in of_metric.items()):
            statistic = measured_by[int(place)]
            interval = resamples.interval(job.settings.level, is_share=statistic.is_share)
            result = replace(results[int(place)], resampled=resamples)
            results[int(place)] = result.with_interval(interval, statistic.caution)
        return results

    def _measured(self, statistics: Statistics, categories: Sequence[str]) -> Iterator[tuple[str, str, Statistic]]:
        """Yield name, category and the function of the value: for each category, and overall (without a name)."""
        for name, statistic in statistics.items():
            for number, category in enumerate(categories if len(categories) > 1 else ()):
                yield name, category, OfCategories(statistic, [number])
            yield name, "", self._of_all(statistic, len(categories))

    def _of_all(self, statistic: Statistic, categories: int) -> Statistic:
        if self.settings.aggregate == "all" or categories < 2:
            return statistic
        return OfCategories(statistic, range(categories))

    def ranking(
        self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics, results: Sequence[Result]
    ) -> dict[str, Ranking]:
        """Return which metrics differ; where all scored the same rows, the resamples are those of the intervals."""
        rankings: dict[str, Ranking] = {}
        for name, statistic in statistics.items():
            of_metric = {
                result.metric: result for result in results if result.statistic == name and not result.category
            }
            scores = {
                metric.name: collected.of_samples(metric.scores.values)
                for metric in scored
                if metric.scores is not None and of_metric[metric.name].resampled is not None
            }
            rows = _rows_of(collected, aspect_of(name, job.task), scores)
            of_all = self._of_all(statistic, len(collected.summary.categories))
            estimates = self._estimates(job, rows, of_all, of_metric)
            if len(estimates) > 1:
                rankings[name] = rank(estimates, higher_is_better=statistic.higher_is_better)
        return rankings

    def _estimates(
        self, job: Job, rows: ComparedRows, statistic: Statistic, results: Mapping[str, Result]
    ) -> dict[str, Spread]:
        """Return the statistic of each metric on the rows that all of them scored, and on its resamples."""
        if len(rows.scores) < 2:
            return {}
        usable, estimates = rows.usable, dict[str, Spread]()
        for name, values in rows.scores.items():
            resampled = results[name].resampled
            if resampled is not None and np.array_equal(np.isfinite(values), usable):
                estimates[name] = resampled
                continue
            rated = self._rated(rows, np.where(usable, values, np.nan))
            try:
                estimates |= paired_bootstrap(statistic, {name: rated}, job.settings.draws())
            except UndefinedStatistic:
                # With fewer metrics there are more common rows.
                others = {other: score for other, score in rows.scores.items() if other != name}
                return self._estimates(job, replace(rows, scores=others), statistic, results)
        return estimates

    def _rated(self, rows: ComparedRows, scores: np.ndarray) -> list[RatedScores]:
        systems = rows.systems if len(rows.systems) else None
        categories = first_seen(rows.categories) if len(rows.categories) else None
        raters, decimals = self.settings.raters, self.settings.round_scores
        return rated_rows(rows.images, rows.ratings, scores, raters, decimals, systems, categories)

    def compare(self, rows: ComparedRows, statistic: Statistic | None, draws: Draws) -> PairedEstimates:
        """Return the statistic of each metric on the rows that all scored; with Williams' test where it is Pearson's r.

        Raises:
            UndefinedStatistic: The statistic has no value for a metric; the message names it.
        """
        assert statistic is not None  # noqa: S101 - a task of this protocol lists statistics
        statistic = self._of_all(statistic, len(set(rows.categories)))
        usable, rows = rows.usable, replace(rows, images=first_seen(rows.images))
        rated = {name: self._rated(rows, np.where(usable, values, np.nan)) for name, values in rows.scores.items()}
        first = next(iter(rated.values()))
        n, groups = sum(map(len, first)), len(np.unique(np.concatenate([part.groups for part in first])))
        estimates = paired_bootstrap(statistic, rated, draws)
        paired = PairedEstimates(
            estimates, n, groups, statistic.higher_is_better, left_out=rows.left_out, is_share=statistic.is_share
        )
        if type(statistic) is not Pearson or len(first) > 1:
            return paired

        def williams(metric: str, other: str) -> dict[str, float | None]:
            (mine,), (theirs,) = rated[metric], rated[other]
            try:
                between = Pearson()(mine.scores, theirs.scores, mine.groups)
                _, p = williams_test(estimates[metric].value, estimates[other].value, between, len(mine))
            except UndefinedStatistic:
                return {"Williams": None}
            return {"Williams": p}

        return replace(paired, classical=williams, supposes_independence="Williams' test" if n > groups else "")


def _rows_of(collected: Collected, aspect: str, scores: Mapping[str, np.ndarray]) -> ComparedRows:
    """Return the samples of a run, with their ratings of an aspect."""
    numbers = collected.numbers
    images, systems, categories = (numbers.get(name, np.zeros(0)) for name in ("image", "system", "category"))
    ratings = Ratings(numbers[f"rating.{aspect}" if aspect else "rating"], numbers[rating_column(aspect)])
    return ComparedRows(images, scores, ratings, systems, categories)


def measured(
    statistic: Statistic, rated: Sequence[RatedScores], error: str
) -> tuple[float | None, int, float | None, str, str]:
    """Return a statistic of rows, or its mean over raters where each rater has separate rows.

    Args:
        statistic: The statistic.
        rated: The rows, one item per rater; empty where the metric has no scores.
        error: Why the metric has none.

    Returns:
        The value, its number of rows, the p-value of its exact test and its remark; and the reason if undefined.
    """
    n = sum(statistic.rows(part) if isinstance(statistic, OfCategories) else len(part) for part in rated)
    if not rated:
        return None, n, None, "", error
    try:
        value = float(np.mean([finite_value(statistic.value, part, np.ones(len(part))) for part in rated]))
    except UndefinedStatistic as undefined:
        return None, n, None, "", str(undefined)
    if len(rated) > 1:
        return value, n, None, "", ""
    return value, n, statistic.p_value(rated[0]), statistic.remark(rated[0]), ""


_NO_ROW = "a category has no row with scores"


class OfCategories(Statistic):
    """The unweighted mean over categories of a statistic of the category's own rows.

    The bootstrap resamples images of all categories together.

    Args:
        statistic: The statistic.
        categories: The numbers of the averaged categories.
    """

    def __init__(self, statistic: Statistic, categories: Sequence[int]) -> None:
        self.statistic, self.categories = statistic, tuple(categories)
        for name in ("label", "higher_is_better", "range", "is_correlation", "is_share", "caution", "needs"):
            setattr(self, name, getattr(statistic, name))

    def value(self, rated: RatedScores, weights: np.ndarray) -> float:
        """Return the mean over the categories.

        Raises:
            UndefinedStatistic: The statistic is undefined in a category, or a category has no row.
        """
        values: list[float] = []
        for rows, part in self._parts(rated):
            of_part = weights[rows]
            if not of_part.any():
                raise UndefinedStatistic(_NO_ROW)
            of_part.flags.writeable = False
            values.append(self.statistic.value(part, of_part))
        return float(np.mean(values))

    def influence(self, rated: RatedScores) -> np.ndarray | None:
        """Return the influence of each row on the mean: that on its category, divided by their number."""
        of_rows = np.zeros(len(rated))
        for rows, part in self._parts(rated):
            of_part = self.statistic.influence(part)
            if of_part is None:
                return None
            of_rows[rows] = of_part / len(self.categories)
        return of_rows

    def p_value(self, rated: RatedScores) -> float | None:
        """Return that of a single category."""
        parts = self._parts(rated)
        return self.statistic.p_value(parts[0][1]) if len(parts) == 1 else None

    def remark(self, rated: RatedScores) -> str:
        """Return that of a single category."""
        parts = self._parts(rated)
        return self.statistic.remark(parts[0][1]) if len(parts) == 1 else ""

    def rows(self, rated: RatedScores) -> int:
        """Return how many rows its categories have."""
        return sum(len(rated.by_category[category][1]) for category in self.categories if category in rated.by_category)

    def _parts(self, rated: RatedScores) -> list[tuple[np.ndarray, RatedScores]]:
        """Return the mask and the rows of each category."""
        if any(category not in rated.by_category for category in self.categories):
            raise UndefinedStatistic(_NO_ROW)
        return [rated.by_category[category] for category in self.categories]


@dataclass(frozen=True)
class RatedCaption:
    """A caption with its ratings.

    Attributes:
        sample: The caption.
        ratings: Aspect to its ratings; one empty name where the task has no aspects. The list of an unrated aspect is
            empty.
        system: Its system; empty where the task does not name it.
        category: Its category; empty where there are none.
    """

    sample: CaptionRow
    ratings: Mapping[str, list[float]]
    system: str = ""
    category: str = ""


def rated_caption(document: Document, settings: AgreementSettings, failures: FailureLog) -> Iterator[RatedCaption]:
    """Yield the caption of a document with its ratings, if it can be scored."""
    # The first fault in this order is reported.
    references, objects = document.references, document.objects
    ratings = _ratings(document, settings)
    document.check_view()
    system, category = document.name("system"), document.category
    candidate = scored_caption(document["doc_to_candidate"], document.id, "candidate", settings.empty_caption, failures)
    if candidate is None:
        return
    sample = CaptionRow(
        document.id,
        document.image,
        candidate,
        references[: settings.first_references],
        objects,
        document.pixels,
        document.boxes,
        weight=max([len(values) - sum(map(math.isnan, values)) for values in ratings.values()]),
    )
    yield RatedCaption(sample, ratings, system, category)


def _ratings(document: Document, settings: AgreementSettings) -> dict[str, list[float]]:
    """Return the ratings by aspect, empty for an aspect that a caption lacks."""
    human, aspects = document["doc_to_human"], document.job.task.aspects
    arranged: dict[str, list[float]] = {}
    for aspect in aspects or [""]:
        of_aspect = ratings_of(human[aspect] if aspects else human, settings.human_range)
        if not isinstance(of_aspect, str):
            arranged[aspect] = arrange(of_aspect, settings.raters)
        elif aspects and of_aspect == "is missing":
            arranged[aspect] = []
        else:
            raise UnusableDocument("rating", f"{aspect} {of_aspect}".strip())
    if not any(arranged.values()):
        raise UnusableDocument("rating", "is missing")
    return arranged


def ratings_of(human: Any, human_range: tuple[float, float] | None) -> list[float] | str:
    """Return the ratings of a caption as numbers, NaN of raters who skipped it, or why they cannot be used.

    Args:
        human: A rating, or one per rater.
        human_range: Least and greatest rating, which are mapped to 0 and 1. None keeps ratings unchanged.
    """
    listed = human if is_list(human) else [human]
    try:
        ratings = [math.nan if _skipped(rating) else parse_number(rating) for rating in listed]
    except (TypeError, ValueError):
        return f"is not a number: {reprlib.repr(human)}"
    except OverflowError:
        return f"is not finite: {reprlib.repr(human)}"
    if all(map(math.isnan, ratings)):
        return "is missing"
    if any(abs(rating) >= _GREATEST for rating in ratings):
        return f"is not between -{_GREATEST:g} and {_GREATEST:g}: {reprlib.repr(human)}"
    if human_range is None:
        return ratings
    low, high = human_range
    if outside := [rating for rating in ratings if rating < low or rating > high]:
        return f"lies outside {low:g}-{high:g}: {outside[0]:g}"
    return [(rating - low) / (high - low) for rating in ratings]


def _skipped(rating: Any) -> bool:
    """Return whether a rater skipped the caption: NaN in released files, null in JSON."""
    if type(rating) is int:
        return False
    named = isinstance(rating, str) and rating.strip().lower() == "nan"
    return rating is None or named or (isinstance(rating, (float, numbers.Real)) and rating != rating)


def arrange(rated: list[float], raters: str) -> list[float]:
    """Return the ratings that become rows, with NaN only where a rater's position must be kept.

    Args:
        rated: The ratings of a caption.
        raters: The task's ``protocol.raters``.
    """
    if raters == "per_rater_mean":
        return rated
    known = [rating for rating in rated if not math.isnan(rating)]
    return [float(np.mean(known))] if raters == "mean" and len(known) > 1 else known


class RatedTally(Tally):
    """Counts rated captions.

    Attributes:
        said: Whether one of them is not empty.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.said = False
        self._captions_of: Counter[str] = Counter()
        self._levels = {aspect: Counter[float]() for aspect in job.task.aspects or [""]}

    def add_captions(self, rated: Sequence[RatedCaption]) -> None:
        """Count the captions of a shard."""
        samples = [caption.sample for caption in rated]
        first = [next(iter(caption.ratings.values())) for caption in rated]
        self.add(
            [caption.category for caption in rated],
            samples,
            [sum(not math.isnan(rating) for rating in ratings) for ratings in first],
        )
        self.said = self.said or any(sample.candidate for sample in samples)
        self._captions_of.update(caption.system for caption in rated)
        for aspect, levels in self._levels.items():
            known = (rating for caption in rated for rating in caption.ratings[aspect] if not math.isnan(rating))
            levels.update(known)

    def checks_of_all(self) -> list[RecordedCheck]:
        """Compare the counts with what the task expects.

        Raises:
            DataError: A check failed; an aspect has no rating, or a system a single caption.
        """
        job = self.job
        for aspect, levels in self._levels.items():
            if not levels and job.settings.limit is None:
                raise DataError(
                    f"task '{job.task.task}': {job.documents.origin}: no caption has a rating of aspect '{aspect}'",
                    f"Check the column in doc_to_human: {job.task.templates['doc_to_human']}.",
                )
        alone = [system for system, captions in self._captions_of.items() if captions == 1]
        if "doc_to_system" in job.task.templates and alone and job.settings.limit is None:
            raise DataError(
                f"task '{job.task.task}': {job.documents.origin}: {len(alone)} of {len(self._captions_of)} systems "
                f"have only one caption: {', '.join(repr(name) for name in alone[:3])}",
                "Check the column in doc_to_system: a system has several captions.",
            )
        return self.checks(next(iter(self._levels.values())))


def aspect_of(statistic: str, task: TaskConfig) -> str:
    """Return the aspect of a statistic (``kendall_c.precision``); empty for a task without aspects."""
    return statistic.rpartition(".")[2] if task.aspects else ""


def rating_column(aspect: str) -> str:
    """Return the name of the samples' column with the ratings of an aspect."""
    return f"ratings.{aspect}" if aspect else "ratings"


def shard_of(rated: Sequence[RatedCaption], tally: RatedTally) -> Shard:
    """Return a shard of rated captions, with the columns that the task names."""
    samples = [caption.sample for caption in rated]
    items, item_of_sample, numbers = gather(samples, tally.job.by_id)
    columns = caption_columns(samples)
    arrays = {"image": numbers_of(sample.image for sample in samples)}
    for aspect in rated[0].ratings:
        ratings = Ratings.of([caption.ratings[aspect] for caption in rated])
        arrays[f"rating.{aspect}" if aspect else "rating"] = ratings.values
        arrays[rating_column(aspect)] = ratings.counts
        columns[rating_column(aspect)] = [
            [None if rating != rating else rating for rating in caption.ratings[aspect]] for caption in rated
        ]
    said: list[dict[str, str]] = [{} for _ in rated]
    for key, names in (("system", [row.system for row in rated]), ("category", [row.category for row in rated])):
        if f"doc_to_{key}" in tally.job.task.templates:
            columns[key] = names
            arrays[key] = numbers_of(names) if key == "system" else np.array([tally.categories[name] for name in names])
            for labels, name in zip(said, names, strict=True):
                labels[key] = name
    content = [
        caption.sample.content(caption.ratings.get("", caption.ratings)) + ([labels] if labels else [])
        for caption, labels in zip(rated, said, strict=True)
    ]
    return Shard(items, item_of_sample, columns, arrays, content, numbers)


def apply_reference_rule(
    rule: RatedReference, match: ReferenceMatch, samples: list[CaptionRow], failures: FailureLog
) -> list[CaptionRow | None]:
    """Apply a task's ``rated_reference`` rule; an empty caption is not a reference.

    Args:
        rule: The rule, other than ``keep``.
        match: When a caption counts as a reference.
        samples: Rated captions, in the data set's order.
        failures: Receives the samples that are left without a reference.

    Returns:
        Each sample with its remaining references, or None where the rule excludes it.
    """
    form = _letters_and_digits if match == "letters_and_digits" else str
    if rule == "drop_pair":
        return [None if s.candidate and form(s.candidate) in map(form, s.references) else s for s in samples]
    rated: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        if sample.candidate:
            rated[sample.image][form(sample.candidate)] += 1
    kept: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
    result: list[CaptionRow | None] = []
    for sample in samples:
        key = (sample.image, sample.references)
        if key not in kept:
            left, remaining = Counter(rated[sample.image]), list[str]()
            for reference in sample.references:
                if left[form(reference)] == 0:
                    remaining.append(reference)
                elif rule == "drop_cumulative":
                    left[form(reference)] -= 1
            kept[key] = tuple(remaining)
        if not kept[key]:
            failures.add(sample.id, "reference", "none is left once the rated captions are removed")
        result.append(sample._replace(references=kept[key]) if kept[key] else None)
    return result


def _letters_and_digits(text: str) -> str:
    # Marks are part of a letter: vowels of Hindi, accents written apart.
    return "".join(character for character in text.lower() if unicodedata.category(character)[0] in "LMN")
