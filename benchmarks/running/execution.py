"""Where a run is carried out: in this process, or over shards by an executor.

The only module of this room that imports ``scale``, where a run needs it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...metrics import Cache
from ...progress import Progress, ShardProgress, silent
from ..inputs.models import ROLES, AnyModels, LoadedWhenAsked, Models, NamedModels

if TYPE_CHECKING:
    from ..inputs.failures import FailureLog
    from ..protocols.job import Job, Shard, Summary
    from ..scale.executors import Executor
    from ..scale.mapping import ShardMap
    from ..scale.shards import Originals
    from .plan import PlannedRun
    from .planned_metrics import PlannedMetric
    from .scoring import Scored


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

    def require_named(self, given: Sequence[object]) -> None:
        """Raise if models were given that other processes cannot be sent.

        Raises:
            UsageError: So it is.
        """
        if self.executor is not None and given:
            raise UsageError(
                "a model that is an object of this process cannot be handed to an engine",
                "Name its adapter, and arguments, instead.",
            )


IN_PROCESS = Execution()


def execution_of(engine: Executor | Execution | None) -> Execution:
    """Return where a run is carried out, given who does it."""
    return engine if isinstance(engine, Execution) else Execution(engine)


@dataclass(frozen=True)
class ShardPlace:
    """What a run that is mapped over shards has, besides what a small one has.

    Attributes:
        execution: Where it is carried out.
        named: Its models, as they were named.
        store: The file of the store, which workers open.
        key: What tells runs apart whose results are the same: a hash.
        originals: Where its images are; None where they are paths or bytes.
        task: Name of its task; empty where there is none.
        batch_size: As of ``RunSettings``.
    """

    execution: Execution
    named: NamedModels
    store: Path
    key: str
    originals: Originals | None = None
    task: str = ""
    batch_size: int | None = None

    def open(
        self,
        metrics: Sequence[PlannedMetric],
        models: Models,
        cache: Cache,
        progress: Progress,
        stack: ExitStack,
        *,
        is_large: bool,
        total: int = 0,
    ) -> ShardMap:
        """Return what maps the run over shards.

        Args:
            metrics: The metrics.
            models: The models that are loaded here.
            cache: The store of this process.
            progress: Gives a reporter for a step.
            stack: Holds what is put aside.
            is_large: Whether the run has more than one shard.
            total: How many documents there are, where that is known.

        Raises:
            StoreError: What is put aside has no place.
        """
        from ...permissions import permitted
        from ..scale.executors import InProcess
        from ..scale.folders import Folder
        from ..scale.mapping import ShardMap, ShardWork, model_identities
        from ..scale.shards import Originals, ShardFiles, unfinished_folder

        execution = self.execution
        executor = execution.executor if execution.is_always_elsewhere or is_large else None
        folder = Folder(execution.folder) if execution.folder is not None else None
        if folder is not None and folder.path is not None:
            own = folder.path / self.task
            _made(own)
            folder = Folder(own)
        else:
            if folder is not None:
                folder.require_usable()
            own = stack.enter_context(unfinished_folder(self.key[:32]))
            folder = folder or Folder(own)
        files = ShardFiles(folder, self.originals or Originals())
        here: AnyModels = models
        if executor is not None:
            if folder.path is not None:
                executor.use_folder(own)
            here = LoadedWhenAsked(
                {role: partial(_load_role, self.named, role) for role in ROLES if getattr(self.named, role) is not None}
            )
        in_steps = ShardProgress(progress, total) if executor is None else silent
        of_process = cache if executor is None else self.store
        work = ShardWork(files, metrics, here, of_process, in_steps, self.batch_size, permitted())
        identities = model_identities(self.named, models)
        told = silent if executor is None else progress
        is_watched = execution.folder is not None and folder.path is not None
        return ShardMap(work, executor or InProcess(), identities, cache, own, told, is_watched)


def score_over_shards(
    plan: PlannedRun,
    job: Job,
    failures: FailureLog,
    execution: Execution,
    stack: ExitStack,
    shards: Generator[Shard, None, Summary] | None = None,
) -> Scored:
    """Score a task over shards; see :func:`~..scale.mapping.score_task`."""
    from ..scale.mapping import score_task

    return score_task(plan, job, failures, execution, stack, shards)


def _load_role(named: NamedModels, role: str) -> Any:
    from .resolve import load_models

    return getattr(load_models(named, roles=(role,)), role)


def _made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written: {error.strerror}",
            "Name a folder with --run_folder that this user may write, and that all workers see.",
        ) from error
