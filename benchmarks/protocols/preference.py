"""``preference``: of two captions of an image one is preferred; does the metric score it higher?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...adapters import Box, ImageHandle, VideoHandle
from ...errors import DataError
from ...tasks.schema import ProtocolSettings
from ..checks import run_checks
from ..items import CaptionRow, candidate_fault, gather, image_key, references_fault
from ..pixels import boxes_of, pixels_value, span_of, view_fault
from ..statistics.bootstrap import bootstrap_value
from ..statistics.contract import Statistic, UndefinedStatistic
from ..statistics.paired import paired_means
from ..statistics.significance import Ranking, rank
from .contract import Collected, DocumentReader, FailureLog, Job, Protocol, Result, ScoredMetric

_KEYS = (
    "doc_to_id",
    "doc_to_image",
    "doc_to_pixels",
    "doc_to_span",
    "doc_to_boxes",
    "doc_to_candidates",
    "doc_to_target",
    "doc_to_preferred",
    "doc_to_category",
    "doc_to_pair",
)
_TIE_CREDIT = {"half": 0.5, "wrong": 0.0, "right": 1.0}
# Equal scores may differ in the last bits, by the order in which they were summed.
_TIE_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Part:
    """One part of a pair, its two captions held against the same references."""

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
    parts: list[Part] = field(default_factory=list)


@dataclass(frozen=True)
class CollectedPairs(Collected):
    """Pairs, and their captions as samples: for each pair and part, for each draw, both captions."""

    pairs: list[Pair] = field(default_factory=list)
    settings: ProtocolSettings = field(default_factory=ProtocolSettings)

    @property
    def effective(self) -> int:
        """How many documents of the task are scored: a document is a part of a pair."""
        return sum(len(pair.parts) for pair in self.pairs)

    def credit(self, item_values: np.ndarray) -> np.ndarray:
        """Return ``[pairs]`` what each pair counts, as the mean over draws; NaN where a caption has no score.

        Args:
            item_values: ``[items]`` scores.
        """
        part_scores = item_values[self.item_of_sample].reshape(-1, self.settings.draws, 2)
        sizes = np.array([len(pair.parts) for pair in self.pairs])
        starts = np.cumsum(sizes) - sizes
        scores = np.add.reduceat(part_scores, starts, axis=0) / sizes[:, None, None]
        preferred = np.array([pair.preferred for pair in self.pairs])[:, None]
        difference = np.where(
            preferred == 0, scores[..., 0] - scores[..., 1], scores[..., 1] - scores[..., 0]
        )
        tie = np.abs(difference) <= _TIE_TOLERANCE * np.abs(scores).max(axis=2)
        credit = np.where(tie, _TIE_CREDIT[self.settings.ties], difference > 0)
        return np.where(np.isfinite(difference), credit, np.nan).mean(axis=1)


class Preference(Protocol):
    """Share of pairs in which the metric scores the preferred caption higher, by category and their mean."""

    def read(self, job: Job, failures: FailureLog) -> tuple[int, list[dict[str, Any]]]:
        """Return how many documents can be scored, and the data checks."""
        collected = self.collect(job, failures)
        return collected.effective, collected.data_checks

    def collect(self, job: Job, failures: FailureLog) -> CollectedPairs:
        """Read pairs; for each draw of references both captions of a pair get the same ones."""
        settings = job.task.protocol
        pairs = _pairs(job, failures)
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
            for number, pair in enumerate(pairs)
            for part_number, part in enumerate(pair.parts)
            for draw, references in enumerate(_drawn(part.references, settings, number, part_number))
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
        categories = list(dict.fromkeys(pair.category for pair in collected.pairs))
        results = []
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
        credit = {one.name: collected.credit(one.scores.values) for one in scored if one.scores is not None}
        credit = {name: values for name, values in credit.items() if np.isfinite(values).any()}
        if len(credit) < 2 or not job.settings.resamples:
            return {}
        usable = np.logical_and.reduce([np.isfinite(values) for values in credit.values()])
        if not usable.any():
            return {}
        images = np.asarray([pair.image for pair in collected.pairs])[usable]
        estimates = paired_means(
            {name: values[usable] for name, values in credit.items()},
            np.unique(images, return_inverse=True)[1],
            resamples=job.settings.resamples,
            seed=job.settings.seed,
        )
        return {"accuracy": rank(estimates, higher_is_better=True)}

    def _result(
        self, job: Job, collected: CollectedPairs, scored: ScoredMetric, categories: list[str]
    ) -> Result:
        category = categories[0] if len(categories) == 1 else ""
        value, interval, n, reason = None, None, 0, scored.error
        if scored.scores is not None:
            credit = collected.credit(scored.scores.values)
            members = [
                np.array([pair.category == one for pair in collected.pairs]) & np.isfinite(credit)
                for one in categories
            ]
            n = int(sum(mask.sum() for mask in members))

            def accuracy(weights: np.ndarray) -> float:
                shares = []
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
                credit = collected.credit(one.scores.values).tolist()
                for number, value in enumerate(credit):
                    if not np.isfinite(value):
                        unscored[number].append(f"metric {one.name}: a caption of the pair has no score")
            columns[one.name] = credit
        columns["failure"] = ["; ".join(reasons) or None for reasons in unscored]
        return columns


def _pairs(job: Job, failures: FailureLog) -> list[Pair]:
    """Return the pairs whose documents can all be used, in the data set's order."""
    pairs: dict[str, Pair] = {}
    broken: set[str] = set()
    for identity, values in DocumentReader(job, _KEYS).read(failures):
        name = identity if values["doc_to_pair"] is None else str(values["doc_to_pair"])
        if fault := _fault(job, values):
            failures.add(identity, *fault)
            broken.add(name)
            continue
        first, second = values["doc_to_candidates"]
        target = values["doc_to_target"] or []
        references = (target,) if isinstance(target, str) else tuple(target)
        image = identity if values["doc_to_image"] is None else image_key(values["doc_to_image"])
        category = "" if values["doc_to_category"] is None else str(values["doc_to_category"])
        pair = pairs.setdefault(name, Pair(name, image, category, int(values["doc_to_preferred"])))
        if pair.preferred != int(values["doc_to_preferred"]):
            failures.add(identity, "rating", f"contradicts an earlier document of pair '{name}'")
            broken.add(name)
            continue
        pixels = job.pixels(pixels_value(values), span_of(values["doc_to_span"]))
        pair.parts.append(Part((first, second), references, pixels, boxes_of(values["doc_to_boxes"])))
    # A pair of which a part is missing would compare other texts than the data set does.
    return [pair for name, pair in pairs.items() if name not in broken]


