"""Carries out planned runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from ...adapters import adapters
from ...adapters.pairwise import PAIRWISE
from ...allocation import give_back_free_memory, seldom_collected
from ...forks import shared_by
from ...mapped_numbers import let_go
from ...metrics import Cache
from ...progress import Progress, numbered, silent
from ...tasks.documents import load_documents
from ...tasks.locate import DataLocations
from ...tasks.sources import load_source
from ..inputs.failures import Failure, FailureLog
from ..inputs.models import Models, NamedModels
from ..inputs.settings import RunSettings
from ..protocols.document_reader import may_read_one_image
from ..protocols.job import SHARD, SHARD_OF_IMAGES, Job
from ..records.entries import Timings
from ..records.making import Finished
from ..records.publishing import SampleContent, without_folders
from ..records.samples import Samples
from ..records.task_run import TaskRun
from ..store.store import Store
from .engaging import Engaged, in_process, opened_shelf
from .keeping import Scored, keep, samples_file
from .plan import PlannedRun
from .published_results import published_results
from .shards.carrying_out import Captions, Elsewhere, Encodings, Hands
from .shards.forked import Forked
from .shards.gathering import Gathering
from .shards.models import model_identities
from .shards.placing import Placing
from .shards.results import Results
from .shards.scoring import metric_fingerprints
from .shards.shelf import MemoryShelf, Shelf


class Stopwatch:
    """Measures steps that follow one another.

    Attributes:
        steps: Seconds by step.
    """

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}
        self._since = perf_counter()

    def lap(self, step: str) -> None:
        """End a step, and begin the next."""
        now = perf_counter()
        self.steps[step], self._since = round(now - self._since, 4), now


@seldom_collected()
def carry_out(
    plan: PlannedRun,
    settings: RunSettings,
    models: Models | None = None,
    *,
    locations: DataLocations,
    store: Store,
    progress: Progress = silent,
    output: Path | None = None,
    samples_hold: SampleContent = "full",
    elsewhere: Engaged | None = None,
) -> TaskRun:
    """Run one task with one model.

    Args:
        plan: The run.
        settings: What the user set.
        models: The models, loaded; None where the run needs none.
        locations: Where local copies of data may be.
        store: Keeps and gives what is already known.
        progress: Gives a reporter for a step.
        output: Folder below which the run is written; None writes nothing.
        samples_hold: What the samples beside the record hold; with ``scores`` the record quotes no data, either.
        elsewhere: Where the work is carried out; None is this process.

    Raises:
        BenchError: The data is missing or wrong, or the model failed. A metric that fails does not
            raise: it is recorded, and the others are kept.
    """
    models = models or Models()
    started, hits, computed = time.time(), store.hits, store.computed
    failures, watch = FailureLog(settings.strict), Stopwatch()
    progress = numbered(progress, plan.steps(settings.resamples))
    job = prepare(plan, settings, models, locations=locations, cache=store, progress=progress)
    if _reads_images(plan) and not may_read_one_image(job) and job.pixels.outside:
        raise job.pixels.outside
    watch.lap("data")
    elsewhere = elsewhere or Engaged(store.path)
    with shared_by(elsewhere.processes), opened_shelf(plan, job, elsewhere) as (shelf, hands):
        scored = score(plan, job, failures, shelf, hands)
        give_back_free_memory()
        let_go()
        watch.lap("captions and metrics" if plan.captioner else "metrics" if plan.metrics else "matches")
        several = len(scored.gathering.shards) > 1
        with samples_file(scored.samples, samples_hold if output else "none", beside=several) as written:
            finished = finish(plan, job, scored, failures, watch.lap)
            finished = replace(
                finished,
                started=started,
                timings=Timings(watch.steps, scored.seconds),
                found=store.hits - hits,
                computed=store.computed - computed,
            )
            outside = job.pixels.outside if _reads_images(plan) else None
            made = keep(finished, scored, output, samples_hold, written)
            return replace(made, outside=outside.in_one_line) if outside else made


def _reads_images(plan: PlannedRun) -> bool:
    """Return whether something looks at images: the protocol, a metric, or a model that writes captions."""
    spec = plan.captioner
    writes = spec is not None and getattr(spec.built or adapters[spec.adapter], "keep", True)
    return plan.looks_at_images or writes


def prepare(
    plan: PlannedRun,
    settings: RunSettings,
    models: Models,
    *,
    locations: DataLocations,
    cache: Cache,
    progress: Progress = silent,
) -> Job:
    """Load the documents of a planned run.

    Args:
        plan: The run.
        settings: What the user set.
        models: The models, loaded.
        locations: Where local copies of data may be.
        cache: Keeps and gives what is already known.
        progress: Gives a reporter for a step.

    Raises:
        DataError: The data is missing or wrong.
    """
    documents = load_documents(plan.task, plan.path, locations)
    shard = SHARD_OF_IMAGES if plan.captioner or plan.looks_at_images else SHARD
    scores_pairs = plan.encoder is not None and plan.encoder.family == PAIRWISE
    return Job(
        plan.task,
        documents,
        models,
        settings,
        cache,
        progress,
        plan.pixels,
        shard,
        scores_pairs=scores_pairs,
    )


def score(
    plan: PlannedRun, job: Job, failures: FailureLog, shelf: Shelf | None = None, hands: Hands | None = None
) -> Scored:
    """Score what the protocol collects by each metric of the run, a shard at a time.

    Args:
        plan: The run.
        job: The same, with its documents.
        failures: Receives what cannot be used.
        shelf: Where texts and scores are put; this process unless given.
        hands: Carries out the units; this process unless given.

    Raises:
        BenchError: The data is not what the task expects, the model failed, or nothing can be scored.
    """
    shelf = shelf or MemoryShelf()
    hands = hands or in_process(plan, job, shelf)
    named = NamedModels(plan.captioner, plan.encoder, plan.judge)
    identities = model_identities(named, job.models)
    before: list[Captions | Encodings] = []
    if isinstance(hands, Elsewhere) and plan.captioner and job.models.captioner is None:
        before.append(captions := Captions(hands, shelf, identities["captioner"]))
        job = replace(job, asking=captions)
    if isinstance(hands, Elsewhere) and plan.protocol.needs_encoder:
        before.append(encodings := Encodings(hands, shelf, identities["encoder"]))
        job = replace(job, encoding=encodings)
    if isinstance(hands, Forked):
        # Results are the same to the bit, wherever it is cut.
        job = replace(job, shard=-(-len(job.documents.rows) // hands.processes))
    gathering = Gathering(shelf, hash_images=plan.encoder is not None or plan.looks_at_images)
    shards = gathering.gather(plan.protocol.collect(job, failures))
    units = hands.carry_out(Placing(plan.metrics, gathering, identities).units(shards))
    facts = hands.facts([*(unit for one in before for unit in one.units), *units])
    results = Results(units, plan.metrics, gathering)
    together = results.together()
    scored = results.scored(together, failures)
    rows, reasons = plan.protocol.row_scores(gathering.collected, scored)
    # Metrics are called as in the record, where a setting may be a path.
    scores = dict(zip(without_folders(dict.fromkeys(rows)), rows.values(), strict=True))
    details = plan.protocol.row_details(gathering.collected, scored)
    scores |= {f"scores.{without_folders(name)}": of_rows for name, of_rows in details.items()}
    lost = [failure for failure in failures.entries if failure.stage != "metric"]
    samples = Samples(gathering.columns, scores, reasons, lost)
    return Scored(gathering, scored, together.seconds, together.remarks, facts, rows, samples)


def finish(
    plan: PlannedRun,
    job: Job,
    scored: Scored,
    failures: FailureLog,
    lap: Callable[[str], None] = lambda step: None,
) -> Finished:
    """Make the results of scores: statistics, which metrics differ, and what papers print for them.

    Args:
        plan: The run.
        job: The same, with its documents.
        scored: What was scored, and the scores.
        failures: What could not be used.
        lap: Told of each step that is done.
    """
    gathering, collected = scored.gathering, scored.gathering.collected
    summary = collected.summary
    results = plan.protocol.results(job, collected, scored.metrics, plan.statistics)
    let_go()
    lap("statistics")
    rankings = plan.protocol.ranking(job, collected, scored.metrics, plan.statistics, results)
    let_go()
    lap("significance")
    lost = any(one.stage == "model" for one in failures.entries)
    whole = job.settings.limit is None and summary.subset is None and not lost
    comparable = whole and all(check.passed for check in summary.data_checks)
    read = (Failure(one.place, "data", one.reason) for one in job.documents.remarks)
    return Finished(
        job=job,
        named=NamedModels(plan.captioner, plan.encoder, plan.judge),
        facts=scored.facts,
        collected=collected,
        data_hash=gathering.hashes.data,
        images_hash=gathering.hashes.images if plan.encoder else None,
        scored=scored.metrics,
        results=results,
        protocol=plan.protocol.fingerprint(),
        rankings=rankings,
        published=published_results(plan, results) if comparable else {},
        rows=scored.rows,
        words=gathering.words,
        made_by=metric_fingerprints(plan.metrics),
        left_out=plan.left_out,
        failures=failures.entries,
        empty=failures.empty,
        # A captioner and a metric may remark the same.
        remarks=list(dict.fromkeys([*read, *summary.remarks, *scored.remarks])),
        card=load_source(plan.task, plan.path),
    )
