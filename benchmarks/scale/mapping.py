"""Maps a run over shards: metrics of single items, states of the corpus, and metrics that need these."""

import json
import os
import pickle
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters.aliases import ModelSpec
from ...adapters.images.file_digests import digests_of, file_digest
from ...adapters.images.handles import digests
from ...metrics import Cache, CorpusMetric, Items
from ...paths import checkpoint_folder, is_file
from ...permissions import Permissions, permit
from ...progress import Progress, silent
from ...tasks.documents import load_documents
from ...tasks.locate import DataLocations
from ...tasks.schema import TaskConfig
from ..inputs.asking import answers, merged
from ..inputs.encoding import encode_items
from ..inputs.failures import FailureLog
from ..inputs.models import ROLES, AnyModels, ModelFacts, NamedModels, added_up, model_facts
from ..protocols.job import Shards
from ..records.environment import version
from ..records.progress_file import progress_written
from ..running.planned_metrics import PlannedMetric, metric_fingerprints, pool_of
from ..running.scoring import Scored, Scorer, attempt, remarks_on
from ..store.store import Store
from .executors import Executor
from .folders import Folder
from .merge import ShardedCorpus, ShardRef, map_state, merge_results, merge_states
from .shards import ShardFiles, ShardScores, name_of

_LIBRARIES = ("capbench", "open_clip_torch", "peft", "pillow", "torch", "torchvision", "transformers", "vllm")
"""Libraries that run models; other versions may give other numbers."""
_STEPS = {"captioner": "captions", "encoder": "features"}
"""The output of models before scoring, by role."""


@dataclass(frozen=True)
class ShardCall:
    """The task of a worker for a shard.

    Attributes:
        name: Its name in messages.
        result: Name of the file that it writes.
        inputs: Names of the files that it reads; items of several shards are scored together.
        metrics: The metrics that score.
        states: Metric to the name of the file for its state of these items.
        merged: Metric to the names of the merged state of the corpus, and of the state of these items.
        distinct: Name of the file with the distinct items of several shards.
        with_remarks: Whether to make remarks on candidates.
        asked: Role of the model that makes captions or features; empty where items are scored.
    """

    name: str
    result: str
    inputs: Sequence[str]
    metrics: Sequence[str] = ()
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    merged: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    distinct: str = ""
    with_remarks: bool = False
    asked: str = ""


@dataclass(frozen=True)
class ShardDone:
    """The reply of a worker to a call.

    Attributes:
        result: Name of the file that it wrote.
        faults: Metric to the reason why it has no state.
        facts: The facts of the used models for a record, by role.
        cached: Number of results from the store.
        computed: Number of new results in the store.
    """

    result: str
    faults: Mapping[str, str] = field(default_factory=dict[str, str])
    facts: Mapping[str, ModelFacts] = field(default_factory=dict[str, ModelFacts])
    cached: int = 0
    computed: int = 0


