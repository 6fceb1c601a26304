"""One finished task: results, samples and record."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..inputs.failures import FailureSummary
from ..protocols.job import Result
from .record import Record
from .samples import read_samples


@dataclass(frozen=True)
class TaskRun:
    """One task and one model.

    Attributes:
        record: The content of ``run.json``.
        results: The numbers, in table order.
        folder: Where the run was written; None if it was not.
        failures: The record's, with full reasons, which may name folders of this machine or quote the data.
        outside: Number and place of images outside of the folders that the task may read, and the option to allow
            them; empty if there are none. It names folders of this machine, so no record holds it.
        table: Returns the samples as pyarrow table, where they are in memory.
    """

    record: Record
    results: list[Result]
    folder: Path | None = None
    failures: list[FailureSummary] = field(default_factory=list[FailureSummary])
    outside: str = ""
    table: Callable[[], Any] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def samples(self) -> Any:
        """A row a sample, as pyarrow table: id, candidate, references, ratings, score of each metric.

        Raises:
            DataError: The run was read from a folder without samples, or with changed ones.
        """
        if self.table is not None:
            return self.table()
        return None if self.folder is None else read_samples(self.folder, self.record)
