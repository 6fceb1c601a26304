"""Scores items: the only module that calls metrics; a failing metric does not affect the others."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from ...errors import AdapterError, BenchError, MetricError
from ...metrics import Cache, Context, Items, Metric, NoCache, Scores, State, add_sums
from ...metrics.contract import BUILT_IN, COLUMN_OF
from ...progress import Progress, silent
from ..inputs.failures import Failure, FailureLog
from ..inputs.models import AnyModels, ModelFacts, Models
from ..protocols.job import Collected, ScoredMetric, Shard, Shards, Summary
from ..records.hashes import DataHash

if TYPE_CHECKING:
    from ...adapters import ImageHandle, VideoHandle
    from .execution import Corpus
    from .planned_metrics import PlannedMetric

States = Mapping[int, State]
"""The state of each corpus (``Items.corpus``), by its number."""

_UNSPACED = re.compile(
    # Thai and Lao, Burmese, Khmer, kana, Han: more consecutive letters than a word has.
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]{5}"
)
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_UNSPACED_REMARK = "is written without spaces between words, and metrics that count words take it for one"


@dataclass(frozen=True)
class MetricScores:
    """The output of a metric for some items.

    Attributes:
        name: The name of the metric.
        scores: Scores of the items; None where it failed as a whole.
        error: Why it failed.
        seconds: Its duration in seconds.
        sums: The sums of its system-level value (``Aggregate.sums``); None where it must see all scores.
        counted: Number of samples with a score.
        of_model: Whether its model failed as a whole: then the metric has no number, even if other shards have.
    """

    name: str
    scores: Scores | None
    error: str
    seconds: float
    sums: Mapping[str, np.ndarray] | None
    counted: int
    of_model: bool


class OneShard:
    """The corpus of a run with one shard; :class:`~..scale.merge.ShardedCorpus` is that of several.

    Args:
        shard: The shard.
        summary: The summary of the protocol.

    Attributes:
        is_in_files: Whether its rows are in files, which are deleted with the run.
        distinct: None: its items are distinct.
        collected: The items of the rows, and their numbers.
        has_images: Whether any item has an image.
    """

    is_in_files = False
    distinct = None

    def __init__(self, shard: Shard, summary: Summary) -> None:
        self.shard = shard
        self.collected = Collected(
            shard.item_of_sample, shard.items.weights, shard.numbers, summary, len(shard.columns["id"])
        )
        self.has_images = bool(shard.items.images)

    @property
    def words(self) -> np.ndarray | None:
        """``[rows]`` words of each caption; None where rows are not single captions."""
        return self.shard.words

    @property
    def data_hash(self) -> str:
        """Hash of the scored data."""
        hashes = DataHash()
        hashes.add(self.shard)
        return hashes.data

    @property
    def images_hash(self) -> str | None:
        """Hash of its images; None where there are none."""
        return DataHash().add_images(self.shard.items)

    def columns(self) -> Iterator[Mapping[str, Sequence[Any]]]:
        """Yield the columns of the rows, shard by shard."""
        yield self.shard.columns

    def sample(self, row: int) -> tuple[str, ImageHandle | VideoHandle | None]:
        """Return the id and the image of a row that is a single caption."""
        images = self.shard.items.images
        return self.shard.columns["id"][row], images[self.shard.item_of_sample[row]] if images else None


@dataclass(frozen=True)
class Scored:
    """A corpus and its scores.

    Attributes:
        corpus: The corpus.
        metrics: The scores of each metric.
        seconds: The duration of each in seconds.
        counts: Number of samples that each scored.
        remarks: The remarks.
        facts: The facts of the used models, by role.
    """

    corpus: Corpus
    metrics: Sequence[ScoredMetric]
    seconds: Mapping[str, float]
    counts: Mapping[str, int]
    remarks: Sequence[Failure]
    facts: Mapping[str, ModelFacts] = field(default_factory=dict[str, ModelFacts])


@dataclass(frozen=True)
class Scorer:
    """Metrics with their models and cache.

    Attributes:
        metrics: The metrics.
        models: The models that they need.
        cache: The cache of expensive results, by item.
        progress: Returns a reporter for a step.
    """

    metrics: Sequence[PlannedMetric]
    models: AnyModels = field(default_factory=Models)
    cache: Cache = field(default_factory=NoCache)
    progress: Progress = silent

    def score(
        self, items: Items, metrics: Sequence[PlannedMetric] | None = None, states: Mapping[str, States] | None = None
    ) -> list[MetricScores]:
        """Return the output of each metric for items, with an error where it fails as a whole.

        Args:
            items: The items.
            metrics: Some of the metrics; None for all.
            states: Metric that depends on other items of the run to their state; by default that of ``items``.
        """
        results: list[MetricScores] = []
        for planned in self.metrics if metrics is None else metrics:
            start = perf_counter()
            metric, scores, error, of_model = planned.metric, None, planned.error, False
            if not error:
                # An error of loading a model is not one of the metric.
                context = self.context(metric, planned.name)
                try:
                    scores = score_metric(metric, items, context, states.get(planned.name) if states else None)
                except Exception as failure:  # noqa: BLE001 - a fault in one metric must not affect the others
                    error, of_model = describe(failure), isinstance(failure, AdapterError)
            sums, counted = None, 0
            if scores is not None:
                if planned.aggregate.has_sums:
                    sums, error = attempt(partial(planned.aggregate.sums, scores, items.weights))
                counted = int(items.weights[np.isfinite(scores.values)].sum())
            if error:
                scores, counted = None, 0
            seconds = perf_counter() - start
            results.append(MetricScores(planned.name, scores, error, seconds, sums, counted, of_model))
        return results

    def context(self, metric: Metric, name: str) -> Context:
        """Return the context of a metric."""
        encoder = self.models.encoder if "encoder" in metric.needs else None
        judge = self.models.judge if "judge" in metric.needs else None
        return Context(self.cache, self.progress(name), encoder, judge)


def score_metric(metric: Metric, items: Items, context: Context, states: States | None = None) -> Scores:
    """Score items with one metric, each corpus separately where it depends on other items.

    Raises:
        BenchError: Nothing could be scored.
    """
    if metric.longest_caption is not None:
        items = metric.cut(items)
    if "image" in metric.needs and not items.images:
        raise MetricError(
            "it looks at images, and none of those that the captions are of was found on this machine.",
            "A task names their folder with image_folder, inside the data's own (docs/tasks.md); or 'doc_to_image' "
            "gives paths.",
        )
    if not type(metric).__module__.startswith(BUILT_IN):
        items = _declared(metric, items)
    if states is None and (items.corpus is None or not metric.corpus_dependent):
        return _checked(metric.score(items, context), len(items))
    values = np.full(len(items), np.nan)
    parts: dict[str, np.ndarray] = {}
    failures: dict[int, str] = {}
    remarks: dict[int, str] = {}
    for corpus, which in corpora(items):
        own = items if which is None else items.subset(which)
        state = [states[corpus]] if states is not None else []
        scores = _checked(metric.score(own, context, *state), len(own))
        if which is None:
            return scores
        values[which] = scores.values
        failures |= {int(which[item]): reason for item, reason in scores.failures.items()}
        remarks |= {int(which[item]): remark for item, remark in scores.remarks.items()}
        for name, part in scores.parts.items():
            parts.setdefault(name, np.full((len(items), *part.shape[1:]), np.nan))[which] = part
    return Scores(values, parts, failures, remarks)


class _Undeclared(Sequence[Any]):
    """A column of items that a metric does not declare: it is there for other metrics, so reading it is an error."""

    def __init__(self, need: str) -> None:
        self._need = need

    def __bool__(self) -> bool:
        return False

    def _refuse(self, *_: Any) -> NoReturn:
        raise MetricError(
            f"it reads {self._need}, which its 'needs' does not name.",
            f'Set needs = frozenset({{"{self._need}", ...}}) in its class.',
        )

    __getitem__ = __len__ = __iter__ = _refuse


def _declared(metric: Metric, items: Items) -> Items:
    """Return the items as a metric of the user's sees them: without the columns that it does not declare."""
    hidden: dict[str, Any] = {
        column: _Undeclared(need)
        for need, column in COLUMN_OF.items()
        if need not in metric.needs and getattr(items, column)
    }
    # The same object keeps what metrics derived from the texts.
    return replace(items, **hidden) if hidden else items


