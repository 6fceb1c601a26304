"""Maps the path of a small run over shards: what looks at no other item, the corpus' state, and what needs that."""

from __future__ import annotations

import pickle
import secrets
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ...adapters import Captioned, CaptionRequest, ImageHandle, VideoHandle
from ...adapters.pixels.handles import digests
from ...allocation import give_back_large_blocks, seldom_collected
from ...metrics import Cache, CorpusMetric, Items
from ...permissions import Permissions, permit
from ...progress import Progress, silent
from ..inputs.asking import answers, merged
from ..inputs.encoding import AnyEncoded, encode_items, encoded_of_arrays
from ..inputs.failures import FailureLog
from ..inputs.models import ROLES, AnyModels, ModelFacts, added_up, model_facts
from ..protocols.job import Shard, Summary
from ..running.planned_metrics import PlannedMetric, metric_fingerprints, pool_of
from ..running.scoring import Scored, Scorer, attempt, remarks_on
from ..store.store import Store
from .collecting import ShardedCorpus, ShardRef
from .executors import Executor
from .merge import map_state, merge_scores, merge_states, merged_states, restore
from .progress_file import progress_written
from .shards import ShardFiles, ShardResult, name_of

_Given = TypeVar("_Given", Sequence[CaptionRequest], Items)
_Made = TypeVar("_Made")
_ITEMS_AT_HAND = 2


@dataclass(frozen=True)
class ShardCall:
    """What a worker is to make of a shard.

    Attributes:
        name: What messages call it.
        result: Name of the file that it writes.
        items: Names of the files of items; of several shards, all are scored together.
        metrics: Those that score.
        states: Metric to the name of the file into which what the items say of the corpus is written.
        merged: Metric to the names of the state of the corpus, and of what these items said of it.
        distinct: Name of the file that says which of the items of several shards are distinct.
        with_remarks: Whether candidates are remarked on.
    """

    name: str
    result: str
    items: Sequence[str]
    metrics: Sequence[str] = ()
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    merged: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    distinct: str = ""
    with_remarks: bool = False


@dataclass(frozen=True)
class ShardDone:
    """What a worker says of a call.

    Attributes:
        result: Name of the file that it wrote.
        faults: Metric to why it could not tell its state.
        facts: What a record says of the models that were used, by role.
        found: Results that the store knew.
        computed: Results that it was given.
    """

    result: str
    faults: Mapping[str, str] = field(default_factory=dict[str, str])
    facts: Mapping[str, ModelFacts] = field(default_factory=dict[str, ModelFacts])
    found: int = 0
    computed: int = 0


