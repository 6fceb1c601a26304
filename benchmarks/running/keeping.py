"""Writes what is kept of a run: its record, its samples, and pictures of some."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...drafts import temporary_folder
from ...forks import Fork, cores_to_share
from ..inputs.failures import Failure, summarise
from ..inputs.models import ModelFacts
from ..protocols.results import ScoredMetric
from ..records.files import write_run
from ..records.making import Finished
from ..records.pictures import pictures
from ..records.publishing import SampleContent
from ..records.record import Record
from ..records.samples import SAMPLES_FILE, Samples, scores_alone, write_samples
from ..records.task_run import TaskRun
from .shards.gathering import Gathering


@dataclass(frozen=True)
class Scored:
    """What was scored, and the scores.

    Attributes:
        gathering: What was scored.
        metrics: The scores of each metric.
        seconds: How long each took.
        remarks: What metrics remark.
        facts: What is known of the models that were used, by their role.
        rows: Metric to ``[n]`` values of samples.
        samples: What is written of these.
    """

    gathering: Gathering
    metrics: Sequence[ScoredMetric]
    seconds: Mapping[str, float]
    remarks: Sequence[Failure]
    facts: Mapping[str, ModelFacts]
    rows: Mapping[str, np.ndarray]
    samples: Samples


class SamplesFile:
    """The file of a run's samples.

    Args:
        samples: The samples.
        hold: What the file holds of them, not ``none``.
        folder: Where it is written.
        beside: Let a forked process write it while this one goes on, where there is a core for it.
    """

    def __init__(self, samples: Samples, hold: SampleContent, folder: Path, *, beside: bool) -> None:
        self.path = folder / SAMPLES_FILE
        self._samples = samples
        self._hold = hold
        self._fork = Fork(self._written) if beside and cores_to_share() > 1 else None

    def digest(self) -> str:
        """Return the SHA-256 of the file, once it is there.

        Raises:
            OSError: It cannot be written.
        """
        return (self._fork and self._fork.made()) or self._written()

    def end(self) -> None:
        """End whoever still writes it."""
        if self._fork:
            self._fork.end()

    def _written(self) -> str:
        tables = self._samples.tables
        write_samples(tables() if self._hold == "full" else scores_alone(tables), self.path)
        return _sha256(self.path)


@contextmanager
def samples_file(samples: Samples, hold: SampleContent, *, beside: bool) -> Generator[SamplesFile | None]:
    """Give the file of a run's samples, which goes at the end unless it was put elsewhere; None if none is wanted.

    Args:
        samples: The samples.
        hold: What the file holds of them.
        beside: As of :class:`SamplesFile`.
    """
    if hold == "none":
        yield None
        return
    with temporary_folder() as folder:
        file = SamplesFile(samples, hold, folder, beside=beside)
        try:
            yield file
        finally:
            file.end()


def keep(
    finished: Finished,
    scored: Scored,
    output: Path | None,
    samples_hold: SampleContent,
    written: SamplesFile | None,
) -> TaskRun:
    """Make the record of a run, and write it with its samples.

    Args:
        finished: The run.
        scored: What was scored, and the scores.
        output: Folder below which it is written; None writes nothing.
        samples_hold: What is written of samples; with ``scores`` the record quotes no data, either.
        written: The file of the samples; None if none is kept.

    Raises:
        DataError: The folder cannot be written.
    """
    gathering, samples = scored.gathering, scored.samples
    shown: dict[str, tuple[str, bytes]] = {}
    may_be_shown = gathering.has_images and (finished.card is None or finished.card.pictures)
    if output and samples_hold == finished.redistribution == "full" and may_be_shown:
        # Where rows are not single captions, a row of values is not one of items.
        values = list(finished.scores.values()) if finished.words is not None else []
        shown = pictures(values, gathering.sample)
    paths = {identity: f"pictures/{name}" for identity, (name, _) in shown.items()}
    files: dict[str, bytes | Path] = {f"pictures/{name}": content for name, content in shown.values()}
    sums = {f"pictures/{name}": hashlib.sha256(content).hexdigest() for name, content in shown.values()}
    if written:
        sums[SAMPLES_FILE], files[SAMPLES_FILE] = written.digest(), written.path
    record = Record.of(finished, samples_hold, paths, sums)
    folder = write_run(output, record, files) if output else None
    # What was written in full need not be in memory, too.
    at_hand = None if folder and samples_hold == "full" and len(gathering.shards) > 1 else samples.table()
    return TaskRun(record, list(finished.results), folder, summarise(finished.failures), table=at_hand)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
