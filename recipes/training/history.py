"""The history of a training: a line per step and per validation, which a tracker of experiments gets, too."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from ...atomic_files import write_whole
from ...errors import DataError, UsageError, extra
from ...paths import without_folders

FILE, FIGURE = "metrics.jsonl", "loss.svg"
TrackerName: TypeAlias = Literal["wandb", "trackio", "tensorboard"]


@dataclass(frozen=True)
class StepReport:
    """Progress of a training after a step.

    Attributes:
        step: Number of completed steps.
        steps: Number of steps of the training.
        loss: Loss of the step.
        rate: Its learning rate.
        seconds_left: Estimated from the steps so far; None at the first.
    """

    step: int
    steps: int
    loss: float
    rate: float
    seconds_left: float | None


class History:
    """The lines of a training in a folder; lines of later steps, which are from a killed process, are removed.

    Args:
        folder: The folder of the training.
        after: Number of steps completed.
        is_first: Whether this process writes.
        tracker: What gets the lines, too; only where this process writes.
    """

    def __init__(self, folder: Path, after: int, is_first: bool, tracker: Tracker | None = None) -> None:
        self._file, self._is_first = folder / FILE, is_first
        self._tracker = tracker
        if is_first:
            kept = [line for line in read_history(folder) if line["step"] <= after]
            write_whole(self._file, "".join(json.dumps(line) + "\n" for line in kept))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._tracker is not None:
            self._tracker.finish()

    def note(self, line: Mapping[str, Any]) -> None:
        """Add a line, which has its ``step``."""
        if self._is_first:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        if self._tracker is not None:
            self._tracker.log(line)


class Tracker:
    """A run of a tracker of experiments, as accelerate logs to it.

    Args:
        name: The tracker.
        folder: The folder of the training, where TensorBoard's event file is written.
        settings: The recipe.

    Raises:
        UsageError: Its package is missing; the hint says what to install.
        DataError: It refuses or cannot be reached.
    """

    def __init__(self, name: TrackerName, folder: Path, settings: Mapping[str, Any]) -> None:
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        with extra(name, f"--log_to {name} needs the package of that name"):
            importlib.import_module(name)
        kind: Any = LOGGER_TYPE_TO_CLASS[name]
        try:
            self._run = (
                kind(folder.name, folder) if kind.requires_logging_directory else kind("capbench", name=folder.name)
            )
            self._run.start()
            self._run.store_init_configuration(_flat(without_folders(settings)))
        except Exception as error:
            # Trackers have no common base class for their errors: no key, no network, a name that is taken.
            raise DataError(f"not logged to {name}: {type(error).__name__}: {error}") from error

    def log(self, line: Mapping[str, Any]) -> None:
        """Log the numbers of a line."""
        self._run.log({name: value for name, value in line.items() if name != "step"}, step=line["step"])

    def finish(self) -> None:
        """Send what is left."""
        self._run.finish()


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings as ``section.key``, with values that all trackers take."""
    import pandas as pd

    (flat,) = pd.json_normalize(dict(settings)).to_dict("records")
    return {
        str(key): value if isinstance(value, str | int | float) else json.dumps(value) for key, value in flat.items()
    }


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the history, without an incomplete last one."""
    path = folder / FILE
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def draw_history(folder: Path, name: str) -> str:
    """Draw the losses by step; return the reason if that fails."""
    from ...benchmarks.plots.style import BLUE, ORANGE, new_figure, style, write_figure

    history = read_history(folder)
    try:
        with style():
            figure = new_figure("single", 2.2)
            axes = figure.subplots()
            for kind, label, colour, marker in (
                ("loss", "of the step", BLUE, ""),
                ("validation_loss", "validation", ORANGE, "o"),
            ):
                if points := [(line["step"], line[kind]) for line in history if kind in line]:
                    x, y = zip(*points, strict=True)
                    axes.plot(x, y, color=colour, marker=marker, markersize=3, linewidth=0.8, label=label)
            axes.set_xlabel("step")
            axes.set_ylabel("loss")
            axes.legend()
            steps = sum("loss" in line for line in history)
            figure.set_label(f"Losses of {name}\nThe loss of each of {steps} steps, and of validation.")
            write_figure(figure, folder / FIGURE)
    except UsageError as error:
        return error.in_one_line
    return ""
