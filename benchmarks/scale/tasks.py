"""Scores a task over shards."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...allocation import give_back_free_memory
from ...tasks.documents import load_documents
from ...tasks.locate import DataLocations
from ...tasks.schema import TaskConfig
from ..inputs.failures import FailureLog
from ..inputs.models import NamedModels, facts_of_loaded
from ..protocols.job import Job, Shard, Summary
from ..records.hashes import fingerprint
from ..running.execution import Execution, ShardPlace
from ..running.plan import PlannedRun
from ..running.planned_metrics import metric_fingerprints
from ..running.scoring import Scored
from ..store.store import Store, default_store_path
from .mapping import CaptionPass, EncodingPass
from .shards import Originals


@dataclass
class DocumentRows:
    """The documents of a task, which another process loads anew."""

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


def score_task(
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
    named = NamedModels(plan.captioner, plan.encoder, plan.judge)
    rows = DocumentRows(plan.task, plan.path, job.locations, job.documents.rows)
    specs = [vars(one) if one else None for one in (plan.captioner, plan.encoder, plan.judge)]
    parts = [plan.task.fingerprint(), plan.protocol.fingerprint(), metric_fingerprints(plan.metrics), specs]
    place = ShardPlace(
        execution,
        named,
        job.cache.path if isinstance(job.cache, Store) else default_store_path(),
        fingerprint({"parts": parts, "settings": job.settings.to_json()}),
        Originals(rows, job.pixels),
        plan.task.task,
        job.settings.batch_size,
    )
    total = len(job.documents.rows)
    mapped = place.open(
        plan.metrics, job.models, job.cache, job.progress, stack, is_large=total > job.shard, total=total
    )
    if execution.is_always_elsewhere:
        if plan.captioner and job.models.captioner is None:
            job = replace(job, asking=partial(mapped.ask, CaptionPass))
        if plan.protocol.needs_encoder:
            job = replace(job, encoding=partial(mapped.ask, EncodingPass))
    hash_images = plan.encoder is not None or plan.looks_at_images
    scored = mapped.score(shards or plan.protocol.collect(job, failures), failures, hash_images, total)
    give_back_free_memory()
    return replace(scored, facts={**facts_of_loaded(job.models), **mapped.model_facts()})
