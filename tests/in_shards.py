"""A run that is cut into shards of a size that a test chooses, on a shelf, and by hands, that it chooses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from capbench.benchmarks.inputs.failures import FailureLog
from capbench.benchmarks.inputs.models import ModelFacts
from capbench.benchmarks.inputs.settings import RunSettings
from capbench.benchmarks.protocols.job import Job
from capbench.benchmarks.records.publishing import SampleContent
from capbench.benchmarks.running.engaging import in_process
from capbench.benchmarks.running.keeping import keep, samples_file
from capbench.benchmarks.running.plan import PlannedRun
from capbench.benchmarks.running.resolve import resolve_call
from capbench.benchmarks.running.runner import finish, prepare, score
from capbench.benchmarks.running.shards.carrying_out import Hands, InProcess
from capbench.benchmarks.running.shards.codec import Originals
from capbench.benchmarks.running.shards.folder_shelf import FolderShelf
from capbench.benchmarks.running.shards.shelf import MemoryShelf, Shelf
from capbench.benchmarks.running.units import Unit
from capbench.metrics import Context, Items, Metric, NoCache, Scores

Where = Callable[[PlannedRun, Job], tuple[Shelf, Hands]]
VOLATILE = (
    "date",
    "total_evaluation_time_seconds",
    "timings",
    "store",
    "environment",
    "checksum",
    "git_hash",
)


@dataclass(frozen=True)
class AnyOrder:
    """Carries out units in this process, in an order that chance chooses among those whose needs are done."""

    within: InProcess
    seed: int

    def carry_out(self, units: Iterable[Unit]) -> list[Unit]:
        chance, waiting, done = np.random.default_rng(self.seed), list(units), dict[str, Unit]()
        while waiting:
            ready = [one for one in waiting if all(key in done for key in one.needs)]
            unit = ready[chance.integers(len(ready))]
            self.within.work.run_unit(Unit.from_json(unit.to_json()))
            waiting.remove(unit)
            done[unit.key] = unit
        return list(done.values())

    def facts(self, units: Sequence[Unit]) -> dict[str, ModelFacts]:
        return self.within.facts(units)


def in_memory(plan: PlannedRun, job: Job) -> tuple[Shelf, Hands]:
    """Everything in this process."""
    shelf = MemoryShelf()
    return shelf, in_process(plan, job, shelf)


def in_memory_in_any_order(plan: PlannedRun, job: Job) -> tuple[Shelf, Hands]:
    """Everything in this process, units in an order of chance."""
    shelf, hands = in_memory(plan, job)
    assert isinstance(hands, InProcess)
    return shelf, AnyOrder(hands, job.shard)


def in_files(folder: Path) -> Where:
    """Texts and scores in files of a folder, units in an order of chance."""

    def where(plan: PlannedRun, job: Job) -> tuple[Shelf, Hands]:
        folder.mkdir(exist_ok=True)
        shelf = FolderShelf(folder, Originals(lambda: job.documents.rows, job.pixels))
        return shelf, AnyOrder(in_process(plan, job, shelf), job.shard)

    return where


def run_in_shards(
    call: Mapping[str, Any],
    size: int,
    where: Where,
    output: Path,
    settings: RunSettings | None = None,
    samples: SampleContent = "full",
) -> tuple[dict[str, Any], list[dict[str, Any]], bytes]:
    """Return what the record of a run says, but for when and where it ran; its samples; and their file."""
    import pyarrow.parquet

    settings = settings or RunSettings(resamples=30)
    resolved = resolve_call(**call)
    (plan,) = resolved.plan
    models, failures = resolved.load_models(), FailureLog(settings.strict)
    job = prepare(plan, settings, models, locations=resolved.locations, cache=NoCache())
    job = replace(job, shard=size)
    shelf, hands = where(plan, job)
    scored = score(plan, job, failures, shelf, hands)
    with samples_file(scored.samples, samples, beside=False) as written:
        kept = keep(finish(plan, job, scored, failures), scored, output, samples, written)
    assert kept.folder is not None
    record = json.loads((kept.folder / "run.json").read_text())
    file = kept.folder / "samples.parquet"
    known = {key: value for key, value in record.items() if key not in VOLATILE}
    return known, pyarrow.parquet.read_table(file).to_pylist(), file.read_bytes()


class Picky(Metric):
    """Counts letters; does not score captions with an odd word, and remarks on those with a strange one."""

    label = "Picky"
    source = "a package of one's own"
    range = (0.0, float("inf"))

    def score(self, items: Items, context: Context) -> Scores:
        values = np.array([float(len(text)) for text in items.candidates])
        failures = {n: "is odd" for n, text in enumerate(items.candidates) if "odd" in text}
        remarks = {n: "is strange" for n, text in enumerate(items.candidates) if "strange" in text}
        values[list(failures)] = np.nan
        return Scores(values, {"letters": values[:, None]}, failures, remarks)


class LongestOf(Picky):
    """Has a corpus value that is no sum: the median, of captions as often as they occur."""

    label = "Median"
    aggregation = "corpus"

    def corpus(self, scores: Scores, weights: np.ndarray) -> float:
        usable = np.isfinite(scores.values)
        of_rows = np.repeat(scores.parts["letters"][usable, 0], weights[usable].astype(int))
        return float(np.median(of_rows)) if len(of_rows) else float("nan")


class RankOf(Metric):
    """Looks at all captions, each once, and says no more than that."""

    label = "Rank"
    source = "a package of one's own"
    range = (0.0, float("inf"))
    corpus_dependent = True

    def score(self, items: Items, context: Context) -> Scores:
        lengths = np.array(
            [len(text) + len(refs) for text, refs in zip(items.candidates, items.references, strict=True)]
        )
        order = np.argsort(np.argsort(lengths, kind="stable")).astype(float)
        values = order + items.weights / 1000
        failures = {n: "is odd" for n, text in enumerate(items.candidates) if "odd" in text}
        values[list(failures)] = np.nan
        return Scores(values, failures=failures)


class Fragile(Metric):
    """Raises where one of its captions says so."""

    label = "Fragile"
    source = "a package of one's own"
    range = (0.0, float("inf"))

    def score(self, items: Items, context: Context) -> Scores:
        if any("break" in text for text in items.candidates):
            raise RuntimeError("it is broken")
        return Scores(np.array([float(len(text)) for text in items.candidates]))
