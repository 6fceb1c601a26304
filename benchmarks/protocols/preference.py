"""``preference``: of some captions of an image people prefer one; does the metric score it highest?"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from ...errors import DataError
from ...metrics import Metric, Scores
from ..inputs.failures import FailureLog
from ..inputs.items import CaptionRow
from ..statistics.contract import Statistic, UndefinedStatistic
from ..statistics.rated_rows import first_seen
from ..statistics.significance import Ranking, rank
from .checks import DataCheck
from .comparisons import ComparedRows, Draws, PairedEstimates, compare_credit
from .contract import Protocol, ProtocolSettings, drain
from .job import Collected, Job, Shard, Summary
from .preferences.accuracy import accuracy_result
from .preferences.choices import Choice, read_choices
from .preferences.credit import CreditRule, HumanTies, MetricTies, Ties, Votes, by_size, credit_of
from .preferences.judgements import VoteReading
from .preferences.shards import FoundChoices, shard_of
from .results import Result, ScoredMetric, expected_result


class PreferenceSettings(ProtocolSettings):
    """The choices of a preference task that move a number."""

    ties: Ties = "half"
    """What a choice counts whose best captions have the same score: a half (of two), nothing, or one; or it is left
    out."""
    metric_ties: MetricTies = "exact"
    """When two captions have the same score: where the numbers are equal; or as many pairs as people tie, those whose
    scores differ least."""
    human_ties: HumanTies = "leave_out"
    """What a choice counts in which people see no difference: it is left out, counts a half, or is right where the
    metric ties."""
    votes: Votes = "majority"
    """Of several votes, or a grade, the side of most counts; or the share of the votes that are for the metric's."""
    tie_words: tuple[str, ...] = ()
    """Texts that say that there is no difference, besides ``tie`` and ``equal``."""
    grades: tuple[float, float] | None = None
    """The grades that say most for the first of two captions, and most for the second; None where votes are numbers of
    candidates."""
    aggregate: Literal["categories", "all"] = "categories"
    """What stands beside the values of categories: their unweighted mean, or the mean of all choices."""
    first_references: int | None = Field(default=None, ge=1)
    """Only the first so many references of a caption are used."""
    drawn_references: int | None = Field(default=None, ge=1)
    """So many references are drawn at random for each pair, the same for both of its captions."""
    draws: int = Field(default=1, ge=1)
    """How often references are drawn; accuracy is the mean over draws."""
    draw_seed: int = 0
    """What the drawing of references starts from."""

    meanings: ClassVar[Mapping[str, str | Mapping[str, str]]] = {
        "ties": {
            "half": "equal scores count a half",
            "wrong": "equal scores count as wrong",
            "right": "equal scores count as right",
            "leave_out": "choices whose best scores are equal are left out",
        },
        "metric_ties": {
            "exact": "scores are equal where the numbers are",
            "as_many": "as many pairs tie as people tie, those whose scores differ least",
        },
        "human_ties": {
            "leave_out": "choices in which people see no difference are left out",
            "half": "choices in which people see no difference count a half",
            "match": "choices in which people see no difference are right where scores are equal",
        },
        "votes": {
            "majority": "the side of most votes counts",
            "share": "a choice counts the share of the votes for the best score",
        },
        "aggregate": {
            "categories": "where there are categories, the value of all is their unweighted mean",
            "all": "where there are categories, the value of all is that of all choices",
        },
    }

    @field_validator("grades")
    @classmethod
    def _differ(cls, grades: tuple[float, float] | None) -> tuple[float, float] | None:
        if grades is not None and grades[0] == grades[1]:
            raise ValueError("the grade that says most for the first caption, then that for the second")
        return grades

    @property
    def reading(self) -> VoteReading:
        """How votes are read."""
        words = ("tie", "equal", *self.tie_words)
        return VoteReading(frozenset(word.strip().lower() for word in words), self.grades)

    @property
    def rule(self) -> CreditRule:
        """What a choice counts."""
        return CreditRule(self.ties, self.metric_ties, self.human_ties, self.votes)


