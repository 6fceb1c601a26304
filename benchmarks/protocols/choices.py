"""Choices among the candidates of a document: the base of ``preference``, ``battles`` and user-defined protocols.

A subclass of :class:`Choices` defines how a document becomes choices, and the credit of a choice given the scores of
its candidates. Accuracy with intervals, categories, significance and comparisons of runs follow.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal

import numpy as np

from ...adapters import Box, ImageHandle, VideoHandle
from ..inputs.failures import FailureLog
from ..inputs.items import CaptionRow, gather, numbers_of
from ..statistics import Draws
from ..statistics.classical import mcnemar_test
from ..statistics.contract import Statistic, Statistics, UndefinedStatistic
from ..statistics.influence import influence_of_mean
from ..statistics.near_ties import settle
from ..statistics.paired import paired_means
from ..statistics.rated_rows import first_seen
from ..statistics.significance import Ranking, rank
from .checks import Tally, no_rows
from .contract import IMAGE_KEYS, ComparedRows, PairedEstimates, Protocol, SettingsT
from .document_reader import Document, read_each
from .job import Collected, Job, Result, RowScores, ScoredMetric, ScoredMetrics, Shard, Summary, estimated_result

Ties = Literal["half", "wrong", "right", "leave_out"]


@dataclass(frozen=True)
class ChoicePart:
    """One part of a choice, whose captions share the references; ``id`` is that of the document."""

    id: str
    captions: tuple[str, ...]
    references: tuple[str, ...]
    pixels: ImageHandle | VideoHandle | None = None
    boxes: tuple[Box, ...] | None = None


@dataclass(frozen=True)
class Choice:
    """Two captions or more, each in one or more parts (sentences) with separate references.

    Attributes:
        id: Its name.
        image: The key of its image; the bootstrap resamples images.
        category: Its category; empty where there are none.
        shares: Share of the votes of each caption; they add up to 1.
        systems: The system of each caption; empty where unknown.
        verdicts: Name of a judge to the share of its votes of each caption; NaN if it gave none.
        parts: Its parts, with the same number of captions each.
    """

    id: str
    image: str
    category: str
    shares: tuple[float, ...]
    systems: tuple[str, ...] = ()
    verdicts: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    parts: list[ChoicePart] = field(default_factory=list[ChoicePart])

    @classmethod
    def of(cls, document: Document, shares: Sequence[float], captions: Sequence[str] = ()) -> Choice:
        """Return a choice among the candidates of a document, or among some of them.

        Args:
            document: The document; its id, image, category and references are the choice's.
            shares: As of the class.
            captions: The captions; by default those of ``doc_to_candidates``.
        """
        captions = tuple(captions) or document.candidates
        part = ChoicePart(document.id, captions, document.references, document.pixels, document.boxes)
        return cls(document.id, document.image, document.category, tuple(shares), parts=[part])

    @property
    def preferred(self) -> int | None:
        """The caption with the most votes; None for a tie."""
        most = max(self.shares)
        return self.shares.index(most) if self.shares.count(most) == 1 else None

    @property
    def known(self) -> list[Any]:
        """Its content without the captions, as JSON values."""
        return [list(self.shares), list(self.systems), {name: list(shares) for name, shares in self.verdicts.items()}]


class Choices(Protocol[SettingsT]):
    """Share of choices in which the metric scores the right candidate highest, by category and overall."""

    reads = (*IMAGE_KEYS, "doc_to_span", "doc_to_boxes", "doc_to_candidates", "doc_to_category", "metric_list")
    needs = frozenset({"doc_to_candidates", "metric_list"})
    lists = frozenset({"doc_to_target", "doc_to_candidates"})
    statistic = "accuracy"
    category_key = "doc_to_category"
    counted = "choices between captions"
    sample = "pair"
    comparable = True

    @property
    def draws(self) -> int:
        """Number of draws of the references of a choice; accuracy is the mean over draws."""
        return 1

    @property
    def average_categories(self) -> bool:
        """Whether the overall value is the unweighted mean of categories, or that of all choices."""
        return True

    @abstractmethod
    def read_document(self, document: Document) -> Iterable[Choice]:
        """Yield the choices of a document.

        Raises:
            UnusableDocument: It has none.
        """

    def credit(self, scores: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return ``[k]`` the credit of choices; NaN for an excluded one.

        Unless overridden: the share of the votes of the best-scored caption; of equal scores their mean.

        Args:
            scores: ``[k, n]`` scores of captions, higher is better, ties exactly equal; NaN where one has none.
            shares: ``[k, n]`` share of the votes of each.
        """
        return credit_of_best(scores, shares)

    def references_of(self, part: ChoicePart) -> Sequence[tuple[str, ...]]:
        """Return the references of a part, for each draw."""
        return [part.references]

    def content_of(self, choices: Sequence[Choice]) -> list[Any]:
        """Return the content of choices without the captions, as JSON values."""
        return [choice.known for choice in choices]

    def choices(self, job: Job, failures: FailureLog) -> Iterator[Choice]:
        """Return the choices that can be scored."""
        return read_each(job, self.document_keys, self.read_document, failures)

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Read choices; in each draw all captions of a choice get the same references."""
        tally, systems, documents = Tally(job), dict[str, int](), set[str]()
        choices = self.choices(job, failures)
        while some := list(islice(choices, job.shard)):
            samples = [row for choice in some for row in self._samples(choice)]
            tally.add([choice.category for choice in some], samples)
            for name in (name for choice in some for name in choice.systems):
                systems.setdefault(name, len(systems))
            documents |= {part.id for choice in some for part in choice.parts}
            yield self._shard(some, samples, tally, systems)
        if not tally.rows:
            raise no_rows(job, f"no {self.sample} can be scored", failures)
        return Summary(
            len(documents), data_checks=tally.checks(), categories=list(tally.categories), systems=list(systems)
        )

    def _samples(self, choice: Choice) -> Iterator[CaptionRow]:
        """Yield all captions, for each part and draw."""
        for part in choice.parts:
            for draw, references in enumerate(self.references_of(part)):
                for side, caption in enumerate(part.captions):
                    yield CaptionRow(
                        f"{choice.id}|{side}",
                        choice.image,
                        caption,
                        references,
                        corpus=draw,
                        pixels=part.pixels,
                        boxes=part.boxes,
                    )

    def _shard(
        self, choices: Sequence[Choice], samples: Sequence[CaptionRow], tally: Tally, systems: Mapping[str, int]
    ) -> Shard:
        items, item_of_sample, item_numbers = gather(samples, tally.job.by_id)
        columns: dict[str, Sequence[Any]] = {
            "id": [choice.id for choice in choices],
            "image": [choice.image for choice in choices],
            "category": [choice.category for choice in choices],
            "preferred": [choice.preferred for choice in choices],
            "shares": [list(choice.shares) for choice in choices],
            "candidates": [
                [" ".join(texts) for texts in zip(*(part.captions for part in choice.parts), strict=True)]
                for choice in choices
            ],
        }
        numbers = {
            "image": numbers_of(choice.image for choice in choices),
            "category": np.array([tally.categories[choice.category] for choice in choices]),
            "captions": np.array([len(choice.shares) for choice in choices]),
            "shares": np.array([share for choice in choices for share in choice.shares]),
            "parts": np.array([len(choice.parts) for choice in choices]),
        }
        if systems:
            columns["systems"] = [list(choice.systems) for choice in choices]
            numbers["systems"] = np.array([systems[name] for choice in choices for name in choice.systems])
        for name in choices[0].verdicts:
            numbers[f"verdict.{name}"] = np.array([share for choice in choices for share in choice.verdicts[name]])
        content = [sample.content() for sample in samples] + self.content_of(choices)
        return Shard(items, item_of_sample, columns, numbers, content, item_numbers)

    def credit_of(self, collected: Collected, scored: ScoredMetric) -> np.ndarray:
        """Return ``[choices]`` the credit of each by a metric, as the mean over draws; NaN for excluded ones."""
        return self._credit(collected, scored, self._of_sizes(collected, scored))

    def _credit(self, collected: Collected, scored: ScoredMetric, of_sizes: Sequence[ChoicesOfSize]) -> np.ndarray:
        credit, sign = np.full(collected.rows, np.nan), 1 if scored.metric.higher_is_better else -1
        for some in of_sizes:
            of_draws = [self.credit(sign * some.scores[:, draw], some.shares) for draw in range(self.draws)]
            credit[some.rows] = np.mean(of_draws, axis=0)
        return credit

    def _of_sizes(self, collected: Collected, scored: ScoredMetric) -> list[ChoicesOfSize]:
        return [] if scored.scores is None else list(by_size(collected, scored.scores.values, self.draws))

    def results(self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics) -> list[Result]:
        """Return accuracy by category, then overall, with bootstrap intervals over images."""
        results: list[Result] = []
        for entry in scored:
            of_sizes, subject = self._of_sizes(collected, entry), (entry.name, entry.metric.label, entry.error)
            credit = self._credit(collected, entry, of_sizes)
            *of_category, overall = self.accuracies(job, collected, subject, credit)
            remarks = filter(None, [overall.remark, self.remark(collected, of_sizes)])
            results += [*of_category, replace(overall, remark="; ".join(remarks))]
        return results

    def remark(self, collected: Collected, of_sizes: Sequence[ChoicesOfSize]) -> str:
        """Return a remark on a metric's overall accuracy; empty for none.

        Args:
            collected: All choices.
            of_sizes: The choices with the metric's scores, by the number of their captions; none without scores.
        """
        return ""

    def accuracies(
        self, job: Job, collected: Collected, subject: tuple[str, str, str], credit: np.ndarray, statistic: str = ""
    ) -> list[Result]:
        """Return the mean credit of choices, by category and overall, with bootstrap intervals over images.

        Args:
            job: The run.
            collected: Its choices.
            subject: Name and label of the metric or judge, and why it has no credit.
            credit: ``[choices]`` credit of each; NaN for excluded ones.
            statistic: Its name; by default that of the protocol.
        """
        names = collected.summary.categories
        (metric, called, reason), counts, statistic = subject, np.isfinite(credit), statistic or self.statistic
        of_category = [(collected.numbers["category"] == at) & counts for at in range(len(names))]
        parts = [(name, [member]) for name, member in zip(names, of_category, strict=True)]
        whole = of_category if self.average_categories else [np.logical_or.reduce(of_category)]
        # A single category keeps its name.
        parts = [*parts, ("", whole)] if len(names) > 1 else [(names[0], whole)]
        images = first_seen(collected.numbers["image"])
        results: list[Result] = []
        for name, members in parts:
            label = called, " ".join([*statistic.split("_"), *([name] if name or len(names) == 1 else [])])
            n, scale = int(sum(mask.sum() for mask in members)), job.task.scale
            result = Result(metric, statistic, label, None, n, True, scale, reason=reason, category=name)
            estimate = _mean_credit(credit, members), partial(_influence_on_mean, credit, members)
            counted = np.logical_or.reduce(members)
            results.append(estimated_result(job, result, estimate, images, counted=counted))
        return results

    def ranking(
        self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics, results: Sequence[Result]
    ) -> dict[str, Ranking]:
        """Return which metrics differ in the mean credit of choices of all categories."""
        credit = {metric.name: self.credit_of(collected, metric) for metric in scored}
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
        """Return the mean credit over the choices of all categories that all metrics scored."""
        return compare_credit(rows, draws)

    def row_scores(self, collected: Collected, scored: ScoredMetrics) -> RowScores:
        """Return the credit of each choice for a metric (1 right, 0 wrong)."""
        values = {metric.name: self.credit_of(collected, metric) for metric in scored}
        unscored: dict[int, list[str]] = {}
        for metric in scored:
            of_items = np.zeros(len(collected.weights)) if metric.scores is None else metric.scores.values
            for some in by_size(collected, of_items, self.draws):
                lacking = ~np.isfinite(some.scores).all(axis=(1, 2))
                for row in some.rows[lacking].tolist():
                    unscored.setdefault(row, []).append(
                        f"metric {metric.name}: a caption of the {self.sample} has no score"
                    )
        return values, {row: "; ".join(reasons) for row, reasons in sorted(unscored.items())}

    def row_details(self, collected: Collected, scored: ScoredMetrics) -> dict[str, np.ndarray]:
        """Return the scores of all captions of a choice, by metric."""
        columns: dict[str, np.ndarray] = {}
        for metric in scored:
            if metric.scores is not None:
                columns[metric.name] = of_rows = np.empty(collected.rows, object)
                for some in by_size(collected, metric.scores.values, self.draws):
                    for row, scores in zip(some.rows, some.scores.mean(axis=1).tolist(), strict=True):
                        of_rows[row] = [score if math.isfinite(score) else None for score in scores]
        return columns


def compare_credit(rows: ComparedRows, draws: Draws) -> PairedEstimates:
    """Compare metrics by the mean credit of choices (or changed captions), with McNemar's test.

    Args:
        rows: Choices; a metric's value is the credit.
        draws: The resamples, of images.

    Raises:
        UndefinedStatistic: No row has a value of every metric.
    """
    usable = rows.usable
    if not usable.any():
        raise UndefinedStatistic("nothing was judged by all of them")
    credit = {name: values[usable] for name, values in rows.scores.items()}
    groups = first_seen(first_seen(rows.images)[usable])
    images = int(groups.max()) + 1
    estimates = paired_means(credit, groups, draws)

    def mcnemar(metric: str, other: str) -> dict[str, float | None]:
        try:
            p, mid_p = mcnemar_test(credit[metric], credit[other])
        except UndefinedStatistic:
            return {"McNemar": None, "McNemar mid-p": None}
        return {"McNemar": p, "McNemar mid-p": mid_p}

    return PairedEstimates(
        estimates,
        len(groups),
        images,
        classical=mcnemar,
        supposes_independence="McNemar's test" if len(groups) > images else "",
        left_out=rows.left_out,
        is_share=True,
    )


def _mean_credit(credit: np.ndarray, members: Sequence[np.ndarray]) -> Callable[[np.ndarray], float]:
    """Return a function of the weights of choices: the mean over categories of their mean credit."""

    def accuracy(weights: np.ndarray) -> float:
        shares: list[float] = []
        for mask in members:
            if not weights[mask].any():
                raise UndefinedStatistic("a category has no choice that counts")
            shares.append(float(np.average(credit[mask], weights=weights[mask])))
        return float(np.mean(shares))

    return accuracy


def _influence_on_mean(credit: np.ndarray, members: Sequence[np.ndarray]) -> np.ndarray:
    return np.mean([influence_of_mean(credit, 1.0 * mask) for mask in members], axis=0)


@dataclass(frozen=True)
class ChoicesOfSize:
    """The choices with the same number of captions.

    Attributes:
        rows: ``[k]`` indices of their rows.
        scores: ``[k, draws, n]`` score of each caption, the mean over its parts; near ties are ties.
        shares: ``[k, n]`` share of the votes of each caption.
    """

    rows: np.ndarray
    scores: np.ndarray
    shares: np.ndarray


def by_size(collected: Collected, item_values: np.ndarray, draws: int) -> Iterator[ChoicesOfSize]:
    """Yield the choices by the number of their captions.

    Args:
        collected: All choices; ``numbers`` has ``captions`` and ``parts`` of each, and the ``shares`` of all captions.
        item_values: ``[items]`` scores.
        draws: Number of draws of references of each choice.
    """
    numbers = collected.numbers
    sizes, parts = numbers["captions"], numbers["parts"]
    samples = parts * draws * sizes
    values = collected.of_samples(item_values)
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        of_parts = values[_ranges(samples, rows)].reshape(-1, draws, size)
        starts = np.cumsum(parts[rows]) - parts[rows]
        scores = np.add.reduceat(of_parts, starts, axis=0) / parts[rows][:, None, None]
        shares = numbers["shares"][_ranges(sizes, rows)].reshape(-1, size)
        yield ChoicesOfSize(rows, settle(scores), settle(shares))


def _ranges(lengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the indices of the elements of some rows in the concatenation of all rows of such lengths."""
    starts, of_rows = (np.cumsum(lengths) - lengths)[rows], lengths[rows]
    return np.repeat(starts - np.cumsum(of_rows) + of_rows, of_rows) + np.arange(int(of_rows.sum()))


def credit_of_best(scores: np.ndarray, gain: np.ndarray, ties: Ties = "half") -> np.ndarray:
    """Return ``[k]`` the gain of the candidate with the best score; NaN where a score is missing.

    Args:
        scores: ``[k, n]`` scores of captions; higher is better, ties exactly equal.
        gain: ``[k, n]`` credit of each if it is chosen.
        ties: Credit of equal best scores: the mean of their gains (``half``, of two), 0, or the best of them; or
            they are excluded.
    """
    best = scores == scores.max(axis=1, keepdims=True)
    first = np.maximum(best.sum(axis=1), 1)
    credit: np.ndarray = (best * gain).sum(axis=1) / first
    tied = first > 1
    if ties == "right":
        credit = np.where(tied, np.where(best, gain, 0).max(axis=1), credit)
    elif ties != "half":
        credit = np.where(tied, 0.0 if ties == "wrong" else np.nan, credit)
    return np.where(np.isfinite(scores).all(axis=1), credit, np.nan)
