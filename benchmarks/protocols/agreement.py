"""``agreement``: a metric scores given captions; its scores are held against human ratings."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import DataError
from ..checks import run_checks
from ..items import CaptionRow, candidate_fault, gather, image_key, objects_fault, references_fault
from ..pixels import boxes_of, pixels_value, span_of, view_fault
from ..statistics.bootstrap import Resampled, resample
from ..statistics.contract import RatedScores, Statistic, UndefinedStatistic
from ..statistics.paired import Estimate, paired_bootstrap
from ..statistics.rated_rows import rated_rows
from ..statistics.significance import Ranking, rank
from .contract import Collected, DocumentReader, FailureLog, Job, Protocol, Result, ScoredMetric
from .rated_references import apply_reference_rule

_KEYS = (
    "doc_to_id", "doc_to_image", "doc_to_pixels", "doc_to_span", "doc_to_boxes", "doc_to_candidate", "doc_to_target",
    "doc_to_objects", "doc_to_human",
)  # fmt: skip


class Agreement(Protocol):
    """Correlation of scores with ratings, over all ratings of all images."""

    def read(self, job: Job, failures: FailureLog) -> tuple[int, list[dict[str, Any]]]:
        """Return how many captions can be scored, and the data checks."""
        collected = self.collect(job, failures)
        return len(collected.samples), collected.data_checks

    def collect(self, job: Job, failures: FailureLog) -> Collected:
        """Read rated captions and apply the task's rule for captions that are references themselves."""
        samples: list[CaptionRow] = []
        ratings: list[list[float]] = []
        for identity, values in DocumentReader(job, _KEYS).read(failures):
            target = values["doc_to_target"]
            target = [] if target is None else [target] if isinstance(target, str) else target
            rated = _ratings(values["doc_to_human"], job.task.protocol.human_range)
            if fault := candidate_fault(values["doc_to_candidate"]):
                failures.add(identity, "candidate", fault)
            elif job.task.doc_to_target is not None and (fault := references_fault(target)):
                failures.add(identity, "reference", fault)
            elif job.task.doc_to_objects is not None and (fault := objects_fault(values["doc_to_objects"])):
                failures.add(identity, "objects", fault)
            elif isinstance(rated, str):
                failures.add(identity, "rating", rated)
            elif fault := view_fault(job.task, values):
                failures.add(identity, "image", fault)
            else:
                image = identity if values["doc_to_image"] is None else image_key(values["doc_to_image"])
                rated = _arrange(rated, job.task.protocol.raters)
                weight = sum(not math.isnan(rating) for rating in rated)
                objects = values["doc_to_objects"]
                samples.append(
                    CaptionRow(
                        identity,
                        image,
                        values["doc_to_candidate"],
                        tuple(target)[: job.task.protocol.first_references],
                        weight,
                        objects=None if objects is None else frozenset(objects),
                        pixels=job.pixels(pixels_value(values), span_of(values["doc_to_span"])),
                        boxes=boxes_of(values["doc_to_boxes"]),
                    )
                )
                ratings.append(rated)
        ruled = apply_reference_rule(job.task.protocol, samples, failures)
        ratings = [rated for rated, sample in zip(ratings, ruled, strict=True) if sample is not None]
        ruled_out = ruled.count(None) if job.task.protocol.rated_reference == "drop_pair" else 0
        samples = [sample for sample in ruled if sample is not None]
        if not samples:
            raise DataError(
                f"task '{job.task.task}': no rated caption can be scored",
                "; ".join(f"{f.sample}: {f.subject} {f.reason}" for f in failures.entries[:3]),
            )
        items, item_of_sample = gather(samples)
        human = np.concatenate([np.asarray(rated) for rated in ratings])
        human = human[~np.isnan(human)]
        checks = run_checks(
            job,
            human,
            documents=len(job.documents.rows),
            rows=len(human),
            items=len(items),
            images=len({sample.image for sample in samples}),
        )
        return Collected(samples, items, item_of_sample, ratings, checks, ruled_out)

    def results(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
    ) -> list[Result]:
        """Return every statistic of every metric, with intervals over images."""
        results: list[Result] = []
        report = job.progress("intervals")
        steps = len(scored)
        for step, metric in enumerate(scored):

            def progress(done: int, total: int, step: int = step) -> None:
                report(step * total + done, steps * total)

            results += self._of_metric(job, collected, metric, statistics, progress)
        return results

    def _of_metric(
        self,
        job: Job,
        collected: Collected,
        scored: ScoredMetric,
        statistics: Mapping[str, Statistic],
        progress: Callable[[int, int], None],
    ) -> list[Result]:
        values: dict[str, float | None] = dict.fromkeys(statistics)
        reasons: dict[str, str] = dict.fromkeys(statistics, scored.error)
        resampled: dict[str, Resampled] = {}
        n = 0
        if scored.scores is not None:
            rated = _rated(job, collected, scored.scores.values[collected.item_of_sample])
            n = sum(map(len, rated))
            for name, statistic in statistics.items():
                try:
                    value = float(np.mean([statistic.value(one, np.ones(len(one))) for one in rated]))
                    if not math.isfinite(value):
                        raise UndefinedStatistic("the statistic returned no finite number")
                    values[name] = value
                except UndefinedStatistic as error:
                    reasons[name] = str(error)
            defined = {name: statistics[name] for name, value in values.items() if value is not None}
            if defined and job.settings.resamples:
                resampled = resample(
                    defined,
                    rated,
                    resamples=job.settings.resamples,
                    seed=job.settings.seed,
                    progress=progress,
                )
        intervals = {name: one.interval(job.settings.level) for name, one in resampled.items()}
        return [
            Result(
                scored.name,
                name,
                (scored.metric.label, statistic.label),
                values[name],
                n,
                statistic.higher_is_better,
                job.task.scale,
                intervals.get(name),
                reasons[name] if values[name] is None else "",
                resampled=resampled.get(name),
            )
            for name, statistic in statistics.items()
        ]

    def ranking(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
        results: Sequence[Result],
    ) -> dict[str, Ranking]:
        """Return which metrics differ; the resamples are those of the intervals where all scored the same rows."""
        found = {}
        for name, statistic in statistics.items():
            of_metric = {one.metric: one for one in results if one.statistic == name}
            scores = {
                one.name: one.scores.values[collected.item_of_sample]
                for one in scored
                if one.scores is not None and of_metric[one.name].resampled is not None
            }
            estimates = _estimates(job, collected, statistic, scores, of_metric)
            if len(estimates) > 1:
                found[name] = rank(estimates, higher_is_better=statistic.higher_is_better)
        return found


