"""``preference``: of two captions of an image one is preferred; does the metric score it higher?"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from ...errors import DataError
from ...metrics import Metric, Scores
from ..inputs.failures import FailureLog
from ..inputs.items import CaptionRow, SeenValues, gathered, item_key
from ..statistics.contract import Statistic, UndefinedStatistic
from ..statistics.influence import influence_of_mean, interval_of_value
from ..statistics.near_ties import settle
from ..statistics.rated_rows import first_seen
from ..statistics.significance import Ranking, rank
from .checks import DataCheck, run_checks
from .comparisons import ComparedRows, Draws, PairedEstimates, compare_credit
from .contract import Protocol, ProtocolSettings, drain
from .job import Collected, Job, Shard, Summary, caption_content, numbers_of
from .pairs import Pair, read_pairs
from .results import Result, ScoredMetric, expected_result

_TIE_CREDIT = {"half": 0.5, "wrong": 0.0, "right": 1.0}


class PreferenceSettings(ProtocolSettings):
    """The choices of a preference task that move a number."""

    ties: Literal["half", "wrong", "right"] = "half"
    """What a pair counts whose captions have the same score: a half, nothing, or one."""
    first_references: int | None = Field(default=None, ge=1)
    """Only the first so many references of a caption are used."""
    drawn_references: int | None = Field(default=None, ge=1)
    """So many references are drawn at random for each pair, the same for both of its captions."""
    draws: int = Field(default=1, ge=1)
    """How often references are drawn; accuracy is the mean over draws."""
    draw_seed: int = 0

    meanings: ClassVar[Mapping[str, str | Mapping[str, str]]] = {
        "ties": {
            "half": "equal scores count a half",
            "wrong": "equal scores count as wrong",
            "right": "equal scores count as right",
        }
    }


class Preference(Protocol[PreferenceSettings]):
    """Share of pairs in which the metric scores the preferred caption better, by category and their mean.

    ``doc_to_candidates`` gives the two captions of a pair, ``doc_to_preferred`` which of them is preferred: 0 or 1.
    Accuracy is given by ``doc_to_category``, and as the mean of categories. Documents of one ``doc_to_pair`` (the
    sentences of two paragraphs, say) are one pair: their scores are averaged first.
    """

    Settings = PreferenceSettings
    reads = (
        "doc_to_id", "doc_to_image", "doc_to_pixels", "doc_to_target", "image_folder", "video_folder", "doc_to_span",
        "doc_to_boxes", "doc_to_candidates", "doc_to_preferred", "doc_to_category", "doc_to_pair", "metric_list",
    )  # fmt: skip
    needs = frozenset({"doc_to_candidates", "doc_to_preferred", "metric_list"})
    lists = frozenset({"doc_to_target", "doc_to_candidates"})
    statistic = "accuracy"
    category_key = "doc_to_category"
    sample = "pair"
    comparable = True
    lm_eval = True

    def read(self, job: Job, failures: FailureLog) -> tuple[int, list[DataCheck]]:
        """Return how many documents can be scored, and the data checks."""
        summary = drain(self.collect(job, failures))
        return summary.effective, list(summary.data_checks)

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Read pairs; for each draw of references both captions of a pair get the same ones."""
        found = _Found(job)
        pairs = read_pairs(job, self.document_keys, failures)
        while some := list(islice(pairs, job.shard)):
            samples = list(_samples(some, self.settings))
            found.add(some, samples)
            yield _shard(some, samples, found.categories)
        if not found.pairs:
            raise DataError(
                f"task '{job.task.task}': no pair can be scored",
                "; ".join(f"{f.sample}: {f.subject} {f.reason}" for f in failures.entries[:3]),
            )
        return Summary(found.parts, data_checks=found.checks(), categories=list(found.categories))

    def credit(self, collected: Collected, scores: Scores, metric: Metric) -> np.ndarray:
        """Return ``[pairs]`` what each pair counts, as the mean over draws; NaN where a caption has no score.

        Args:
            collected: The pairs.
            scores: Those of the items.
            metric: What scored them; it says whether the preferred caption should have more or less.
        """
        item_values = scores.values if metric.higher_is_better else -scores.values
        part_scores = item_values[collected.item_of_sample].reshape(-1, self.settings.draws, 2)
        sizes = collected.numbers["parts"]
        starts = np.cumsum(sizes) - sizes
        means = settle(np.add.reduceat(part_scores, starts, axis=0) / sizes[:, None, None])
        preferred = collected.numbers["preferred"][:, None]
        difference = np.where(preferred == 0, means[..., 0] - means[..., 1], means[..., 1] - means[..., 0])
        credit = np.where(difference == 0, _TIE_CREDIT[self.settings.ties], difference > 0)
        return np.where(np.isfinite(difference), credit, np.nan).mean(axis=1)

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
        category = categories[0] if len(categories) == 1 else ""
        value, interval, n, reason = None, None, 0, scored.error
        if scored.scores is not None:
            credit = self.credit(collected, scored.scores, scored.metric)
            numbers = [collected.summary.categories.index(one) for one in categories]
            members = [(collected.numbers["category"] == one) & np.isfinite(credit) for one in numbers]
            n = int(sum(mask.sum() for mask in members))

            def accuracy(weights: np.ndarray) -> float:
                shares: list[float] = []
                for mask in members:
                    if not weights[mask].any():
                        raise UndefinedStatistic("a category has no pair with scores")
                    shares.append(float(np.average(credit[mask], weights=weights[mask])))
                return float(np.mean(shares))

            try:
                value = accuracy(np.ones(len(credit)))
                interval = interval_of_value(
                    accuracy,
                    first_seen(collected.numbers["image"]),
                    lambda: np.mean(
                        [influence_of_mean(credit, mask.astype(float)) for mask in members], axis=0
                    ),
                    intervals=job.settings.intervals,
                    resamples=job.settings.resamples,
                    seed=job.settings.seed,
                    level=job.settings.level,
                )
            except UndefinedStatistic as error:
                reason = str(error)
        return Result(
            scored.name,
            "accuracy",
            (scored.metric.label, f"accuracy {category}".rstrip()),
            value,
            n,
            higher_is_better=True,
            scale=job.task.scale,
            interval=interval,
            reason=reason,
            category=category,
        )

    def row_scores(
        self, collected: Collected, scored: Sequence[ScoredMetric]
    ) -> tuple[dict[str, np.ndarray], dict[int, str]]:
        """Return for a metric what each pair counts (1 right, 0 wrong)."""
        values: dict[str, np.ndarray] = {}
        unscored: dict[int, list[str]] = {}
        for one in scored:
            values[one.name] = credit = np.full(collected.rows, np.nan)
            if one.scores is not None:
                credit[:] = self.credit(collected, one.scores, one.metric)
                for row in np.flatnonzero(np.isnan(credit)).tolist():
                    unscored.setdefault(row, []).append(
                        f"metric {one.name}: a caption of the pair has no score"
                    )
        return values, {row: "; ".join(reasons) for row, reasons in sorted(unscored.items())}