def score_shards(scorer: Scorer, shards: Shards, failures: FailureLog, large: Callable[[Shards], Scored]) -> Scored:
    """Score the items of a protocol or another source.

    Args:
        scorer: The scorer.
        shards: The source.
        failures: Receives items that metrics cannot score.
        large: Scores a source of more than one shard.
    """
    waiting = [next(shards)]
    try:
        waiting.insert(0, next(shards))
    except StopIteration as end:
        items = waiting[0].items
        pieces = {each.name: [PieceScores(0, len(items), each, items.ids)] for each in scorer.score(items)}
        said = remarks_on(items, scorer.metrics)
        remarks = [Failure(items.ids[item], "candidate", text) for item, text in said.items()]
        return merge_scores(scorer.metrics, OneShard(waiting.pop(), end.value), pieces.__getitem__, remarks, failures)

    def every() -> Shards:
        while waiting:
            yield waiting.pop()
        return (yield from shards)

    return large(every())


class PieceScores(NamedTuple):
    """The output of a metric for some items of a run.

    Attributes:
        first: Number of the first item.
        size: Number of items.
        output: The output.
        ids: Ids of items without a score or with a remark, by number; of all items where it failed.
    """

    first: int
    size: int
    output: MetricScores
    ids: Mapping[int, str] | Sequence[str]