@dataclass
class ShardWork:
    """What workers are sent: it stays with them, and with it the models that it loads.

    Attributes:
        files: The files of the run's shards.
        metrics: The metrics of the run.
        models: What they need of models.
        cache: Where costly results are kept, item by item; or the file of the store, which each process opens.
        progress: Gives a reporter for a step, in this process.
        batch_size: Captions asked of the model at once; None leaves it to the adapter.
        permissions: What files may decide.
        attempt: Part of the names of results that the next run is to make anew.
    """

    files: ShardFiles
    metrics: Sequence[PlannedMetric]
    models: AnyModels
    cache: Cache | Path
    progress: Progress = silent
    batch_size: int | None = None
    permissions: Permissions = field(default_factory=Permissions)
    attempt: str = field(default_factory=lambda: secrets.token_hex(8))
    _at_hand: dict[str, Items] = field(default_factory=dict[str, Items])

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process is sent."""
        # Metrics may be functions of files: they are built where these are allowed.
        return {**vars(self), "progress": silent, "_at_hand": {}, "metrics": pickle.dumps(self.metrics)}

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Take up what another process sent."""
        with permit(values["permissions"]):
            metrics = pickle.loads(values["metrics"])  # noqa: S301 - it comes with the rest
        vars(self).update(values, metrics=metrics)

    @seldom_collected()
    def __call__(self, call: Any) -> ShardDone:
        """Carry out a call, unless its result is there."""
        with permit(self.permissions):
            give_back_large_blocks()
            cache = _opened(self.cache) if isinstance(self.cache, Path) else self.cache
            hits, computed = _counts(cache)
            done = self._score(call, cache) if isinstance(call, ShardCall) else self._ask(call, cache)
            if isinstance(self.cache, Path):
                found, new = _counts(cache)
                done = replace(done, found=found - hits, computed=new - computed)
            return done

    def _score(self, call: ShardCall, cache: Cache) -> ShardDone:
        """Score the items of a shard, or of all."""
        if self.files.has(call.result) and all(map(self.files.has, call.states.values())):
            return ShardDone(call.result, facts=self.files.facts(call.result))
        scorer = Scorer(self.metrics, self.models, cache, self.progress)
        metrics = [one for one in self.metrics if one.name in call.metrics]
        before = {role: model_facts(self.models, role) for role in roles_of(metrics)}
        items = self._items(call)
        faults: dict[str, str] = {}
        for planned in self.metrics:
            if (name := call.states.get(planned.name)) is None or self.files.has(name):
                continue
            metric = planned.metric
            assert isinstance(metric, CorpusMetric)  # noqa: S101 - it has a state
            context = scorer.context(metric, planned.name)
            error = planned.error
            if not error:
                cut = metric.cut(items)
                _, error = attempt(partial(map_state, self.files, name, metric, cut, context))
            if error:
                faults[planned.name] = error
        states: dict[str, Any] = {}
        for planned in metrics:
            if names := call.merged.get(planned.name):
                metric = planned.metric
                assert isinstance(metric, CorpusMetric)  # noqa: S101 - as above
                states[planned.name] = merged_states(self.files, names[0])
                if not items.memo:
                    restore(self.files, names[1], metric, items)
        results = scorer.score(items, metrics, states)
        remarks = remarks_on(items, self.metrics) if call.with_remarks else {}
        named = {item for one in results if one.scores for item in (*one.scores.failures, *one.scores.remarks)}
        ids = {item: items.ids[item] for item in sorted(named | remarks.keys())}
        facts = {
            role: after.since(known)
            for role, known in before.items()
            if known and (after := model_facts(self.models, role))
        }
        failed = any(one.error for one in results) or any(
            one.scores and one.scores.failures and roles_of([planned])
            for one, planned in zip(results, metrics, strict=True)
        )
        name = f"{call.result}-failed-{self.attempt}" if failed or faults else call.result
        self.files.put_scores(name, ShardResult(results, ids, remarks), facts)
        return ShardDone(name, faults, facts)

    def _items(self, call: ShardCall) -> Items:
        """Return what is scored: the items of a shard, or the distinct ones of all."""
        if not call.distinct:
            (name,) = call.items
            if name not in self._at_hand:
                while len(self._at_hand) >= _ITEMS_AT_HAND:
                    self._at_hand.pop(next(iter(self._at_hand)))
                self._at_hand[name] = self.files.items(name)
            return self._at_hand[name]
        items = Items.concatenate([self.files.items(name) for name in call.items])
        distinct, _ = self.files.read(call.distinct)
        first = distinct["first"]
        corpus = None if items.corpus is None else items.corpus[first]
        return replace(items.subset(first), corpus=corpus, weights=np.array(distinct["weights"]))

    def _ask(self, call: ModelCall, cache: Cache) -> ShardDone:
        """Have a model work on a shard."""
        if self.files.has(call.result):
            return ShardDone(call.result, facts=self.files.facts(call.result))
        before = model_facts(self.models, call.role)
        name = f"{call.result}-failed-{self.attempt}"
        if call.role == "captioner":
            assert self.models.captioner is not None  # noqa: S101 - it is asked
            requests = self.files.requests(call.given)
            report = self.progress("captions")
            captioned = merged(answers(self.models.captioner, requests, cache, self.batch_size, report, len(requests)))
            name = name if captioned.failures else call.result
            facts = _used(self.models, call.role, before)
            self.files.put_captions(name, captioned, facts)
            return ShardDone(name, facts=facts)
        encoded = encode_items(self.files.items(call.given), self.models.encoder, cache, self.progress)
        facts = _used(self.models, call.role, before)
        name = call.result if encoded.is_whole else name
        self.files.put(name, encoded.to_arrays(), None, facts)
        return ShardDone(name, facts=facts)


def _used(models: AnyModels, role: str, before: ModelFacts | None) -> dict[str, ModelFacts]:
    after = model_facts(models, role)
    return {role: after.since(before)} if before and after else {}


@cache
def _opened(path: Path) -> Store:
    """Return the store of this process."""
    return Store(path)


def _counts(cache: Cache) -> tuple[int, int]:
    """Return how much a store knew, and how much it was given."""
    return (cache.hits, cache.computed) if isinstance(cache, Store) else (0, 0)


def roles_of(metrics: Iterable[PlannedMetric]) -> list[str]:
    """Return the roles of the models that metrics need, of those that can run."""
    needs = {need for one in metrics if not one.error for need in one.metric.needs}
    return [role for role in ROLES if role in needs]


