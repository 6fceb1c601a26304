"""``preference``: of two captions of an image one is preferred; does the metric score it higher?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ...adapters import Box, ImageHandle, VideoHandle
from ...errors import DataError
from ...metrics import Metric, Scores
from ...rows import parse_number
from ..inputs.failures import FailureLog
from ..inputs.items import CaptionRow, candidate_fault, gather, image_key, references_fault, references_of
from ..inputs.pixels import boxes_of, pixels_value, span_of, view_fault
from ..statistics.bootstrap import bootstrap_value
from ..statistics.contract import Statistic, UndefinedStatistic
from ..statistics.significance import Ranking, rank
from .checks import DataCheck, run_checks
from .comparisons import ComparedRows, Draws, PairedEstimates, compare_credit
from .contract import Protocol, ProtocolSettings
from .document_reader import DocumentReader, is_list
from .job import Collected, Job
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


@dataclass(frozen=True)
class Part:
    """One part of a pair, its two captions held against the same references; ``id`` is the document's."""

    id: str
    captions: tuple[str, str]
    references: tuple[str, ...]
    pixels: ImageHandle | VideoHandle | None = None
    boxes: tuple[Box, ...] | None = None


@dataclass(frozen=True)
class Pair:
    """Two captions of one image, each in one or more parts (sentences) with references of their own."""

    id: str
    image: str
    category: str
    preferred: int
    parts: list[Part] = field(default_factory=list[Part])