def merge_scores(
    metrics: Sequence[PlannedMetric],
    corpus: Corpus,
    pieces: Callable[[str], Iterable[PieceScores]],
    candidates: Iterable[Failure],
    failures: FailureLog,
    *,
    of_all: Container[str] = (),
    errors: Mapping[str, str] = {},
) -> Scored:
    """Return the scores of all items by metrics.

    Args:
        metrics: The metrics.
        corpus: The corpus.
        pieces: Yields the output of a metric, piece by piece, at each call.
        candidates: The remarks on captions.
        failures: Receives items that metrics cannot score.
        of_all: Metrics that scored the distinct items of the corpus at once.
        errors: Metric to the reason why it has no scores.
    """
    scored: list[ScoredMetric] = []
    seconds, counts = dict[str, float](), dict[str, int]()
    remarks, reviewed = dict[Failure, None](), list[Failure]()
    for planned in metrics:
        name, own_pieces = planned.name, partial(pieces, planned.name)
        distinct = None if name in of_all else corpus.distinct
        merged = _MergedPieces(planned, distinct)
        for piece in own_pieces():
            merged.add(piece)
        remarks |= dict.fromkeys(merged.remarks.values())
        error = errors.get(name) or merged.error
        if not error and type(planned.metric).review is not Metric.review:
            said, error = attempt(partial(planned.metric.review, _reviewable(own_pieces())))
            reviewed += [Failure(name, "metric", text) for text in said or ()]
        seconds[name] = merged.seconds
        counts[name] = 0 if error and merged.model_error else merged.counted
        scores = None if error else merged.scores()
        if scores is None:
            scored.append(ScoredMetric(name, planned.metric, planned.aggregation, None, error))
            continue
        for sample, reason in merged.lost.values():
            failures.add(sample, "metric", f"{name}: {reason}")
        terms = None if merged.sums is None else partial(_terms, planned, own_pieces, distinct and distinct[0])
        scored.append(ScoredMetric(name, planned.metric, planned.aggregation, scores, "", merged.sums, terms))
    return Scored(corpus, scored, seconds, counts, list(dict.fromkeys([*remarks, *candidates, *reviewed])))


class _MergedPieces:
    """The merged output of a metric for the pieces of a corpus.

    Args:
        planned: The metric.
        distinct: The equal items of the pieces (``Corpus.distinct``); None where there are none.

    Attributes:
        seconds: Its duration in seconds.
        counted: Number of items that it counted as done.
        sums: The sums of its system-level value; None where that needs the scores of all items.
        lost: Item to the id of its sample and why it has no score; after :meth:`scores`, by distinct item.
        remarks: The remarks on images, by distinct item and text.
        model_error: Why its model failed; or empty.
    """

    def __init__(self, planned: PlannedMetric, distinct: tuple[np.ndarray, np.ndarray] | None) -> None:
        self.seconds, self.counted = 0.0, 0
        self.sums: Mapping[str, np.ndarray] | None = None
        self.lost: dict[int, tuple[str, str]] = {}
        self.remarks: dict[tuple[int, str], Failure] = {}
        self.model_error = self._first_error = ""
        self._distinct = distinct
        self._keeps_parts = planned.aggregation == "corpus" and not planned.aggregate.has_sums
        self._columns: list[tuple[int, dict[str, np.ndarray] | None]] = []
        self._known: dict[str, np.ndarray] | None = None

    @property
    def error(self) -> str:
        """Why there are no scores; or empty."""
        return self.model_error or (self._first_error if self._known is None else "")

    def add(self, piece: PieceScores) -> None:
        """Add the next piece."""
        first, size, scored, ids = piece
        self.seconds += scored.seconds
        self.counted += scored.counted
        if (scores := scored.scores) is None:
            self._first_error = self._first_error or scored.error
            self.model_error = self.model_error or (scored.error if scored.of_model else "")
            # Where it failed on all pieces, the metric's error is reported instead.
            self.lost |= {first + item: (ids[item], scored.error) for item in range(len(ids))}
            self._columns.append((size, None))
            return
        if scored.sums is not None:
            self.sums = scored.sums if self.sums is None else add_sums([self.sums, scored.sums])
        self.lost |= {first + item: (ids[item], reason) for item, reason in scores.failures.items()}
        for item, text in scores.remarks.items():
            number = first + item if self._distinct is None else int(self._distinct[1][first + item])
            self.remarks.setdefault((number, text), Failure(ids[item], "image", text))
        # Copied: the file is mapped only while it is read.
        arrays = {"": np.array(scores.values)}
        for part, values in scores.parts.items():
            if self._keeps_parts or part == "truncated":
                arrays[part] = np.array(values)
        self._columns.append((size, arrays))
        self._known = self._known or arrays

    def scores(self) -> Scores | None:
        """Return the scores of the distinct items, from their first occurrence; None where no piece has any."""
        if self._known is None:
            return None
        merged: dict[str, np.ndarray] = {}
        for part, like in self._known.items():
            columns = [
                np.full((size, *like.shape[1:]), np.nan) if of is None else of[part] for size, of in self._columns
            ]
            merged[part] = np.concatenate(columns)
            if self._distinct is not None:
                merged[part] = merged[part][self._distinct[0]]
        self.lost = dict(sorted(self.lost.items()))
        if self._distinct is not None and self.lost:
            first_items = enumerate(self._distinct[0].tolist())
            self.lost = {place: self.lost[item] for place, item in first_items if item in self.lost}
        failures = {item: reason for item, (_, reason) in self.lost.items()}
        return Scores(merged.pop(""), merged, failures)