@dataclass
class ShardWork:
    """The work of workers, sent to each once; it keeps the models that it loads.

    Attributes:
        files: The files of the run's shards.
        metrics: The metrics of the run.
        models: The models that they need.
        cache: The cache of expensive results, by item; or the file of the store, which each process opens.
        progress: Returns a reporter for a step, in this process.
        batch_size: Captions per batch of the model; None is the adapter's default.
        permissions: The permissions of files.
        attempt: Part of the names of results that the next run must make anew.
    """

    files: ShardFiles
    metrics: Sequence[PlannedMetric]
    models: AnyModels
    cache: Cache | Path
    progress: Progress = silent
    batch_size: int | None = None
    permissions: Permissions = field(default_factory=Permissions)
    attempt: str = field(default_factory=lambda: secrets.token_hex(8))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle."""
        # Metrics may be functions of files: they are built where these are allowed.
        return {**vars(self), "progress": silent, "metrics": pickle.dumps(self.metrics)}

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Restore the pickled state."""
        with permit(values["permissions"]):
            metrics = pickle.loads(values["metrics"])  # noqa: S301 - it comes with the rest
        vars(self).update(values, metrics=metrics)

    def __call__(self, call: ShardCall) -> ShardDone:
        """Run a call unless its result exists."""
        with permit(self.permissions):
            cache = _opened(self.cache) if isinstance(self.cache, Path) else self.cache
            hits, computed = _counts(cache)
            if all(map(self.files.has, (call.result, *call.states.values()))):
                done = ShardDone(call.result, facts=self.files.facts(call.result))
            else:
                done = self._make(call, cache)
            if isinstance(self.cache, Path):
                hits_now, computed_now = _counts(cache)
                done = replace(done, cached=hits_now - hits, computed=computed_now - computed)
            return done

    def _make(self, call: ShardCall, cache: Cache) -> ShardDone:
        metrics = [metric for metric in self.metrics if metric.name in call.metrics]
        before = {role: model_facts(self.models, role) for role in ([call.asked] if call.asked else roles_of(metrics))}
        faults: dict[str, str] = {}
        result, is_whole = self._ask(call, cache) if call.asked else self._score(call, metrics, cache, faults)
        facts = {
            role: after.since(known)
            for role, known in before.items()
            if known and (after := model_facts(self.models, role))
        }
        name = call.result if is_whole and not faults else f"{call.result}-failed-{self.attempt}"
        self.files.put(name, result, facts)
        return ShardDone(name, faults, facts)

    def _ask(self, call: ShardCall, cache: Cache) -> tuple[Any, bool]:
        """Return captions or features, and whether the model failed on none."""
        shard = self.files.read(call.inputs[0])
        if call.asked == "encoder":
            encoded = encode_items(shard, self.models.encoder, cache, self.progress)
            return encoded, encoded.is_whole
        assert self.models.captioner is not None  # noqa: S101 - it is asked
        report = self.progress("captions")
        captioned = merged(answers(self.models.captioner, shard, cache, self.batch_size, report, len(shard)))
        return captioned, not captioned.failures

    def _score(
        self, call: ShardCall, metrics: Sequence[PlannedMetric], cache: Cache, faults: dict[str, str]
    ) -> tuple[ShardScores, bool]:
        """Return the scores of a shard's items, or of all, and whether other runs may reuse them."""
        scorer = Scorer(self.metrics, self.models, cache, self.progress)
        items = self._items(call)
        for planned in self.metrics:
            if (name := call.states.get(planned.name)) is None or self.files.has(name):
                continue
            metric, error = planned.metric, planned.error
            assert isinstance(metric, CorpusMetric)  # noqa: S101 - it has a state
            if not error:
                context = scorer.context(metric, planned.name)
                _, error = attempt(partial(map_state, self.files, name, metric, metric.cut(items), context))
            if error:
                faults[planned.name] = error
        states: dict[str, Any] = {}
        for planned in metrics:
            if names := call.merged.get(planned.name):
                assert isinstance(planned.metric, CorpusMetric)  # noqa: S101 - as above
                states[planned.name] = {int(corpus): state for corpus, state in self.files.read(names[0]).items()}
                if kept := self.files.read(names[1])["kept"]:
                    planned.metric.restore(items, kept)
        results = scorer.score(items, metrics, states)
        remarks = remarks_on(items, self.metrics) if call.with_remarks else {}
        named = {
            item for result in results if result.scores for item in (*result.scores.failures, *result.scores.remarks)
        }
        ids = {item: items.ids[item] for item in sorted(named | remarks.keys())}
        failed = any(result.error for result in results) or any(
            result.scores and result.scores.failures and roles_of([planned])
            for result, planned in zip(results, metrics, strict=True)
        )
        return ShardScores(results, ids, remarks), not failed

    def _items(self, call: ShardCall) -> Items:
        """Return the items to score: those of a shard, or the distinct ones of all."""
        if not call.distinct:
            return self.files.read(call.inputs[0])
        items = Items.concatenate([self.files.read(name) for name in call.inputs])
        first, weights = self.files.read(call.distinct)
        corpus = None if items.corpus is None else items.corpus[first]
        return replace(items.subset(first), corpus=corpus, weights=np.array(weights))


@cache
def _opened(path: Path) -> Store:
    """Return the store of this process."""
    return Store(path)


def _counts(cache: Cache) -> tuple[int, int]:
    """Return the numbers of results that a store found and received."""
    return (cache.hits, cache.computed) if isinstance(cache, Store) else (0, 0)


def roles_of(metrics: Iterable[PlannedMetric]) -> list[str]:
    """Return the roles of models that runnable metrics need."""
    needs = {need for plan in metrics if not plan.error for need in plan.metric.needs}
    return [role for role in ROLES if role in needs]