class Preference(Protocol[PreferenceSettings]):
    """Share of choices in which the metric scores the preferred caption best, by category and their mean.

    ``doc_to_candidates`` gives two captions of an image or more, ``doc_to_preferred`` what people prefer: the number of
    a caption, a tie, several votes, a grade; or ``doc_to_ranking`` the rank of each, whose pairs are choices of their
    own. Accuracy is given by ``doc_to_category``, and as the mean of categories. Documents of one ``doc_to_pair`` (the
    sentences of two paragraphs, say) are one choice: their scores are averaged first.
    """

    Settings = PreferenceSettings
    reads = (
        "doc_to_id", "doc_to_image", "doc_to_pixels", "doc_to_target", "image_folder", "video_folder", "doc_to_span",
        "doc_to_boxes", "doc_to_candidates", "doc_to_preferred", "doc_to_ranking", "doc_to_category", "doc_to_pair",
        "metric_list",
    )  # fmt: skip
    needs = frozenset({"doc_to_candidates", "metric_list"})
    needs_one = ("doc_to_preferred", "doc_to_ranking")
    lists = frozenset({"doc_to_target", "doc_to_candidates"})
    statistic = "accuracy"
    category_key = "doc_to_category"
    counted = "choices between captions"
    sample = "pair"
    comparable = True
    lm_eval = True

    def read(self, job: Job, failures: FailureLog) -> tuple[int, list[DataCheck]]:
        """Return how many documents can be scored, and the data checks."""
        summary = drain(self.collect(job, failures))
        return summary.effective, list(summary.data_checks)

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Read pairs; for each draw of references both captions of a pair get the same ones."""
        found = FoundChoices(job)
        pairs = self.choices(job, failures)
        while some := list(islice(pairs, job.shard)):
            samples = list(_samples(some, self.settings))
            found.add(some, samples)
            yield shard_of(some, samples, found)
        if not found.pairs:
            raise DataError(
                f"task '{job.task.task}': no pair can be scored",
                "; ".join(f"{f.sample}: {f.subject} {f.reason}" for f in failures.entries[:3]),
            )
        return Summary(
            found.parts,
            data_checks=found.checks(),
            categories=list(found.categories),
            systems=list(found.systems),
        )

    def choices(self, job: Job, failures: FailureLog) -> Iterator[Choice]:
        """Yield the choices that can be scored."""
        return read_choices(job, self.document_keys, self.settings.reading, failures)

    def credit(self, collected: Collected, scores: Scores, metric: Metric) -> np.ndarray:
        """Return ``[choices]`` what each counts, as the mean over draws; NaN where it does not.

        Args:
            collected: The pairs.
            scores: Those of the items.
            metric: What scored them; it says whether the preferred caption should have more or less.
        """
        sign = 1 if metric.higher_is_better else -1
        credit = np.full(collected.rows, np.nan)
        for some in by_size(collected, scores.values, self.settings.draws):
            of_draws = [
                credit_of(sign * some.scores[:, draw], some.shares, self.settings.rule)
                for draw in range(self.settings.draws)
            ]
            credit[some.rows] = np.mean(of_draws, axis=0)
        return credit

    def results(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
    ) -> list[Result]:
        """Return accuracy by category, then their unweighted mean, with intervals over images."""
        categories = collected.summary.categories
        results: list[Result] = []
        for metric in scored:
            named = categories if len(categories) > 1 else ()
            results += [self._result(job, collected, metric, [category]) for category in named]
            results.append(self._result(job, collected, metric, categories))
        return results

    def ranking(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
        results: Sequence[Result],
    ) -> dict[str, Ranking]:
        """Return which metrics differ in what a pair counts on average, whatever its category."""
        credit = {
            one.name: self.credit(collected, one.scores, one.metric)
            for one in scored
            if one.scores is not None
        }
        credit = {name: values for name, values in credit.items() if np.isfinite(values).any()}
        if len(credit) < 2 or not job.settings.resamples:
            return {}
        rows = ComparedRows(first_seen(collected.numbers["image"]), credit)
        try:
            compared = compare_credit(rows, Draws(job.settings.resamples, job.settings.seed))
        except UndefinedStatistic:
            return {}
        return {self.statistic: rank(compared.estimates, higher_is_better=True)}

    def compare(self, rows: ComparedRows, statistic: Statistic | None, draws: Draws) -> PairedEstimates:
        """Return what a pair counts on average, whatever its category, of the pairs that all metrics judged."""
        return compare_credit(rows, draws)

    def expected(
        self, metrics: Sequence[ScoredMetric], statistics: Mapping[str, Statistic], categories: Sequence[str]
    ) -> list[Result]:
        """Return the accuracy of each metric by category, and their mean, without a value."""
        named = [*categories, ""] if len(categories) > 1 else categories
        return [expected_result(one, self.statistic, True, category) for one in metrics for category in named]

    def _result(
        self, job: Job, collected: Collected, scored: ScoredMetric, categories: Sequence[str]
    ) -> Result:
        credit = np.full(collected.rows, np.nan)
        if scored.scores is not None:
            credit = self.credit(collected, scored.scores, scored.metric)
        return accuracy_result(
            job,
            collected,
            (scored.name, scored.metric.label),
            self.statistic,
            credit,
            categories,
            by_category=self.settings.aggregate == "categories",
            reason=scored.error,
        )

    def row_scores(
        self, collected: Collected, scored: Sequence[ScoredMetric]
    ) -> tuple[dict[str, np.ndarray], dict[int, str]]:
        """Return for a metric what each choice counts (1 right, 0 wrong)."""
        values: dict[str, np.ndarray] = {}
        unscored: dict[int, list[str]] = {}
        for one in scored:
            values[one.name] = credit = np.full(collected.rows, np.nan)
            if one.scores is not None:
                credit[:] = self.credit(collected, one.scores, one.metric)
                for some in by_size(collected, one.scores.values, self.settings.draws):
                    lacking = ~np.isfinite(some.scores).all(axis=(1, 2))
                    for row in some.rows[lacking].tolist():
                        unscored.setdefault(row, []).append(
                            f"metric {one.name}: a caption of the pair has no score"
                        )
        return values, {row: "; ".join(reasons) for row, reasons in sorted(unscored.items())}

    def row_details(self, collected: Collected, scored: Sequence[ScoredMetric]) -> dict[str, np.ndarray]:
        """Return the scores of all captions of a choice, by metric."""
        found: dict[str, np.ndarray] = {}
        for one in scored:
            if one.scores is not None:
                found[one.name] = of_rows = np.empty(collected.rows, object)
                for some in by_size(collected, one.scores.values, self.settings.draws):
                    for row, scores in zip(some.rows, some.scores.mean(axis=1).tolist(), strict=True):
                        of_rows[row] = [score if math.isfinite(score) else None for score in scores]
        return found


def _samples(pairs: Sequence[Choice], settings: PreferenceSettings) -> Iterator[CaptionRow]:
    """Yield the captions: for each choice and part, for each draw, all of them."""
    for pair in pairs:
        for part in pair.parts:
            for draw, references in enumerate(_drawn(part.references, settings, part.id)):
                for side, caption in enumerate(part.captions):
                    yield CaptionRow(
                        f"{pair.id}|{side}",
                        pair.image,
                        caption,
                        references,
                        corpus=draw,
                        pixels=part.pixels,
                        boxes=part.boxes,
                    )


def _drawn(references: tuple[str, ...], settings: PreferenceSettings, identity: str) -> list[tuple[str, ...]]:
    """Return the references of each draw; they depend on the document's id and the seed, not on other documents."""
    references = references[: settings.first_references]
    if settings.drawn_references is None or len(references) <= settings.drawn_references:
        return [references] * settings.draws
    draws: list[tuple[str, ...]] = []
    for draw in range(settings.draws):
        generator = np.random.default_rng([settings.draw_seed, draw, *identity.encode()])
        chosen: list[int] = generator.choice(
            len(references), settings.drawn_references, replace=False
        ).tolist()
        draws.append(tuple(references[i] for i in sorted(chosen)))
    return draws