def _reviewable(pieces: Iterable[PieceScores]) -> Iterator[tuple[Scores, Mapping[int, str]]]:
    """Yield the scores of each piece with scores, and the ids of the items that could not be scored."""
    for _, _, scored, ids in pieces:
        if scored.scores is not None:
            yield scored.scores, {item: ids[item] for item in scored.scores.failures}


def _terms(
    planned: PlannedMetric, pieces: Callable[[], Iterable[PieceScores]], chosen: np.ndarray | None
) -> Iterator[np.ndarray]:
    """Yield ``[m, t]`` the terms of distinct items in the sums of a metric, piece by piece."""
    for first, size, scored, _ in pieces():
        if scored.scores is None:
            like = next(piece.output.scores for piece in pieces() if piece.output.scores is not None)
            terms = np.zeros((size, planned.aggregate.terms(like).shape[1]))
        else:
            terms = planned.aggregate.terms(scored.scores)
        yield terms if chosen is None else terms[chosen[slice(*np.searchsorted(chosen, [first, first + size]))] - first]


def remarks_on(items: Items, metrics: Sequence[PlannedMetric]) -> dict[int, str]:
    """Return a remark by item on each candidate that metrics truncate or whose words they cannot count."""
    remarks: dict[int, str] = {}
    limits: dict[int, list[str]] = {}
    splits_words, english = False, dict[str, None]()
    for planned in metrics:
        splits_words = splits_words or planned.metric.splits_words
        if planned.metric.english_only:
            english[planned.metric.label] = None
        if (longest := planned.metric.longest_caption) is not None:
            limits.setdefault(longest, []).append(planned.metric.label)
    for item, candidate in enumerate(items.candidates if splits_words or english else ()):
        if candidate.isascii():
            continue
        if splits_words and _UNSPACED.search(candidate):
            remarks[item] = _UNSPACED_REMARK
        elif english and not _LATIN.search(candidate):
            remarks[item] = f"is not in Latin letters, and {', '.join(english)} reads English alone"
    for longest, labels in limits.items():
        cut = f"is cut at {longest:,} characters for {', '.join(dict.fromkeys(labels))}"
        for item, candidate in enumerate(items.candidates):
            if len(candidate) > longest:
                remarks[item] = f"{remarks[item]}; {cut}" if item in remarks else cut
    return remarks


def attempt(call: Callable[[], Any]) -> tuple[Any, str]:
    """Return the result of a call, or its error: a fault in one metric must not affect the others."""
    try:
        return call(), ""
    except Exception as failure:  # noqa: BLE001 - see the docstring
        return None, describe(failure)


def describe(failure: Exception) -> str:
    """Return why a metric failed, with the location for unexpected errors."""
    if isinstance(failure, BenchError):
        return str(failure)
    place = traceback.extract_tb(failure.__traceback__)[-1]
    return f"{type(failure).__name__}: {failure} ({place.filename}:{place.lineno})"


def corpora(items: Items) -> Iterator[tuple[int, np.ndarray | None]]:
    """Yield the number of each corpus among items, and its mask ``[n]``; None where it has all items."""
    numbers = np.unique(items.corpus) if items.corpus is not None else np.zeros(1, np.int64)
    for number in numbers.tolist():
        yield number, None if len(numbers) == 1 else np.flatnonzero(items.corpus == number)


def _checked(scores: Scores, count: int) -> Scores:
    """Return scores with a reason for each item that has none.

    Raises:
        MetricError: The metric returned something else.
    """
    if not isinstance(scores, Scores) or np.shape(scores.values) != (count,):
        raise MetricError("score() did not return Scores with one value an item", "See capbench.metrics.Metric.score.")
    nameless = set((~np.isfinite(scores.values)).nonzero()[0].tolist()) - scores.failures.keys()
    if not nameless:
        return scores
    reasons = dict.fromkeys(sorted(nameless), "the metric gave no finite value")
    return replace(scores, failures={**scores.failures, **reasons})
