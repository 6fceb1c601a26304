"""Where the work of a run is done, and where what it makes is put meanwhile."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ..inputs.shard_progress import ShardProgress
from ..protocols.job import Job
from ..records.hashes import fingerprint
from ..store.naming import parse_store
from ..store.objects.opening import require_reachable
from .plan import PlannedRun
from .shards.carrying_out import Elsewhere, Hands, InProcess, UnitEngine
from .shards.codec import Originals
from .shards.folder_shelf import folder_in_run, unfinished_folder
from .shards.forked import Forked, processes_for
from .shards.opening import Place, work_of_task
from .shards.scoring import metric_fingerprints
from .shards.shelf import MemoryShelf, Shelf
from .shards.work import RunWork


@dataclass(frozen=True)
class Engaged:
    """Where the work of a run is carried out.

    Attributes:
        store: The store of each machine, item by item.
        call: What :func:`~.resolve.resolve_call` was given; None where that cannot be told to other processes.
        engine: The engine; None is this process.
        only_shards: Use the engine only where a run has more than one shard.
        objects: URL of the results that machines share; None where one machine works.
        identity: Identity of these.
        folder: Where the engine writes how far it is, and units what they make.
        processes: How many share what this process does; None for as many as are worth it.
    """

    store: Path
    call: Mapping[str, Any] | None = None
    engine: UnitEngine | None = None
    only_shards: bool = False
    objects: str | None = None
    identity: str | None = None
    folder: Path | None = None
    processes: int | None = None

    def place(self, folder: Path) -> Place:
        """Return where the processes of a run meet, that puts things aside in a folder of this machine."""
        return Place(str(folder), str(self.store.absolute()), self.objects, self.identity)

    @property
    def is_always_elsewhere(self) -> bool:
        """Whether models are loaded by workers alone."""
        return self.engine is not None and not self.only_shards


@dataclass(frozen=True)
class EngineChoice:
    """An engine, and when it is used.

    Attributes:
        engine: The engine; None is this process.
        only_shards: Use it only where a run has more than one shard; what is smaller this process does at once.
        folder: Where it writes how far it is, for ``bench status``, and units what they make, where machines share no
            other results; None: nowhere.
        processes: How many share what this process does; None for as many as are worth it.
    """

    engine: UnitEngine | None
    only_shards: bool = False
    folder: Path | None = None
    processes: int | None = None


def engaged(
    call: Mapping[str, Any] | None,
    engine: UnitEngine | EngineChoice | None,
    store: str | Path | None,
) -> Engaged:
    """Return where the work of a call is done.

    Args:
        call: What it was, as JSON values; None where other processes cannot be told.
        engine: The engine; None is this process.
        store: What :func:`~..store.naming.parse_store` reads.

    Raises:
        UsageError: An engine is to do what other processes cannot be told.
        StoreError: The shared results cannot be reached.
    """
    choice = engine if isinstance(engine, EngineChoice) else EngineChoice(engine)
    if choice.engine is not None and call is None:
        raise UsageError(
            "a model that is an object of this process cannot be handed to an engine",
            "Name its adapter, and arguments, instead.",
        )
    named = parse_store(None if store is None else str(store))
    identity = require_reachable(named.objects) if named.objects else None
    return Engaged(
        named.file,
        call,
        choice.engine,
        choice.only_shards,
        named.objects,
        identity,
        choice.folder,
        choice.processes,
    )


@contextmanager
def opened_shelf(plan: PlannedRun, job: Job, elsewhere: Engaged) -> Generator[tuple[Shelf, Hands]]:
    """Give what the texts and scores of a run are put on, and who carries out its units.

    Args:
        plan: The run.
        job: The same, with its documents.
        elsewhere: Where the work is carried out.

    Raises:
        StoreError: The shelf cannot be had.
    """
    engine, call = elsewhere.engine, elsewhere.call
    if elsewhere.only_shards and len(job.documents.rows) <= job.shard:
        engine = None
    if engine is None and elsewhere.objects is None and len(job.documents.rows) <= job.shard:
        shelf, number = MemoryShelf(), elsewhere.processes or processes_for(plan, job)
        hands = in_process(plan, job, shelf)
        yield shelf, hands if number == 1 else Forked(hands.work, hands.models, shelf, number)
        return
    folder_of_task = elsewhere.folder and elsewhere.folder / plan.task.task
    with ExitStack() as stack:
        if engine is None or folder_of_task is None:
            folder = stack.enter_context(unfinished_folder(_key(plan, job)))
        else:
            folder = folder_in_run(folder_of_task)
        place = elsewhere.place(folder)
        shelf = place.shelf(Originals(lambda: job.documents.rows, job.pixels))
        if engine is None or call is None:
            yield shelf, in_process(plan, job, shelf)
            return
        spec = work_of_task(call, plan.task.task, place, job.settings.batch_size)
        yield shelf, Elsewhere(engine, spec, shelf, job.models, folder_of_task, job.progress)


def in_process(plan: PlannedRun, job: Job, shelf: Shelf) -> InProcess:
    """Return what carries out units in this process."""
    progress = ShardProgress(job.progress, len(job.documents.rows))
    work = RunWork(plan.metrics, shelf, job.models, job.cache, progress, job.settings.batch_size)
    return InProcess(work, job.models)


def _key(plan: PlannedRun, job: Job) -> str:
    """Return what tells runs apart whose work is the same."""
    specs = [vars(one) if one else None for one in (plan.captioner, plan.encoder, plan.judge)]
    parts = [plan.task.fingerprint(), plan.protocol.fingerprint(), metric_fingerprints(plan.metrics), specs]
    return fingerprint({"parts": parts, "settings": job.settings.to_json()})[:32]