@dataclass(frozen=True)
class CollectedPairs(Collected):
    """Pairs, and their captions as samples: for each pair and part, for each draw, both captions."""

    pairs: list[Pair] = field(default_factory=list[Pair])
    settings: PreferenceSettings = field(default_factory=PreferenceSettings)

    @property
    def effective(self) -> int:
        """How many documents of the task are scored: a document is a part of a pair."""
        return sum(len(pair.parts) for pair in self.pairs)

    @property
    def categories(self) -> list[str]:
        """The categories of the pairs, in the order in which they come."""
        return list(dict.fromkeys(pair.category for pair in self.pairs))

    def credit(self, scores: Scores, metric: Metric) -> np.ndarray:
        """Return ``[pairs]`` what each pair counts, as the mean over draws; NaN where a caption has no score.

        Args:
            scores: Those of the items.
            metric: What scored them; it says whether the preferred caption should have more or less.
        """
        item_values = scores.values if metric.higher_is_better else -scores.values
        part_scores = item_values[self.item_of_sample].reshape(-1, self.settings.draws, 2)
        sizes = np.array([len(pair.parts) for pair in self.pairs])
        starts = np.cumsum(sizes) - sizes
        means = np.add.reduceat(part_scores, starts, axis=0) / sizes[:, None, None]
        preferred = np.array([pair.preferred for pair in self.pairs])[:, None]
        difference = np.where(preferred == 0, means[..., 0] - means[..., 1], means[..., 1] - means[..., 0])
        # Equal is equal to the last bit, as in released scripts and in scipy's rank statistics: no tolerance.
        credit = np.where(difference == 0, _TIE_CREDIT[self.settings.ties], difference > 0)
        return np.where(np.isfinite(difference), credit, np.nan).mean(axis=1)


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
        collected = self.collect(job, failures)
        return collected.effective, collected.data_checks

    def collect(self, job: Job, failures: FailureLog) -> CollectedPairs:
        """Read pairs; for each draw of references both captions of a pair get the same ones."""
        settings = self.settings
        pairs = _pairs(job, self.document_keys, failures)
        if not pairs:
            raise DataError(
                f"task '{job.task.task}': no pair can be scored",
                "; ".join(f"{f.sample}: {f.subject} {f.reason}" for f in failures.entries[:3]),
            )
        samples = [
            CaptionRow(
                f"{pair.id}|{side}",
                pair.image,
                part.captions[side],
                references,
                corpus=draw,
                pixels=part.pixels,
                boxes=part.boxes,
            )
            for pair in pairs
            for part in pair.parts
            for draw, references in enumerate(_drawn(part.references, settings, part.id))
            for side in (0, 1)
        ]
        items, item_of_sample = gather(samples)
        checks = run_checks(
            job,
            documents=len(job.documents.rows),
            rows=len(pairs),
            items=len(items),
            images=len({pair.image for pair in pairs}),
        )
        return CollectedPairs(
            samples, items, item_of_sample, data_checks=checks, pairs=pairs, settings=settings
        )

    def results(
        self,
        job: Job,
        collected: Collected,
        scored: Sequence[ScoredMetric],
        statistics: Mapping[str, Statistic],
    ) -> list[Result]:
        """Return accuracy by category, then their unweighted mean, with intervals over images."""
        assert isinstance(collected, CollectedPairs)  # noqa: S101 - what collect returned
        categories = collected.categories
        results: list[Result] = []
        for metric in scored:
            named = categories if len(categories) > 1 else []
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
        assert isinstance(collected, CollectedPairs)  # noqa: S101 - what collect returned
        credit = {
            one.name: collected.credit(one.scores, one.metric) for one in scored if one.scores is not None
        }
        credit = {name: values for name, values in credit.items() if np.isfinite(values).any()}
        if len(credit) < 2 or not job.settings.resamples:
            return {}
        rows = ComparedRows([pair.image for pair in collected.pairs], credit)
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
        self, job: Job, collected: CollectedPairs, scored: ScoredMetric, categories: list[str]
    ) -> Result:
        category = categories[0] if len(categories) == 1 else ""
        value, interval, n, reason = None, None, 0, scored.error
        if scored.scores is not None:
            credit = collected.credit(scored.scores, scored.metric)
            members = [
                np.array([pair.category == one for pair in collected.pairs]) & np.isfinite(credit)
                for one in categories
            ]
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
                images: dict[str, int] = {}
                interval = bootstrap_value(
                    accuracy,
                    np.array([images.setdefault(pair.image, len(images)) for pair in collected.pairs]),
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

    def sample_columns(self, collected: Collected, scored: Sequence[ScoredMetric]) -> dict[str, list[Any]]:
        """Return a row a pair; a metric's column is what the pair counts (1 right, 0 wrong)."""
        assert isinstance(collected, CollectedPairs)  # noqa: S101 - what collect returned
        columns: dict[str, list[Any]] = {
            "id": [pair.id for pair in collected.pairs],
            "image": [pair.image for pair in collected.pairs],
            "category": [pair.category for pair in collected.pairs],
            "preferred": [pair.preferred for pair in collected.pairs],
            "candidates": [
                [" ".join(part.captions[side] for part in p.parts) for side in (0, 1)]
                for p in collected.pairs
            ],
        }
        unscored: list[list[str]] = [[] for _ in collected.pairs]
        for one in scored:
            credit = [None] * len(collected.pairs)
            if one.scores is not None:
                credit = collected.credit(one.scores, one.metric).tolist()
                for number, value in enumerate(credit):
                    if not np.isfinite(value):
                        unscored[number].append(f"metric {one.name}: a caption of the pair has no score")
            columns[one.name] = credit
        columns["failure"] = ["; ".join(reasons) or None for reasons in unscored]
        return columns


def _pairs(job: Job, keys: Sequence[str], failures: FailureLog) -> list[Pair]:
    """Return the pairs whose documents can all be used, in the data set's order."""
    pairs: dict[str, Pair] = {}
    broken: set[str] = set()
    for identity, values in DocumentReader(job, keys).read(failures):
        name = identity if values["doc_to_pair"] is None else str(values["doc_to_pair"])
        if fault := _fault(job, values):
            failures.add(identity, *fault)
            broken.add(name)
            continue
        first, second = values["doc_to_candidates"]
        references = tuple(references_of(values["doc_to_target"]))
        image = identity if values["doc_to_image"] is None else image_key(values["doc_to_image"])
        category = "" if values["doc_to_category"] is None else str(values["doc_to_category"])
        preferred = int(_preferred(values))
        pair = pairs.setdefault(name, Pair(name, image, category, preferred))
        if pair.preferred != preferred:
            failures.add(identity, "rating", f"contradicts an earlier document of pair '{name}'")
            broken.add(name)
            continue
        pixels = job.pixels(pixels_value(values), span_of(values["doc_to_span"]))
        pair.parts.append(
            Part(identity, (first, second), references, pixels, boxes_of(values["doc_to_boxes"]))
        )
    # A pair of which a part is missing would compare other texts than the data set does.
    for part in (part for name, pair in pairs.items() if name in broken for part in pair.parts):
        failures.add(part.id, "data", "is of a pair of which another document cannot be used")
    return [pair for name, pair in pairs.items() if name not in broken]


def _fault(job: Job, values: Mapping[str, Any]) -> tuple[Any, str] | None:
    candidates = values["doc_to_candidates"]
    if not is_list(candidates) or len(candidates) != 2:
        return "candidate", "is not a pair of captions"
    for caption in candidates:
        if fault := candidate_fault(caption):
            return "candidate", fault
    target = references_of(values["doc_to_target"])
    if "doc_to_target" in job.task.templates and (fault := references_fault(target)):
        return "reference", fault
    if _preferred(values) not in (0, 1):
        return "rating", f"is neither 0 nor 1: {values['doc_to_preferred']!r:.80}"
    if fault := view_fault(job.task, values):
        return "image", fault
    return None


def _preferred(values: Mapping[str, Any]) -> float:
    """Return which caption is preferred, as a number; NaN if that is none."""
    try:
        return parse_number(values["doc_to_preferred"])
    except (TypeError, ValueError, OverflowError):
        return math.nan


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