@dataclass
class ShardMap:
    """A run mapped over shards.

    Attributes:
        work: What workers are sent.
        executor: Where they are.
        identities: What tells the models of the run from others, by role.
        cache: That of this process, which counts what workers' stores knew.
        progress: Gives a reporter for a step.
        folder: Where it is written how far it is; None: nowhere.
        facts: What workers said of the models that they used, by role.
    """

    work: ShardWork
    executor: Executor
    identities: Mapping[str, str]
    cache: Cache
    progress: Progress = silent
    folder: Path | None = None
    facts: dict[str, list[ModelFacts]] = field(default_factory=dict[str, list[ModelFacts]])

    def score(
        self, shards: Generator[Shard, None, Summary], failures: FailureLog, hash_images: bool, total: int = 0
    ) -> Scored:
        """Score what a source of items yields.

        Args:
            shards: The source.
            failures: Receives what metrics cannot score.
            hash_images: Whether something depends on what the files of images hold.
            total: How many items there will be, where that is known.
        """
        with progress_written(self.folder, self.progress) if self.folder else nullcontext(self.progress) as told:
            self.progress = told
            return self._score(shards, failures, hash_images, total)

    def _score(
        self, shards: Generator[Shard, None, Summary], failures: FailureLog, hash_images: bool, total: int
    ) -> Scored:
        metrics, files = self.work.metrics, self.work.files
        corpus = ShardedCorpus(files, hash_images)
        refs: Iterable[ShardRef] = corpus.collect(shards)
        results: dict[str, list[str]] = {}
        states: dict[str, list[str]] = {}
        errors: dict[str, str] = {}
        pools: dict[str, list[PlannedMetric]] = {}
        for planned in metrics:
            pools.setdefault(pool_of(planned), []).append(planned)
        for number, (role, own) in enumerate((pools or {"cpu": []}).items()):
            with_remarks = number == 0
            first = self._first_calls(refs, own, states, with_remarks)
            done = self._map(first, role, total)
            refs = corpus.refs
            names = [one.result for one in done]
            for planned in own:
                if not planned.metric.corpus_dependent:
                    results[planned.name] = names
            if with_remarks:
                results[""] = names
            for one in done:
                errors = {**one.faults, **errors}
        by_state = [one for one in metrics if one.metric.has_state and one.name not in errors]
        merged: dict[str, str] = {}
        for planned in by_state:
            metric = planned.metric
            assert isinstance(metric, CorpusMetric)  # noqa: S101 - it has a state
            name = merged[planned.name] = f"state-{name_of(states[planned.name])}"
            if not files.has(name):
                _, error = attempt(partial(merge_states, files, name, metric, states[planned.name]))
                errors |= {planned.name: error} if error else {}
        for role in pools:
            own = [one for one in by_state if one.name not in errors and pool_of(one) == role]
            if own:
                second = self._second_calls(corpus.refs, own, merged, states)
                names = [one.result for one in self._map(second, role, total)]
                results |= {one.name: names for one in own}
        of_all = self._score_all(corpus)
        return merge_scores(metrics, corpus, files, results, of_all, errors, failures)

    def _first_calls(
        self,
        refs: Iterable[ShardRef],
        metrics: Sequence[PlannedMetric],
        states: dict[str, list[str]],
        with_remarks: bool,
    ) -> Iterator[ShardCall]:
        """Yield what can be done of each shard as soon as it is there."""
        now = [one for one in metrics if not one.metric.corpus_dependent]
        for ref in refs:
            own: dict[str, str] = {}
            for planned in metrics:
                if planned.metric.has_state:
                    own[planned.name] = name = f"state-{self._name(ref, [planned], 'state')}"
                    states.setdefault(planned.name, []).append(name)
            said = metric_fingerprints(self.work.metrics) if with_remarks else None
            yield ShardCall(
                _called(ref, metrics),
                f"scores-{self._name(ref, now, said, sorted(own.values()))}",
                [ref.items],
                [one.name for one in now],
                own,
                with_remarks=with_remarks,
            )

    def _second_calls(
        self,
        refs: Iterable[ShardRef],
        metrics: Sequence[PlannedMetric],
        merged: Mapping[str, str],
        states: Mapping[str, Sequence[str]],
    ) -> Iterator[ShardCall]:
        """Yield what needs the state of the corpus."""
        for ref in refs:
            names = {one.name: (merged[one.name], states[one.name][ref.number]) for one in metrics}
            result = f"scores-{self._name(ref, metrics, sorted(names.values()))}"
            yield ShardCall(_called(ref, metrics), result, [ref.items], [one.name for one in metrics], merged=names)

    def _score_all(self, corpus: ShardedCorpus) -> dict[str, str]:
        """Score what must see all items at once; return metric to the name of the result."""
        found: dict[str, str] = {}
        for planned in self.work.metrics:
            if not planned.metric.corpus_dependent or planned.metric.has_state:
                continue
            first = np.arange(corpus.n_items) if corpus.distinct is None else corpus.distinct[0]
            items = [ref.items for ref in corpus.refs]
            distinct = self.work.files.put_distinct(first, corpus.weights)
            images = [ref.images for ref in corpus.refs]
            result = f"scores-{name_of(distinct, items, images, self._made_by([planned]))}"
            call = ShardCall(f"all shards ({planned.name})", result, items, [planned.name], distinct=distinct)
            (done,) = self._map([call], pool_of(planned), 0)
            found[planned.name] = done.result
        return found

    def ask(self, model: type[ModelPass[_Given, _Made]], shards: Iterable[_Given]) -> Iterator[_Made]:
        """Yield what a model makes of each shard, in order.

        Args:
            model: What is asked of it.
            shards: What it is given.
        """
        asked = model(self.work.files)

        def calls() -> Iterator[ModelCall]:
            for number, given in enumerate(shards):
                name = asked.put(given)
                # What a file holds may change, while its name does not.
                pixels = map(str, digests(asked.pixels(given)))
                result = f"{asked.step}-{name_of(self.identities[asked.role], name, *pixels)}"
                yield ModelCall(f"shard {number} ({asked.step})", result, asked.role, name, len(given))

        for done in self._map(calls(), asked.role, 0):
            yield asked.made(done.result)

    def _map(self, calls: Iterable[Any], role: str, total: int) -> list[ShardDone]:
        """Return what workers say of calls, in the order of these."""
        report = self.progress("shards")
        sizes: dict[int, Any] = {}

        def counted() -> Iterator[Any]:
            for number, call in enumerate(calls):
                sizes[number] = call
                yield call

        found: dict[int, ShardDone] = {}
        resources = self.executor.resources_for("" if role == "cpu" else role)
        for number, done in self.executor.map(self.work, counted(), resources):
            found[number] = done
            report(len(found), max(len(sizes), total))
            for of, one in done.facts.items():
                self.facts.setdefault(of, []).append(one)
            if isinstance(self.cache, Store):
                self.cache.hits, self.cache.computed = (
                    self.cache.hits + done.found,
                    self.cache.computed + done.computed,
                )
        return [found[number] for number in sorted(found)]

    def model_facts(self) -> dict[str, ModelFacts]:
        """Return what workers said of the models that they used, by role."""
        return {role: added_up(facts, role) for role, facts in self.facts.items()}

    def _name(self, ref: ShardRef, metrics: Sequence[PlannedMetric], *more: Any) -> str:
        images = ref.images if any("image" in one.metric.needs for one in metrics) else None
        return name_of(ref.items, images, self._made_by(metrics), *more)

    def _made_by(self, metrics: Sequence[PlannedMetric]) -> list[Any]:
        models = [self.identities[role] for role in roles_of(metrics)]
        return [metric_fingerprints(metrics), [one.error for one in metrics], models]


