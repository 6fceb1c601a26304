"""What happened at each step: a line of JSON each, and a figure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...drafts import write_whole
from ...errors import UsageError

FILE, FIGURE = "metrics.jsonl", "loss.svg"


class History:
    """The lines of a training.

    Args:
        folder: Where its file is.
        step: Steps that were taken; lines of later ones, which a killed process left, go.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self._path = folder / FILE
        kept = [line for line in read_history(folder) if line["step"] <= step]
        write_whole(self._path, "".join(json.dumps(line) + "\n" for line in kept))

    def add(self, line: Mapping[str, Any]) -> None:
        """Add a line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a training; a last one that is not whole is left out."""
    path = folder / FILE
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def draw_history(folder: Path, name: str) -> str:
    """Draw the losses by step, and return why not where that cannot be done."""
    from ...benchmarks.plots.style import BLUE, ORANGE, new_figure, style, write_figure

    lines = read_history(folder)
    steps = [line for line in lines if "loss" in line]
    watched = [line for line in lines if "validation_loss" in line]
    try:
        with style():
            figure = new_figure("single", 2.2)
            axes = figure.subplots()
            axes.plot(
                [line["step"] for line in steps], [line["loss"] for line in steps], color=BLUE, linewidth=0.8,
                label="of the step",
            )  # fmt: skip
            if watched:
                axes.plot(
                    [line["step"] for line in watched], [line["validation_loss"] for line in watched],
                    color=ORANGE, marker="o", markersize=3, linewidth=0.8, label="validation",
                )  # fmt: skip
            axes.set_xlabel("step")
            axes.set_ylabel("loss")
            axes.legend()
            figure.set_label(f"Losses of {name}\nThe loss of each of {len(steps)} steps, and of validation.")
            write_figure(figure, folder / FIGURE)
    except UsageError as error:
        return error.in_one_line
    return ""
