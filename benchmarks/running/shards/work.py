"""Carries out units: the one place where a run computes, whatever engine placed them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from ....adapters import Captioned
from ....allocation import seldom_collected
from ....errors import StoreError
from ....mapped_numbers import let_go
from ....metrics import Cache, Context, CorpusMetric, Items, NoCache, Scores
from ....progress import Progress, silent
from ...inputs.asking import answers, merged
from ...inputs.encoding import encode_items
from ...inputs.models import Models
from ...store.store import Store
from ..planned_metrics import PlannedMetric
from ..units import Unit, UnitReport
from .models import AnyModels, model_facts
from .scoring import attempt, remarked, score_shard
from .shelf import Arrays, MetricScores, ShardScores, Shelf, Value, derived
from .states import CorpusStates

NOT_SURVIVED = "no worker that scored it survived"
"""Why a document that is left out of a unit has no result."""


@dataclass(frozen=True)
class RunWork:
    """The work of one run, with its models, in one process.

    Attributes:
        metrics: The metrics of the run.
        shelf: Where units find what they are given, and leave what they made.
        models: What units need of models.
        cache: Where costly results are kept, item by item.
        progress: Gives a reporter for a step.
        batch_size: Captions asked of the model at once; None leaves it to the adapter.
    """

    metrics: Sequence[PlannedMetric]
    shelf: Shelf
    models: AnyModels = field(default_factory=Models)
    cache: Cache = field(default_factory=NoCache)
    progress: Progress = silent
    batch_size: int | None = None

    def is_done(self, unit: Unit) -> bool:
        """Return whether the result of a unit is there."""
        # Of what machines share, to ask is to read.
        is_there = self.shelf.has(unit.key)
        if unit.stage != "frequencies" or not is_there:
            return is_there
        (planned,) = (one for one in self.metrics if one.name in unit.metrics)
        error = _error_of(self.shelf.arrays(unit.key))
        return error != "" or self._states(planned).is_merged(unit.key, len(unit.needs))

    @seldom_collected()
    def run_unit(self, unit: Unit) -> UnitReport:
        """Compute a unit, and leave its result on the shelf."""
        start, (hits, computed) = perf_counter(), self._counts
        if not self.is_done(unit):
            made: Mapping[str, Callable[[Unit], Value]] = {
                "caption": self._caption,
                "encode": self._encode,
                "score": self._score,
                "frequencies": self._merge,
            }
            before = model_facts(self.models, unit.pool)
            result = made[unit.stage](unit)
            if (after := model_facts(self.models, unit.pool)) is not None and before is not None:
                self.shelf.put(facts_key(unit), {"facts": after.since(before).to_array()})
            self.shelf.put(unit.key, result)
        found, made_new = self._counts
        return UnitReport(perf_counter() - start, found - hits, made_new - computed)

    @property
    def _counts(self) -> tuple[int, int]:
        """How much the store knew, and how much it was given."""
        return (self.cache.hits, self.cache.computed) if isinstance(self.cache, Store) else (0, 0)

    def release(self, pool: str) -> None:
        """Let go of a model that was loaded here."""
        self.models.release(pool)

    def _context(self, planned: PlannedMetric) -> Context:
        needs = planned.metric.needs
        return Context(
            self.cache,
            self.progress(planned.name),
            encoder=self.models.encoder if "encoder" in needs else None,
            judge=self.models.judge if "judge" in needs else None,
        )

    def _caption(self, unit: Unit) -> Captioned:
        """Ask the captioner."""
        captioner = self.models.captioner
        assert captioner is not None  # noqa: S101 - the unit is of its pool
        requests = self.shelf.requests(unit.inputs[0])
        asked = [requests[at] for at in unit.documents]
        pieces = answers(captioner, asked, self.cache, self.batch_size, self.progress("captions"), len(asked))
        given = merged(pieces)
        at = unit.documents
        return Captioned(
            {at[place]: caption for place, caption in given.captions.items()},
            {at[place]: reason for place, reason in given.failures.items()}
            | dict.fromkeys(unit.without, NOT_SURVIVED),
            {at[place]: reason for place, reason in given.unseen.items()},
            frozenset(at[place] for place in given.absent),
        )

    def _encode(self, unit: Unit) -> Arrays:
        """Encode the images of items, and their references."""
        items, kept = self.shelf.items(unit.inputs[0]), np.array(unit.documents, dtype=np.int64)
        references = np.array([len(one) for one in items.references], dtype=np.int64)
        made = encode_items(items.subset(kept), self.models.encoder, self.cache, self.progress)
        return made.spread(kept, references, NOT_SURVIVED).to_arrays()

    def _score(self, unit: Unit) -> ShardScores:
        """Score the items of a shard, or of all, with the metrics of a unit.

        Of a metric that looks at the corpus only what is known of it here is made, unless the unit needs its state,
        or is of the whole corpus.
        """
        items = self._items(unit)
        if unit.documents != tuple(range(len(items))):
            return self._score_part(unit, items)
        return self._score_items(unit, items)

    def _score_items(self, unit: Unit, items: Items, *, is_part: bool = False) -> ShardScores:
        planned = [one for one in self.metrics if one.name in unit.metrics]
        if unit.needs:
            return self._score_with_states(unit, planned, items, is_part)
        later = [one for one in planned if one.metric.has_state and not unit.whole]
        scores = score_shard(items, [one for one in planned if one not in later], self._context)
        faults = [fault for one in later if (fault := self._map_state(unit, one, items, is_part))]
        return remarked(replace(scores, metrics=[*scores.metrics, *faults]), items, planned)

    def _items(self, unit: Unit) -> Items:
        """Return what a unit scores: the items of its shard, or the distinct ones of all."""
        if len(unit.inputs) == 1:
            return self.shelf.items(unit.inputs[0])
        *shards, distinct = unit.inputs
        items = Items.concatenate([self.shelf.items(key) for key in shards])
        kept = self.shelf.arrays(distinct)
        return replace(_chosen(items, kept["first"]), weights=kept["weights"])

    def _score_part(self, unit: Unit, items: Items) -> ShardScores:
        """Score what is asked for of a shard; the others have a reason why they have no score."""
        kept = np.array(unit.documents, dtype=np.int64)
        made = self._score_items(unit, _chosen(items, kept), is_part=True)
        left = dict.fromkeys(unit.without, NOT_SURVIVED)
        metrics = [
            replace(one, scores=_spread(one.scores, kept, len(items), left)) if one.scores else one
            for one in made.metrics
        ]
        ids = {int(kept[item]): identity for item, identity in made.ids.items()}
        remarks = {int(kept[item]): remark for item, remark in made.remarks.items()}
        return ShardScores(metrics, {**ids, **{item: items.ids[item] for item in left}}, remarks)

    def _map_state(
        self, unit: Unit, planned: PlannedMetric, items: Items, is_part: bool
    ) -> MetricScores | None:
        """Put what a shard says of its corpora on the shelf; return the fault where that fails."""
        start, states = perf_counter(), self._states(planned)
        parts, error = None, planned.error
        if not error:
            parts, error = attempt(lambda: states.mapped(items, self._context(planned)))
        if parts is not None:
            states.put(unit.key, parts, None if is_part else items)
        return MetricScores(planned.name, None, error, perf_counter() - start) if error else None

    def _merge(self, unit: Unit) -> Arrays:
        """Put a part of the states of all shards together; return why not, where the metric failed on a shard."""
        (planned,) = (one for one in self.metrics if one.name in unit.metrics)
        assert unit.part is not None  # noqa: S101 - it merges
        states = self._states(planned)
        # What looked things up has done its part.
        let_go()
        try:
            states.merge(unit.key, unit.part, unit.needs)
        except StoreError:
            for key in unit.needs:
                for one in self.shelf.scores(key).metrics:
                    if one.name == planned.name and one.error:
                        return {"error": np.frombuffer(one.error.encode(), np.uint8)}
            states.forget_incomplete(unit.needs)
            raise
        return {}

    def _score_with_states(
        self, unit: Unit, planned: Sequence[PlannedMetric], items: Items, is_part: bool
    ) -> ShardScores:
        """Score a shard by the state of the whole corpus."""
        (one,), (*merged, mapped) = planned, unit.needs
        joined, error = None, _error_of(self.shelf.arrays(merged[0]))
        if not error:
            states = self._states(one)
            if not is_part:
                states.restore(mapped, items)
            of_corpus = states.told(merged, unit.shard, items)
            joined, error = attempt(
                lambda: {corpus: states.metric.join(parts) for corpus, parts in of_corpus.items()}
            )
        if joined is None:
            return ShardScores([MetricScores(one.name, None, error)], {})
        return score_shard(items, planned, self._context, {one.name: joined})

    def _states(self, planned: PlannedMetric) -> CorpusStates:
        assert isinstance(planned.metric, CorpusMetric)  # noqa: S101 - it has a state
        return CorpusStates(self.shelf, planned.metric, planned.name)


def _chosen(items: Items, which: np.ndarray) -> Items:
    """Return some of the items, each of its own corpus."""
    return replace(items.subset(which), corpus=None if items.corpus is None else items.corpus[which])


def _error_of(merged: Arrays) -> str:
    """Return why states could not be merged; empty if they were."""
    return merged["error"].tobytes().decode() if "error" in merged else ""


def facts_key(unit: Unit) -> str:
    """Return under which key lies what a record says of the model that a unit used."""
    return derived(unit.key, "model")


def _spread(scores: Scores, kept: np.ndarray, n: int, left: Mapping[int, str]) -> Scores:
    """Return the scores of some items as those of all ``n``, with the reasons of those that were left out."""

    def spread(part: np.ndarray) -> np.ndarray:
        whole = np.full((n, *part.shape[1:]), np.nan)
        whole[kept] = part
        return whole

    failures = {int(kept[item]): reason for item, reason in scores.failures.items()}
    remarks = {int(kept[item]): remark for item, remark in scores.remarks.items()}
    parts = {name: spread(part) for name, part in scores.parts.items()}
    return Scores(spread(scores.values), parts, failures | dict(left), remarks)
