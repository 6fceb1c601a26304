"""Says whether finished runs are what they were when they were written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import DataError
from ..records.files import read_file
from ..records.reading import read_task_run
from ..records.record import Record
from ..records.samples import SAMPLES_FILE, read_samples
from ..records.task_run import TaskRun
from .rescoring import Rescored


@dataclass(frozen=True)
class Verified:
    """What was found of a run.

    Attributes:
        folder: That of the run.
        run: The run; None where its record cannot be read.
        faults: What is wrong.
        again: What came of scoring it anew; None where that was not asked for.
    """

    folder: Path
    run: TaskRun | None
    faults: tuple[str, ...] = ()
    again: Rescored | None = None

    @property
    def is_sound(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.faults and not (self.again and self.again.differing)

    def scored(self, again: Rescored) -> Verified:
        """Return the same with what came of scoring it anew."""
        return replace(self, again=again)


def verify_run(file: Path) -> Verified:
    """Hold a run against its schema, its fingerprint, its checksum and the sums of its files.

    Args:
        file: Its ``run.json``.
    """
    folder = file.parent
    try:
        run = read_task_run(file)
    except DataError as error:
        return Verified(folder, None, (error.in_one_line.removeprefix(f"{folder}/"),))
    return Verified(folder, run, tuple(_faults_of_files(folder, run.record)))


def _faults_of_files(folder: Path, record: Record) -> Iterator[str]:
    names = dict.fromkeys([*(record.files or record.pictures.values()), SAMPLES_FILE])
    for name in names:
        if not (folder / name).is_file():
            # An older record does not say whether it had samples.
            if record.files is not None and name in record.files:
                yield f"{name}: is missing"
            continue
        try:
            if name == SAMPLES_FILE:
                read_samples(folder, record)
            else:
                read_file(folder, record, name)
        except DataError as error:
            yield error.message.removeprefix(f"{folder}/")
        except OSError as error:
            yield f"{name}: cannot be read: {error.strerror}"
