"""The contract of a metric, and its context."""

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np

from ..adapters import Encoder, ImageHandle, Judge
from ..downloads import Resource
from ..errors import MetricError, UsageError, did_you_mean
from ..progress import Reporter, unheard
from .exact_sums import exact_sums, totals
from .items import Items, Scores

_KEEP_SECONDS = 1.0
"""Interval between writes to the cache, in seconds."""
Need = Literal["references", "image", "boxes", "objects", "encoder", "judge"]
"""Required parts of an item (references, image, boxes, objects) or of the context (encoder, judge)."""

COLUMN_OF: Mapping[Need, str] = {"references": "references", "image": "images", "boxes": "boxes", "objects": "objects"}
"""The column of ``Items`` for each need of the data."""

BUILT_IN = f"{__name__.partition('.')[0]}."
"""Beginning of the modules of this package: the version tells their code, and tests their needs."""

State = Mapping[str, np.ndarray]
"""A metric's state of the whole corpus, or of a part of it: arrays of numbers by name, stored without pickle."""


class Cache(Protocol):
    """Stores costly results: JSON values, or arrays, by producer and input.

    ``producer`` says what made the value, with everything that can change it; ``inputs`` are the
    texts that it was made from, or the digests of what is no text.
    """

    def get(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, Any]:
        """Return the values that are known, by input."""
        ...

    def put(self, producer: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Keep values by input; durable when the call returns."""

    def get_arrays(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the arrays that are known, by input."""
        ...

    def put_arrays(self, producer: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays by input; durable when the call returns."""


class NoCache(Cache):
    """A cache that knows nothing and keeps nothing."""

    def get(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def put(self, producer: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Keep nothing."""

    def get_arrays(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Return nothing."""
        return {}

    def put_arrays(self, producer: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Keep nothing."""


def kept(
    cache: Cache,
    producer: Mapping[str, Any],
    inputs: Iterable[str],
    compute: Callable[[list[str]], Iterable[Mapping[str, Any]]],
    progress: Reporter = unheard,
    failed: Collection[str] = (),
    arrays: bool = False,
) -> dict[str, Any]:
    """Return the value of each input: what the cache has, and the others, which are kept a second at a time.

    Args:
        cache: Where values are kept.
        producer: What makes them.
        inputs: The inputs; equal ones have one value.
        compute: Yields the values of inputs, of some at a time.
        progress: Called with (done, total).
        failed: The inputs that ``compute`` has found to have no value: done, too.
        arrays: Whether values are arrays.
    """
    get, put = (cache.get_arrays, cache.put_arrays) if arrays else (cache.get, cache.put)
    unique = list(dict.fromkeys(inputs))
    known: dict[str, Any] = dict(get(producer, unique))
    progress(len(known), len(unique))
    missing = [key for key in unique if key not in known]
    waiting, kept_at = dict[str, Any](), time.monotonic()
    try:
        for new in compute(missing) if missing else ():
            waiting |= new
            known |= new
            # A store's index has the order of hashes: each write changes most of its pages.
            if time.monotonic() - kept_at >= _KEEP_SECONDS:
                batch, waiting = waiting, {}
                put(producer, batch)
                kept_at = time.monotonic()
            progress(len(known) + len(failed), len(unique))
    finally:
        if waiting:
            put(producer, waiting)
    return known


@dataclass(frozen=True)
class Context:
    """The tools of a metric during scoring.

    Attributes:
        cache: Where costly results are kept.
        progress: Called with (done, total) as items are finished.
        encoder: The dual encoder under test, for metrics that need one.
        judge: The text model that judges, for metrics that need one.
    """

    cache: Cache = field(default_factory=NoCache)
    progress: Reporter = unheard
    encoder: Encoder | None = None
    judge: Judge | None = None


PARSEABLE = 20_000
"""Characters of a caption that are aligned, parsed or shown to a judge: no caption that people wrote comes near. Of one
of a million METEOR's jar dies, and alignments and parses take memory by the square of the length."""


class Aggregate:
    """How a system-level value is computed from item scores: the weighted mean, unless a subclass overrides it.

    It is computed from sums over the items, and those of shards add up to those of the whole, exactly: equal items
    with equal weights have one value, to the bit, regardless of their order and shards.
    """

    undefined: str = "no item was scored"
    """Why the value can be NaN."""

    @property
    def has_sums(self) -> bool:
        """Whether its corpus value is made of sums; if not, ``corpus`` must see the scores of all items at once."""
        return type(self).corpus is Aggregate.corpus

    def terms(self, scores: Scores) -> np.ndarray:
        """Return the addends: ``[n, k]`` finite float64, each row times the item's weight.

        An item without a value has zeros. A resample needs no more than ``pool(weights @ terms)``, in plain floating
        point.
        """
        usable = np.isfinite(scores.values)
        return np.array([np.where(usable, scores.values, 0.0), usable]).T

    def pool(self, totals: np.ndarray) -> float:
        """Return the system-level value of weighted sums ``[k]`` of terms; NaN where it is undefined."""
        total, weight = totals.tolist()
        return total / weight if weight else float("nan")

    def sums(self, scores: Scores, weights: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return the weighted sums of a shard's terms, to be added to those of others by :func:`add_sums`.

        Args:
            scores: What ``score`` returned.
            weights: ``[n]`` how often each item counts: whole numbers.

        Returns:
            ``limbs``: ``[k, LIMBS]`` int64.
        """
        return {"limbs": exact_sums(self.terms(scores), weights)}

    def value(self, sums: Mapping[str, np.ndarray]) -> float:
        """Return the system-level value of sums; NaN where it is undefined."""
        return self.pool(totals(sums["limbs"]))

    def corpus(self, scores: Scores, weights: np.ndarray) -> float:
        """Return the system-level value of scored items.

        Args:
            scores: What ``score`` returned.
            weights: ``[n]`` how often each item counts: whole numbers.

        Returns:
            ``value(sums(scores, weights))``; NaN where it is undefined.
        """
        return self.value(self.sums(scores, weights))


MEAN = Aggregate()
"""The weighted mean of items, even where their metric defines a corpus value."""


def add_sums(sums: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the sums of all shards of one metric; their order does not matter."""
    return {name: np.sum([shard[name] for shard in sums], axis=0) for name in sums[0]}


class Metric(Aggregate, ABC):
    """Scores captions one by one.

    A subclass takes its settings as keyword arguments, each with a default, and names itself by the
    class attributes below.
    """

    label: str
    """The name in the field's spelling, as papers print it (``"BLEU-4"``)."""
    range: tuple[float, float] = (0.0, 1.0)
    """Least and greatest value."""
    is_share: bool = False
    """Whether a system's value is a share of captions or of what they name, so that its intervals are Wilson's."""
    higher_is_better: bool = True
    has_direction: bool = True
    """Whether a system that has more of it is better, or worse. False for a count such as ``length``: tables
    have no arrow and no ranks. Comparisons with ratings or another caption still use ``higher_is_better``."""
    needs: frozenset[Need] = frozenset()
    """What ``score`` reads besides candidates; a class of your own that reads more is stopped."""
    encoder_family: str | None = None
    """The family of encoders that it is defined with (``Encoder.family``); None for any."""
    source: str
    """Paper and released code that define the metric."""
    corpus_dependent: bool = False
    """Whether an item's value depends on the other items; if so, and it is no :class:`CorpusMetric`, all items of
    a corpus are scored in one piece."""
    splits_words: bool = False
    """Whether it counts or compares words, which it finds by the spaces between them."""
    english_only: bool = False
    """Whether its words, tables or parser are of English alone."""
    longest_caption: int | None = None
    """Maximum length of a candidate in characters, such as ``PARSEABLE``; longer ones are truncated, and the record
    reports it. None: no limit."""
    is_plain: bool = False
    """Whether it is Python and NumPy alone, which processes forked from this one can go on with: what runs Java, or
    holds the threads of a model's library, cannot be forked."""
    aggregation: Literal["mean", "corpus"] = "mean"
    """How system-level numbers are made in the field: the mean, or the metric's own corpus value."""
    data_files: frozenset[str] = frozenset()
    """Arguments that name a file; a relative path is one in the data set's folder."""
    own_files: frozenset[str] = frozenset()
    """Arguments that name a user's file, relative to the task file that names it, else to the working directory."""
    set_by_data: frozenset[str] = frozenset()
    """Arguments that the field sets for each data set: with any values, the metric is as papers print it."""

    @property
    def direction(self) -> bool | None:
        """Whether a system that has more of it is better; None without a direction (``has_direction``)."""
        return self.higher_is_better if self.has_direction else None

    @property
    def by_id(self) -> bool:
        """Whether scores are found by the ids of rows; each row is then a separate item, even with equal texts."""
        return False

    def cut(self, items: Items) -> Items:
        """Return items whose candidates are no longer than it takes (``longest_caption``)."""
        longest = self.longest_caption
        if longest is None or max(map(len, items.candidates), default=0) <= longest:
            return items
        return replace(items, candidates=[candidate[:longest] for candidate in items.candidates])

    def check(self) -> None:
        """Raise if a requirement of the metric is missing on this machine.

        Raises:
            MetricError: Something is missing; the hint says how to get it.
        """

    def resources(self) -> Sequence[Resource]:
        """Return what ``bench fetch`` fetches for it: files and checkpoints that capbench does not bring."""
        return ()

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that can change a value: settings and the version of what computes it."""
        return {"metric": type(self).__name__, **{k: v for k, v in vars(self).items() if k[0] != "_"}}

    def _settings(self) -> dict[str, Any]:
        """Return the fingerprint of the settings, without the label and the needs, which follow from them."""
        return {key: value for key, value in Metric.fingerprint(self).items() if key not in ("label", "needs")}

    @abstractmethod
    def score(self, items: Items, context: Context) -> Scores:
        """Score each item.

        Args:
            items: ``n`` items; texts are raw.
            context: Cache, progress, models.

        Returns:
            Scores with ``values [n]``.

        Raises:
            MetricError: Nothing could be scored.
        """

    def review(self, shards: Iterable[tuple[Scores, Mapping[int, str]]]) -> Sequence[str]:
        """Return remarks on the scores of a whole run; most metrics have none.

        Args:
            shards: Of each shard what ``score`` returned, and the ids of the items that failed.

        Raises:
            MetricError: They must not become numbers.
        """
        return ()

    @property
    def has_state(self) -> bool:
        """Whether its items can be scored a shard at a time with the state of their corpus."""
        return isinstance(self, CorpusMetric) and self.corpus_dependent


class ShareMetric(Metric):
    """A metric whose value is a share: of what an item counts, and of what all items count together.

    An item with nothing to count has 0, and adds nothing to the system's value.
    """

    is_share = True
    aggregation = "corpus"
    _share: tuple[str, str]
    """The parts that are divided: counts ``[n]``."""

    def terms(self, scores: Scores) -> np.ndarray:
        """Return the two counts of each item of which the value is the ratio."""
        return np.stack([scores.parts[name] for name in self._share], axis=1)

    def _shares(
        self, parts: Mapping[str, np.ndarray], failures: Mapping[int, str], remarks: Mapping[int, str] | None = None
    ) -> Scores:
        """Return the scores of items that were counted."""
        scores = Scores(np.empty(0), dict(parts), dict(failures), dict(remarks or {}))
        part, whole = self.terms(scores).T
        values = np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
        values[list(failures)] = np.nan
        return replace(scores, values=values)


class CorpusMetric(Metric):
    """A metric whose items' values depend on the corpus, by a state that is made a shard at a time.

    ``state_map`` of each shard, ``merge`` over all shards, ``condense``, ``join``; with what ``join`` returns each
    shard is scored. A state may be cut by ``partition`` before: then each part is merged over the shards and
    condensed separately. Every item's value is the same to the bit for any shards, in any order, with any number of
    parts.
    """

    corpus_dependent = True

    @abstractmethod
    def state_map(self, items: Items, context: Context) -> State:
        """Return the state of a shard's items, which may be none."""

    @abstractmethod
    def partition(self, state: State, parts: int) -> list[State]:
        """Cut a state into ``parts`` parts; all shards are cut at the same places."""

    @abstractmethod
    def merge(self, states: Sequence[State]) -> State:
        """Return the state of all items of several shards; associative, commutative, exact.

        Raises:
            MetricError: A state is of another metric.
        """

    def condense(self, state: State) -> State:
        """Return what ``join`` needs of a state, or a part of one, that is merged over all shards of the corpus."""
        return state

    @abstractmethod
    def join(self, states: Sequence[State]) -> State:
        """Return the state that items are scored with.

        Args:
            states: The condensed parts of the corpus' state, all of them.

        Raises:
            MetricError: No item of the corpus can be scored, or a state is of another metric.
        """

    @abstractmethod
    def score(self, items: Items, context: Context, state: State | None = None) -> Scores:
        """Score each item; see ``Metric.score``.

        Args:
            items: Items of the corpus.
            context: Cache, progress, models.
            state: What ``join`` returned of the corpus; None where ``items`` are all of it.

        Raises:
            MetricError: Nothing could be scored, or the state is of another metric.
        """

    def keep(self, items: Items) -> Mapping[str, np.ndarray]:
        """Return what ``state_map`` has derived from the items and ``score`` needs again: arrays of numbers by name."""
        return {}

    def restore(self, items: Items, kept: Mapping[str, np.ndarray]) -> None:
        """Give the same items, read again, the result of ``keep``, so that ``score`` need not derive it again."""

    def joined(self, states: Sequence[State]) -> State:
        """Return the state that items are scored with, of the states of all shards."""
        return self.join([self.condense(self.merge(states))])


def require_choice(setting: str, value: object, choices: Sequence[object]) -> None:
    """Raise if a setting has none of the values that it may have.

    Raises:
        ValueError: It names the setting and its values.
    """
    if value not in choices:
        raise ValueError(f"'{setting}' must be {', '.join(map(str, choices[:-1]))} or {choices[-1]}, not {value!r}")


def require_settings(user: str, takes: Callable[..., Any], names: Iterable[str], own: Collection[str] = ()) -> None:
    """Raise if something does not take a setting that was given.

    Args:
        user: What messages call it.
        takes: What is called with the settings.
        names: Their names.
        own: Its parameters that are no settings.

    Raises:
        UsageError: It names the setting, and those that there are.
    """
    known = inspect.signature(takes).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values()):
        return
    if unknown := sorted(set(names) - known.keys()):
        raise UsageError(
            f"{user} has no setting '{unknown[0]}'.{did_you_mean(unknown[0], known)}",
            f"Its settings: {', '.join(name for name in known if name not in own) or 'none'}.",
        )


def images_of(metric: Metric, items: Items) -> tuple[dict[int, ImageHandle], dict[int, str]]:
    """Return the image of each item, and the failures of items that have a video.

    Raises:
        MetricError: The items have no images.
    """
    if not items.images:
        raise MetricError(f"{metric.label} needs images; these captions have none.")
    images = {item: handle for item, handle in enumerate(items.images) if isinstance(handle, ImageHandle)}
    return images, {
        item: f"{metric.label} takes images, and this is a video: {handle.name}"
        for item, handle in enumerate(items.images)
        if item not in images
    }


def labelled(metric: Metric, variants: Sequence[str]) -> str:
    """Return the label of a metric's class, with its deviations from the released one."""
    return f"{type(metric).label} ({', '.join(variants)})" if variants else type(metric).label


def check_state(metric: Metric, state: State, names: frozenset[str]) -> None:
    """Raise if a state does not hold what a metric's does.

    Raises:
        MetricError: It lacks an array, or has one more.
    """
    if state.keys() != names:
        raise MetricError(
            f"{metric.label}: the state has {', '.join(sorted(state)) or 'nothing'}, not {', '.join(sorted(names))}.",
            "A state belongs to the metric, and the step, that made it: see capbench.metrics.CorpusMetric.",
        )