def _called(ref: ShardRef, metrics: Sequence[PlannedMetric]) -> str:
    items = f"items {ref.first_item:,} to {ref.first_item + ref.n_items - 1:,}"
    return f"shard {ref.number} ({items}; {', '.join(one.name for one in metrics)})"


@dataclass(frozen=True)
class ModelCall:
    """What a model is to make of a shard.

    Attributes:
        name: What messages call it.
        result: Name of the file that it writes.
        role: The model's.
        given: Name of the file that it reads.
        count: How many captions, or items, are asked for.
    """

    name: str
    result: str
    role: str
    given: str
    count: int


class ModelPass(ABC, Generic[_Given, _Made]):
    """What a model is asked of shards, before anything is scored.

    Args:
        files: The files of the run's shards.
    """

    role: ClassVar[str]
    step: ClassVar[str]

    def __init__(self, files: ShardFiles) -> None:
        self.files = files

    @abstractmethod
    def put(self, given: _Given) -> str:
        """Write what the model is given, and return the name of the file."""

    @abstractmethod
    def pixels(self, given: _Given) -> Sequence[ImageHandle | VideoHandle]:
        """Return what it looks at."""

    @abstractmethod
    def made(self, name: str) -> _Made:
        """Read what it made."""


class CaptionPass(ModelPass[Sequence[CaptionRequest], Captioned]):
    """Captions of shards."""

    role, step = "captioner", "captions"

    def put(self, given: Sequence[CaptionRequest]) -> str:
        """Write requests."""
        return self.files.put_requests(given)

    def pixels(self, given: Sequence[CaptionRequest]) -> Sequence[ImageHandle | VideoHandle]:
        """Return the images of requests."""
        return [one.pixels for one in given if one.pixels is not None]

    def made(self, name: str) -> Captioned:
        """Read the answers."""
        return self.files.captions(name)


class EncodingPass(ModelPass[Items, AnyEncoded]):
    """Features of shards."""

    role, step = "encoder", "features"

    def put(self, given: Items) -> str:
        """Write items."""
        return self.files.put_items(given)

    def pixels(self, given: Items) -> Sequence[ImageHandle | VideoHandle]:
        """Return the images of items."""
        return given.images

    def made(self, name: str) -> AnyEncoded:
        """Read the features, or scores of pairs."""
        return encoded_of_arrays(self.files.read(name)[0])
