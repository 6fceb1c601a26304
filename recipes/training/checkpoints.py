"""Checkpoints of a training: a folder each, which is whole once its mark is written."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ...atomic_files import write_whole
from ...errors import TrainingError
from .history import read_history
from .processes import TrainingProcesses

CHECKPOINTS, MARK = "checkpoints", "capbench.json"
"""The folder of checkpoints, and the file in each that is written last."""


@dataclass(frozen=True)
class TrainingState:
    """The state of a training.

    Attributes:
        fingerprint: Of recipe and data.
        step: Number of completed steps.
        best: The best value so far of what the stop rule watches; None before the first.
        best_step: The step with that value.
        ended: Why the training has ended; empty before.
    """

    fingerprint: str
    step: int = 0
    best: float | None = None
    best_step: int = 0
    ended: str = ""


class Checkpoints:
    """The checkpoints of a training in its folder.

    Args:
        folder: The folder of the training.
        fingerprint: Of recipe and data.
        processes: The processes of the training; the first writes.

    Attributes:
        folder: Holds the checkpoints.
        last: The last whole one; None before there is any.
        state: The state of the training at ``last``.

    Raises:
        TrainingError: The folder holds another training, or the mark of a checkpoint is damaged.
    """

    def __init__(self, folder: Path, fingerprint: str, processes: TrainingProcesses) -> None:
        self.folder = folder / CHECKPOINTS
        self._is_first = processes.is_first
        marks = list(self.folder.glob(f"checkpoint-*/{MARK}"))
        self.last = max((mark.parent for mark in marks), key=_step, default=None)
        self.state = TrainingState(fingerprint) if self.last is None else _read(self.last / MARK)
        if self.state.fingerprint != fingerprint:
            raise TrainingError(
                f"{folder}: holds a training with another recipe or other data.",
                "Name another folder with --output, or remove this one.",
            )
        if self._is_first:
            # What a killed process did not write to its end, libraries would count among theirs.
            self._remove(lambda path: not (path / MARK).is_file())
        processes.wait()

    def at(self, step: int) -> Path:
        """Return the checkpoint of a step."""
        return self.folder / f"checkpoint-{step}"

    def mark(self, state: TrainingState) -> None:
        """Mark the checkpoint of a state as whole."""
        if self._is_first:
            write_whole(self.at(state.step) / MARK, json.dumps(asdict(state)))
        self.state, self.last = state, self.at(state.step)

    def no_number(self, step: int, fault: str) -> TrainingError:
        """Return an error with the losses of the last checkpoint, whose weights may be ruined already.

        Args:
            step: The step at which a number is not finite.
            fault: Which number it is.
        """
        note = "There is no earlier checkpoint."
        if self.last is not None:
            lines = (line for line in read_history(self.folder.parent) if line["step"] == self.state.step)
            known = {key: value for line in lines for key, value in line.items()}
            parts = [f"{key.replace('_', ' ')} {known[key]:.4g}" for key in ("loss", "validation_loss") if key in known]
            note = f"The last checkpoint is {self.last} ({', '.join([f'step {self.state.step}', *parts])})."
        remedy = "Use a new folder and a lower rate, a warm-up or 'optimiser.clip'."
        return TrainingError(f"step {step}: {fault}.", f"{note} {remedy}")

    def keep(self, *steps: int) -> None:
        """Remove all checkpoints but those of some steps."""
        if self._is_first:
            self._remove(lambda path: _step(path) not in steps)

    def _remove(self, unwanted: Callable[[Path], bool]) -> None:
        for path in self.folder.glob("checkpoint-*"):
            if unwanted(path):
                shutil.rmtree(path)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _read(mark: Path) -> TrainingState:
    try:
        return TrainingState(**json.loads(mark.read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise TrainingError(f"{mark}: not a valid checkpoint: {error}", f"Remove {mark.parent}.") from error