class _Found:
    """Counts what shards hold.

    Attributes:
        pairs: How many pairs there are.
        parts: How many documents they are made of.
        categories: Number of each category, in the order in which they come.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.pairs = self.parts = 0
        self.categories: dict[str, int] = {}
        self._items, self._images = SeenValues(), SeenValues()

    def add(self, pairs: Sequence[Pair], samples: Sequence[CaptionRow]) -> None:
        """Count the pairs of a shard."""
        self.pairs += len(pairs)
        self.parts += sum(len(pair.parts) for pair in pairs)
        for pair in pairs:
            self.categories.setdefault(pair.category, len(self.categories))
        if self._job.task.checks.items is not None:
            self._items.add(map(item_key, samples))
        if self._job.task.checks.images is not None:
            self._images.add(pair.image for pair in pairs)

    def checks(self) -> list[DataCheck]:
        """Hold the counts against what the task expects."""
        return run_checks(
            self._job,
            documents=len(self._job.documents.rows),
            rows=self.pairs,
            items=len(self._items),
            images=len(self._images),
        )


def _samples(pairs: Sequence[Pair], settings: PreferenceSettings) -> Iterator[CaptionRow]:
    """Yield the captions: for each pair and part, for each draw, both of them."""
    for pair in pairs:
        for part in pair.parts:
            for draw, references in enumerate(_drawn(part.references, settings, part.id)):
                for side in (0, 1):
                    yield CaptionRow(
                        f"{pair.id}|{side}",
                        pair.image,
                        part.captions[side],
                        references,
                        corpus=draw,
                        pixels=part.pixels,
                        boxes=part.boxes,
                    )


def _shard(pairs: Sequence[Pair], samples: Sequence[CaptionRow], categories: Mapping[str, int]) -> Shard:
    items, item_of_sample, numbers = gathered(samples)
    return Shard(
        items,
        item_of_sample,
        {
            "id": [pair.id for pair in pairs],
            "image": [pair.image for pair in pairs],
            "category": [pair.category for pair in pairs],
            "preferred": [pair.preferred for pair in pairs],
            "candidates": [
                [" ".join(part.captions[side] for part in pair.parts) for side in (0, 1)] for pair in pairs
            ],
        },
        {
            "image": numbers_of(pair.image for pair in pairs),
            "category": np.array([categories[pair.category] for pair in pairs]),
            "preferred": np.array([pair.preferred for pair in pairs]),
            "parts": np.array([len(pair.parts) for pair in pairs]),
        },
        [caption_content(sample, []) for sample in samples],
        numbers,
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