@dataclass
class ShardMap:
    """A run mapped over shards.

    Attributes:
        work: The work of workers.
        executor: The executor.
        identities: The identities of the run's models, by role.
        cache: The cache of this process, which adds up the counts of workers' stores.
        own: The folder of files that only this process needs.
        progress: Returns a reporter for a step.
        is_watched: Whether to write the progress into the folder of the run.
        facts: The facts of the models that workers used, by role.
    """

    work: ShardWork
    executor: Executor
    identities: Mapping[str, str]
    cache: Cache
    own: Path
    progress: Progress = silent
    is_watched: bool = False
    facts: dict[str, list[ModelFacts]] = field(default_factory=dict[str, list[ModelFacts]])

    def score(self, shards: Shards, failures: FailureLog, hash_images: bool, total: int = 0) -> Scored:
        """Score the items of a source.

        Args:
            shards: The source.
            failures: Receives items that metrics cannot score.
            hash_images: Whether results depend on the content of image files.
            total: Number of items, where known.
        """
        written = progress_written(self.own, self.progress) if self.is_watched else nullcontext(self.progress)
        with written as self.progress:
            metrics, files = self.work.metrics, self.work.files
            corpus = ShardedCorpus(files, Folder(self.own), hash_images)
            refs: Iterable[ShardRef] = corpus.collect(shards)
            results: dict[str, list[str]] = {}
            states: dict[str, list[str]] = {}
            errors: dict[str, str] = {}
            pools: dict[str, list[PlannedMetric]] = {}
            for planned in metrics:
                pools.setdefault(pool_of(planned), []).append(planned)
            for role, own in (pools or {"cpu": []}).items():
                with_remarks = not results
                done = self._map(self._first_calls(refs, own, states, with_remarks), role, total)
                refs, names = corpus.refs, [shard.result for shard in done]
                results |= {plan.name: names for plan in own if not plan.metric.corpus_dependent}
                if with_remarks:
                    results[""] = names
                for shard in done:
                    errors = {**shard.faults, **errors}
            by_state = [plan for plan in metrics if plan.metric.has_state and plan.name not in errors]
            merged: dict[str, str] = {}
            for planned in by_state:
                assert isinstance(planned.metric, CorpusMetric)  # noqa: S101 - it has a state
                name = merged[planned.name] = f"state-{name_of(states[planned.name])}"
                if not files.has(name):
                    _, error = attempt(partial(merge_states, files, name, planned.metric, states[planned.name]))
                    errors |= {planned.name: error} if error else {}
            for role in pools:
                if own := [metric for metric in by_state if metric.name not in errors and pool_of(metric) == role]:
                    calls: list[ShardCall] = []
                    for ref in corpus.refs:
                        known = {metric.name: (merged[metric.name], states[metric.name][ref.number]) for metric in own}
                        result = f"scores-{self._name(ref, own, sorted(known.values()))}"
                        calls.append(ShardCall(_called(ref, own), result, [ref.items], list(known), merged=known))
                    done = self._map(calls, role, total)
                    results |= {metric.name: [each.result for each in done] for metric in own}
            of_all = {
                plan.name: self._score_all(corpus, plan)
                for plan in metrics
                if plan.metric.corpus_dependent and not plan.metric.has_state
            }
            return merge_results(metrics, corpus, files, results, of_all, errors, failures)

    def _first_calls(
        self,
        refs: Iterable[ShardRef],
        metrics: Sequence[PlannedMetric],
        states: dict[str, list[str]],
        with_remarks: bool,
    ) -> Iterator[ShardCall]:
        """Yield the calls for each shard as soon as it exists."""
        now = [plan for plan in metrics if not plan.metric.corpus_dependent]
        said = metric_fingerprints(self.work.metrics) if with_remarks else None
        for ref in refs:
            own = {plan.name: f"state-{self._name(ref, [plan], 'state')}" for plan in metrics if plan.metric.has_state}
            for name, state in own.items():
                states.setdefault(name, []).append(state)
            result = f"scores-{self._name(ref, now, said, sorted(own.values()))}"
            names = [metric.name for metric in now]
            yield ShardCall(_called(ref, metrics), result, [ref.items], names, own, with_remarks=with_remarks)

    def _score_all(self, corpus: ShardedCorpus, planned: PlannedMetric) -> str:
        """Score all items at once with a metric that must see them all; return the name of the result."""
        first = np.arange(corpus.n_items) if corpus.distinct is None else corpus.distinct[0]
        items = [ref.items for ref in corpus.refs]
        distinct = self.work.files.put_named("distinct", [first, corpus.weights])
        images = [ref.images for ref in corpus.refs]
        result = f"scores-{name_of(distinct, items, images, self._made_by([planned]))}"
        call = ShardCall(f"all shards ({planned.name})", result, items, [planned.name], distinct=distinct)
        (done,) = self._map([call], pool_of(planned))
        return done.result

    def ask(self, role: str, shards: Iterable[Any]) -> Iterator[Any]:
        """Yield the output of a model for each shard, in order.

        Args:
            role: ``captioner``, which writes captions for requests, or ``encoder``, which makes features of items.
            shards: Its input.
        """

        def calls() -> Iterator[ShardCall]:
            for number, shard in enumerate(shards):
                name = self.work.files.put_named("given", shard if isinstance(shard, Items) else list(shard))
                # The content of a file may change under the same name.
                pixels = (
                    shard.images
                    if isinstance(shard, Items)
                    else [request.pixels for request in shard if request.pixels]
                )
                result = name_of(self.identities[role], name, *map(str, digests(pixels)))
                step = _STEPS[role]
                yield ShardCall(f"shard {number} ({step})", f"{step}-{result}", [name], asked=role)

        for done in self._map(calls(), role):
            yield self.work.files.read(done.result)

    def _map(self, calls: Iterable[ShardCall], role: str, total: int = 0) -> list[ShardDone]:
        """Return the replies of workers, in the order of the calls."""
        report, begun = self.progress("shards"), 0

        def counted() -> Iterator[ShardCall]:
            nonlocal begun
            for begun, call in enumerate(calls, 1):  # noqa: B007 - used below
                yield call

        finished: dict[int, ShardDone] = {}
        resources = self.executor.resources_for("" if role == "cpu" else role)
        for number, done in self.executor.map(self.work, counted(), resources):
            finished[number] = done
            report(len(finished), max(begun, total))
            for of, fact in done.facts.items():
                self.facts.setdefault(of, []).append(fact)
            if isinstance(self.cache, Store):
                self.cache.hits += done.cached
                self.cache.computed += done.computed
        return [finished[number] for number in sorted(finished)]

    def model_facts(self) -> dict[str, ModelFacts]:
        """Return the facts of the models that workers used, by role."""
        return {role: added_up(facts, role) for role, facts in self.facts.items()}

    def _name(self, ref: ShardRef, metrics: Sequence[PlannedMetric], *more: Any) -> str:
        images = ref.images if any("image" in plan.metric.needs for plan in metrics) else None
        return name_of(ref.items, images, self._made_by(metrics), *more)

    def _made_by(self, metrics: Sequence[PlannedMetric]) -> list[Any]:
        models = [self.identities[role] for role in roles_of(metrics)]
        return [metric_fingerprints(metrics), [metric.error for metric in metrics], models]