def _estimates(
    job: Job,
    collected: Collected,
    statistic: Statistic,
    scores: dict[str, np.ndarray],
    results: Mapping[str, Result],
) -> dict[str, Estimate]:
    """Return the statistic of each metric on the rows that all of them scored, and on its resamples."""
    if len(scores) < 2:
        return {}
    usable = np.logical_and.reduce([np.isfinite(values) for values in scores.values()])
    estimates = {}
    for name, values in scores.items():
        value, resampled = results[name].value, results[name].resampled
        if value is not None and resampled is not None and np.array_equal(np.isfinite(values), usable):
            estimates[name] = Estimate(value, resampled)
            continue
        rated = _rated(job, collected, np.where(usable, values, np.nan))
        resamples, seed = job.settings.resamples, job.settings.seed
        try:
            estimates |= paired_bootstrap(statistic, {name: rated}, resamples=resamples, seed=seed)
        except UndefinedStatistic:
            # Fewer metrics have more rows in common.
            others = {other: one for other, one in scores.items() if other != name}
            return _estimates(job, collected, statistic, others, results)
    return estimates


def _rated(job: Job, collected: Collected, scores: np.ndarray) -> list[RatedScores]:
    settings = job.task.protocol
    images = [sample.image for sample in collected.samples]
    return rated_rows(images, collected.ratings, scores, settings.raters, settings.round_scores)


def _ratings(human: Any, human_range: tuple[float, float] | None) -> list[float] | str:
    """Return the ratings of a caption as numbers, NaN of raters who skipped it, or why they cannot be used."""
    given = human if isinstance(human, list | tuple) else [human]
    try:
        # Raters who skipped a caption stand as NaN in released files, in JSON as null.
        ratings = [math.nan if rating is None else float(rating) for rating in given]
    except (TypeError, ValueError, OverflowError):
        return f"is not a number: {reprlib.repr(human)}"
    if all(map(math.isnan, ratings)):
        return "is missing"
    if any(map(math.isinf, ratings)):
        return f"is not finite: {reprlib.repr(human)}"
    if human_range is None:
        return ratings
    low, high = human_range
    if outside := [rating for rating in ratings if rating < low or rating > high]:
        return f"lies outside {low:g}-{high:g}: {outside[0]:g}"
    return [(rating - low) / (high - low) for rating in ratings]


def _arrange(rated: list[float], raters: str) -> list[float]:
    """Return the ratings that become rows; NaN only where a rater's place must be kept."""
    if raters == "per_rater_mean":
        return rated
    given = [rating for rating in rated if not math.isnan(rating)]
    return [float(np.mean(given))] if raters == "mean" else given
