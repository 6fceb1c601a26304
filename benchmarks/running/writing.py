"""Writes what is kept of a run: its record, its samples, and pictures of some."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from pathlib import Path

from ...drafts import temporary_folder
from ..inputs.failures import summarise
from ..records.files import write_run
from ..records.making import Finished
from ..records.pictures import pictures
from ..records.publishing import SampleContent
from ..records.record import Record
from ..records.samples import SAMPLES_FILE, Samples, scores_alone, write_samples
from ..records.task_run import TaskRun
from .corpus import Corpus


def write(
    finished: Finished, corpus: Corpus, samples: Samples, output: Path | None, samples_hold: SampleContent
) -> TaskRun:
    """Make the record of a run, and write it with its samples.

    Args:
        finished: The run.
        corpus: What was scored.
        samples: A row a sample.
        output: Folder below which it is written; None writes nothing.
        samples_hold: What is written of samples; with ``scores`` the record quotes no data, either.

    Raises:
        DataError: The folder cannot be written.
    """
    files: dict[str, bytes | Path] = {}
    sums: dict[str, str] = {}
    paths: dict[str, str] = {}
    may_be_shown = corpus.has_images and (finished.card is None or finished.card.pictures)
    if output and samples_hold == finished.redistribution == "full" and may_be_shown:
        # Where rows are not single captions, a row of values is not one of items.
        values = list(finished.scores.values()) if finished.words is not None else []
        for identity, (name, content) in pictures(values, corpus.sample).items():
            paths[identity] = path = f"pictures/{name}"
            files[path], sums[path] = content, hashlib.sha256(content).hexdigest()
    writes_samples = output is not None and samples_hold != "none"
    with temporary_folder() if writes_samples else nullcontext() as folder:
        if folder is not None:
            files[SAMPLES_FILE] = path = folder / SAMPLES_FILE
            write_samples(samples.tables() if samples_hold == "full" else scores_alone(samples.tables), path)
            with path.open("rb") as file:
                sums[SAMPLES_FILE] = hashlib.file_digest(file, "sha256").hexdigest()
        record = Record.of(finished, samples_hold, paths, sums)
        written = write_run(output, record, files) if output else None
    # What was written in full need not be in memory, too.
    at_hand = None if written and samples_hold == "full" and corpus.shards > 1 else samples.table()
    return TaskRun(record, list(finished.results), written, summarise(finished.failures), table=at_hand)