def _called(ref: ShardRef, metrics: Sequence[PlannedMetric]) -> str:
    items = f"items {ref.first_item:,} to {ref.first_item + ref.n_items - 1:,}"
    return f"shard {ref.number} ({items}; {', '.join(metric.name for metric in metrics)})"


def model_identities(named: NamedModels, models: AnyModels) -> dict[str, str]:
    """Return the identities of a run's models, by role.

    For a model that is loaded here it is the fingerprint, which decides its numbers. For another it is its name, the
    content of files in its arguments (a checkpoint may have been trained again), and versions of libraries. A file
    that only workers have is identified by its name.
    """
    identities: dict[str, str] = {}
    for role in ROLES:
        if (spec := getattr(named, role)) is not None:
            facts = model_facts(models, role)
            identity = facts.fingerprint if facts else _named_identity(spec)
            identities[role] = json.dumps(identity, sort_keys=True, default=str)
    return identities


def _named_identity(spec: ModelSpec) -> dict[str, Any]:
    """Return the identity of a model without loading it."""
    named = {name: _files(value) for name, value in spec.arguments.items() if value and isinstance(value, str | Path)}
    return {
        "adapter": spec.adapter,
        "arguments": spec.arguments,
        "source": spec.source,
        "files": {
            name: [(file.name, str(digest)) for file, digest in zip(files, digests_of(files, file_digest), strict=True)]
            for name, files in named.items()
        },
        "versions": {name: version(name) for name in _LIBRARIES},
    }


def _files(name: str | Path) -> list[Path]:
    """Return the file of a name, or the files directly in a folder of that name; empty for other names."""
    for place in (Path(os.path.expanduser(name)), checkpoint_folder() / name):  # noqa: PTH111 - may be any text
        if is_file(place):
            return [place]
        if os.path.isdir(place):  # noqa: PTH112 - as above
            return sorted(file for file in place.iterdir() if file.is_file())
    return []


@dataclass
class DocumentRows:
    """The documents of a task, which another process loads again."""

    task: TaskConfig
    path: Path
    locations: DataLocations
    rows: Any = None

    def __call__(self) -> Any:
        """Return the rows."""
        if self.rows is None:
            self.rows = load_documents(self.task, self.path, self.locations).rows
        return self.rows

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process is sent."""
        return {**vars(self), "rows": None}
