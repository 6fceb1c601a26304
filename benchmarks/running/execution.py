"""Where a run is carried out: in this process, or over shards by an executor.

The only module of this room that imports ``scale``, where a run needs it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...progress import ShardProgress, silent
from ..inputs.models import LoadedWhenAsked, NamedModels, facts_of_loaded
from ..records.hashes import fingerprint
from ..store.store import Store, default_store_path, parse_store
from .planned_metrics import metric_fingerprints
from .scoring import Scorer

if TYPE_CHECKING:
    from ..inputs.failures import FailureLog
    from ..protocols.job import Job, Shard, Summary
    from ..scale.executors import Executor
    from ..scale.mapping import ShardMap
    from ..scale.merge import ShardedCorpus
    from ..scale.shards import Originals
    from .plan import PlannedRun
    from .scoring import OneShard, Scored

    Corpus = OneShard | ShardedCorpus
    """All that a run scores."""


@dataclass(frozen=True)
class Execution:
    """Where a run is carried out.

    Attributes:
        executor: Who works on shards; None is this process.
        only_shards: Use it only where a run has more than one shard; what is smaller this process does at once.
        folder: Where results of shards lie, which machines share: a folder, or the address of a bucket; None: of this
            process, until it is done.
        processes: How many share what this process does; None for as many as are worth it.
        shard_rows: Rows of a shard; None for as many as suit the metrics.
    """

    executor: Executor | None = None
    only_shards: bool = False
    folder: Path | str | None = None
    processes: int | None = None
    shard_rows: int | None = None

    @property
    def is_always_elsewhere(self) -> bool:
        """Whether models are loaded by workers alone."""
        return self.executor is not None and not self.only_shards

    def maps(self, is_large: bool) -> bool:
        """Return whether a run is mapped over shards, however few they are.

        Args:
            is_large: Whether it is known to have more than one.
        """
        return is_large or self.is_always_elsewhere or self.folder is not None

    def require_named(self, models: NamedModels) -> None:
        """Raise if a model was given that other processes cannot be sent.

        Raises:
            UsageError: So it is.
        """
        if self.executor is not None and any(spec and spec.given for spec in vars(models).values()):
            raise UsageError(
                "a model that is an object of this process cannot be handed to an engine",
                "Name its adapter, and arguments, instead.",
            )


IN_PROCESS = Execution()


def execution_of(engine: Executor | Execution | None, store: str | Path | None) -> tuple[Execution, Path]:
    """Return where a run is carried out, given who does it, and the file of this machine's store.

    Args:
        engine: Who does it.
        store: The file, or where results of shards lie.
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
    *,
    is_large: bool,
    total: int = 0,
    originals: Originals | None = None,
    task: str = "",
    batch_size: int | None = None,
) -> ShardMap:
    """Return what maps a run over shards.

    Args:
        execution: Where it is carried out.
        named: Its models, as they were named.
        key: What tells runs apart whose results are the same: a hash.
        scorer: Its metrics, and what this process has for them: the models that are loaded here, its cache (workers
            open the file of that store, or the user's), and what reports steps.
        stack: Holds what is put aside.
        is_large: Whether the run has more than one shard.
        total: How many documents there are, where that is known.
        originals: Where its images are; None where they are paths or bytes.
        task: Name of its task; empty where there is none.
        batch_size: As of ``RunSettings``.

    Raises:
        StoreError: What is put aside has no place.
    """
    from ...permissions import permitted
    from ..scale.executors import InProcess
    from ..scale.folders import Folder
    from ..scale.mapping import ShardMap, ShardWork, model_identities
    from ..scale.shards import Originals, ShardFiles, unfinished_folder

    executor = execution.executor if execution.is_always_elsewhere or is_large else None
    folder = Folder(execution.folder) if execution.folder is not None else None
    is_local = folder is not None and folder.path is not None
    if folder is not None and folder.path is not None:
        own = folder.path / task
        try:
            own.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{own}: cannot be written: {error.strerror}",
                "Name a folder with --run_folder that this user may write, and that all workers see.",
            ) from error
        folder = Folder(own)
    else:
        if folder is not None:
            folder.require_usable()
        own = stack.enter_context(unfinished_folder(key[:32]))
        folder = folder or Folder(own)
    files = ShardFiles(folder, originals or Originals())
    identities = model_identities(named, scorer.models)
    metrics, cache = scorer.metrics, scorer.cache
    if executor is None:
        in_steps = ShardProgress(scorer.progress, total)
        work = ShardWork(files, metrics, scorer.models, cache, in_steps, batch_size, permitted())
        return ShardMap(work, InProcess(), identities, cache, own, silent, is_local)
    if folder.path is not None:
        executor.use_folder(own)
    store = cache.path if isinstance(cache, Store) else default_store_path()
    work = ShardWork(files, metrics, LoadedWhenAsked(named), store, silent, batch_size, permitted())
    return ShardMap(work, executor, identities, cache, own, scorer.progress, is_local)


def score_over_shards(
    plan: PlannedRun,
    job: Job,
    failures: FailureLog,
    execution: Execution,
    stack: ExitStack,
    shards: Generator[Shard, None, Summary] | None = None,
) -> Scored:
    """Score a task over shards.

    Args:
        plan: The run.
        job: The same, with its documents.
        failures: Receives what cannot be used.
        execution: Where the work is carried out.
        stack: Holds what the run puts aside.
        shards: What the protocol collects, where it has begun; None where it has not.
    """
    from ..scale.mapping import DocumentRows
    from ..scale.shards import Originals

    specs = plan.captioner, plan.encoder, plan.judge
    parts: list[Any] = [plan.task.fingerprint(), plan.protocol.fingerprint(), metric_fingerprints(plan.metrics)]
    parts.append([one and (one.name, one.adapter, one.arguments) for one in specs])
    total = len(job.documents.rows)
    mapped = open_shard_map(
        execution,
        NamedModels(*specs),
        fingerprint({"parts": parts, "settings": job.settings.to_json()}),
        Scorer(plan.metrics, job.models, job.cache, job.progress),
        stack,
        is_large=total > job.shard,
        total=total,
        originals=Originals(DocumentRows(plan.task, plan.path, job.locations, job.documents.rows), job.pixels),
        task=plan.task.task,
        batch_size=job.settings.batch_size,
    )
    if execution.is_always_elsewhere:
        if plan.captioner and job.models.captioner is None:
            job = replace(job, asking=partial(mapped.ask, "captioner"))
        if plan.protocol.needs_encoder:
            job = replace(job, encoding=partial(mapped.ask, "encoder"))
    hash_images = plan.encoder is not None or plan.looks_at_images
    scored = mapped.score(shards or plan.protocol.collect(job, failures), failures, hash_images, total)
    return replace(scored, facts={**facts_of_loaded(job.models), **mapped.model_facts()})
