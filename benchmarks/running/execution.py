"""Execution of a run: in this process, or over shards by an executor.

The only module of this package that imports ``scale``, and only on demand.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UsageError, writing
from ...progress import ShardProgress, silent
from ..inputs.models import LoadedWhenAsked, NamedModels, facts_of_loaded
from ..records.hashes import fingerprint
from ..store.store import Store, default_store_path, parse_store
from .planned_metrics import metric_fingerprints
from .scoring import Scorer

if TYPE_CHECKING:
    from ..inputs.failures import FailureLog
    from ..protocols.job import Job, Shards
    from ..scale.executors import Executor
    from ..scale.mapping import ShardMap
    from ..scale.merge import ShardedCorpus
    from ..scale.shards import Originals
    from .plan import PlannedRun
    from .scoring import OneShard, Scored

    Corpus = OneShard | ShardedCorpus
    """The items of a run, in one shard or several."""


@dataclass(frozen=True)
class Execution:
    """How a run is executed.

    Attributes:
        executor: The executor of shards; None is this process.
        only_shards: Use it only for runs with more than one shard; smaller runs stay in this process.
        folder: Folder, or address of a bucket, of shard results that machines share; None: a temporary folder of this
            process.
        processes: Number of processes for the work of this process; None chooses it.
        shard_rows: Rows of a shard; None chooses a number for the metrics.
    """

    executor: Executor | None = None
    only_shards: bool = False
    folder: Path | str | None = None
    processes: int | None = None
    shard_rows: int | None = None

    @property
    def is_always_elsewhere(self) -> bool:
        """Whether only workers load models."""
        return self.executor is not None and not self.only_shards

    def maps(self, is_large: bool) -> bool:
        """Return whether a run is mapped over shards, even over one.

        Args:
            is_large: Whether it is known to have more than one shard.
        """
        return is_large or self.is_always_elsewhere or self.folder is not None

    def require_named(self, models: NamedModels) -> None:
        """Raise if a model is an object, which cannot be sent to other processes.

        Raises:
            UsageError: A model is an object.
        """
        if self.executor is not None and any(spec and spec.instance for spec in vars(models).values()):
            raise UsageError(
                "a model object cannot be sent to the workers of an engine", "Name its adapter and arguments instead."
            )


IN_PROCESS = Execution()


def execution_of(engine: Executor | Execution | None, store: str | Path | None) -> tuple[Execution, Path]:
    """Return the execution of a run with an engine, and the file of this machine's store.

    Args:
        engine: The executor.
        store: The file, or the location of shard results.
    """
    execution = engine if isinstance(engine, Execution) else Execution(engine)
    file, objects = parse_store(None if store is None else str(store))
    return execution if objects is None else replace(execution, folder=objects), file


def open_shard_map(
    execution: Execution,
    named: NamedModels,
    key: str,
    scorer: Scorer,
    stack: ExitStack,
    job: Job | None = None,
    originals: Originals | None = None,
) -> ShardMap:
    """Return the mapping of a run over shards.

    Args:
        execution: How it is executed.
        named: The names of its models.
        key: A hash that distinguishes runs with the same results.
        scorer: Its metrics with the loaded models, cache and progress of this process. Workers open the file of that
            cache, or the user's store.
        stack: Closes the intermediate results.
        job: The run of a task; None for rows, of which there are more than one shard.
        originals: The source of its images; None where they are paths or bytes.

    Raises:
        StoreError: The folder of intermediate results cannot be written.
    """
    from ...permissions import permitted
    from ..scale.executors import InProcess
    from ..scale.folders import Folder
    from ..scale.mapping import ShardMap, ShardWork, model_identities
    from ..scale.shards import Originals, ShardFiles, unfinished_folder

    total, task, batch_size = 0, "", None
    if job is not None:
        total, task, batch_size = len(job.documents.rows), job.task.task, job.settings.batch_size
    is_large = job is None or total > job.shard
    executor = execution.executor if execution.is_always_elsewhere or is_large else None
    shared = Folder(execution.folder) if execution.folder is not None else None
    is_watched = False
    if shared is not None and shared.path is not None:
        own, is_watched = shared.path / task, True
        with writing(own, "Name a folder with --run_folder that you can write and all workers see."):
            own.mkdir(parents=True, exist_ok=True)
        folder = Folder(own)
    else:
        if shared is not None:
            shared.require_usable()
        own = stack.enter_context(unfinished_folder(key[:32]))
        folder = shared or Folder(own)
    files = ShardFiles(folder, originals or Originals())
    identities = model_identities(named, scorer.models)
    metrics, cache = scorer.metrics, scorer.cache
    if executor is None:
        in_steps = ShardProgress(scorer.progress, total)
        work = ShardWork(files, metrics, scorer.models, cache, in_steps, batch_size, permitted())
        return ShardMap(work, InProcess(), identities, cache, own, silent, is_watched)
    if folder.path is not None:
        executor.use_folder(own)
    store = cache.path if isinstance(cache, Store) else default_store_path()
    work = ShardWork(files, metrics, LoadedWhenAsked(named), store, silent, batch_size, permitted())
    return ShardMap(work, executor, identities, cache, own, scorer.progress, is_watched)


def score_over_shards(
    plan: PlannedRun,
    job: Job,
    failures: FailureLog,
    execution: Execution,
    stack: ExitStack,
    shards: Shards | None = None,
) -> Scored:
    """Score a task over shards.

    Args:
        plan: The run.
        job: The same, with its documents.
        failures: Receives unusable samples.
        execution: How the run is executed.
        stack: Closes the intermediate results of the run.
        shards: The shards of the protocol, if it has begun; else None.
    """
    from ..scale.mapping import DocumentRows
    from ..scale.shards import Originals

    specs = plan.captioner, plan.encoder, plan.judge
    parts: list[Any] = [plan.task.fingerprint(), plan.protocol.fingerprint(), metric_fingerprints(plan.metrics)]
    parts.append([spec and (spec.name, spec.adapter, spec.arguments) for spec in specs])
    total, key = len(job.documents.rows), fingerprint({"parts": parts, "settings": job.settings.to_json()})
    scorer = Scorer(plan.metrics, job.models, job.cache, job.progress)
    originals = Originals(DocumentRows(plan.task, plan.path, job.locations, job.documents.rows), job.pixels)
    mapped = open_shard_map(execution, NamedModels(*specs), key, scorer, stack, job, originals)
    if execution.is_always_elsewhere:
        if plan.captioner and job.models.captioner is None:
            job = replace(job, asking=partial(mapped.ask, "captioner"))
        if plan.protocol.needs_encoder:
            job = replace(job, encoding=partial(mapped.ask, "encoder"))
    hash_images = plan.encoder is not None or plan.reads_images
    scored = mapped.score(shards or plan.protocol.collect(job, failures), failures, hash_images, total)
    return replace(scored, facts={**facts_of_loaded(job.models), **mapped.model_facts()})
