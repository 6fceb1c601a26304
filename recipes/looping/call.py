"""A loop and where it is carried out, and what each of its parts is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...benchmarks.scale.executors import Executor
from ...progress import Progress, silent
from ..making.making import MakingCall
from ..training.contract import TrainingCall
from ..training.processes import TrainingProcesses
from .schema import LoadedLoop


@dataclass(frozen=True)
class LoopCall:
    """A loop, and where it is carried out.

    Attributes:
        loaded: The loop.
        processes: The one that trains.
        data: Task name to the path of its local data.
        include_path: Folders with task files of the user's own.
        allow_outside: Folders besides those of tasks and data whose files tasks may read.
        store: What ``parse_store`` reads; None for the user's own.
        executor: Who makes shards of rows; None is this process.
        run_folder: Where is written how far it is; None: nowhere.
        progress: Gives a reporter for a step.
    """

    loaded: LoadedLoop
    processes: TrainingProcesses
    data: Mapping[str, str | Path] = field(default_factory=dict[str, "str | Path"])
    include_path: Sequence[str | Path] = ()
    allow_outside: Sequence[str | Path] = ()
    store: str | None = None
    executor: Executor | None = None
    run_folder: Path | None = None
    progress: Progress = silent

    def making(self, captioner: str, turn: str) -> MakingCall:
        """Return what makes the data of a turn.

        Args:
            captioner: The captioner of the turn before.
            turn: The turn's name.
        """
        loaded = self.loaded
        return MakingCall(
            loaded.maker(captioner),
            loaded.data,
            loaded.loop.make.limit,
            self.include_path,
            self.allow_outside,
            self.store,
            self.executor,
            self.run_folder and self.run_folder / turn,
            self.progress,
        )

    def training(self, rows: Path) -> TrainingCall:
        """Return what trains on the data of a turn."""
        return TrainingCall(
            self.loaded.recipe(rows), self.processes, self.data, self.include_path, self.allow_outside, self.progress
        )

    def judging(self) -> dict[str, Any]:
        """Return what the tasks that judge are given; see ``judged``."""
        return {
            "store": self.store,
            "data": self.data,
            "include_path": self.include_path,
            "allow_outside": self.allow_outside,
            "progress": self.progress,
        }