def _fault(job: Job, values: Mapping[str, Any]) -> tuple[Any, str] | None:
    candidates = values["doc_to_candidates"]
    if not isinstance(candidates, list | tuple) or len(candidates) != 2:
        return "candidate", "is not a pair of captions"
    for caption in candidates:
        if fault := candidate_fault(caption):
            return "candidate", fault
    target = values["doc_to_target"]
    target = [target] if isinstance(target, str) else target
    if job.task.doc_to_target is not None and (fault := references_fault(target)):
        return "reference", fault
    preferred = values["doc_to_preferred"]
    if isinstance(preferred, bool) or preferred not in (0, 1, "0", "1"):
        return "rating", f"is neither 0 nor 1: {preferred!r}"
    if fault := view_fault(job.task, values):
        return "image", fault
    return None


def _drawn(
    references: tuple[str, ...], settings: ProtocolSettings, pair: int, part: int
) -> list[tuple[str, ...]]:
    """Return the references of each draw; a pair's draws do not depend on which other pairs there are."""
    references = references[: settings.first_references]
    if settings.drawn_references is None or len(references) <= settings.drawn_references:
        return [references] * settings.draws
    draws = []
    for draw in range(settings.draws):
        generator = np.random.default_rng([settings.draw_seed, draw, pair, part])
        chosen = generator.choice(len(references), settings.drawn_references, replace=False)
        draws.append(tuple(references[i] for i in sorted(chosen)))
    return draws
