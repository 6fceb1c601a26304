"""Panels of metrics in rows and columns, with one title, and names of axes that all share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .histograms import ScoresBy
from .style import Width, folded, number

if TYPE_CHECKING:
    from matplotlib.axis import Axis


def grid_shape(panels: int, width: Width) -> tuple[int, int]:
    """Return how many rows and columns of panels a figure has."""
    columns = min(panels, 3) if width == "double" else (2 if panels > 2 else 1)
    return math.ceil(panels / columns), columns


def panel_titles(panels: Sequence[ScoresBy], columns: int) -> list[str]:
    """Return what each panel is called: its metric, with the task where the figure has no other place for it."""
    letters = 42 if columns == 1 else 20
    if shared_task(panels):
        return [folded(panel.label, letters) for panel in panels]
    return [f"{folded(panel.task, letters)}\n{folded(panel.label, letters)}" for panel in panels]


def shared_task(panels: Sequence[ScoresBy]) -> str:
    """Return the task that stands above several panels, or nothing."""
    tasks = {panel.task for panel in panels}
    return folded(panels[0].task, 50) if len(tasks) == 1 and len(panels) > 1 else ""


def title_heights(titles: Sequence[str], columns: int) -> list[float]:
    """Return the inches that titles take in each row of panels."""
    rows = [titles[start : start + columns] for start in range(0, len(titles), columns)]
    return [0.16 * max(1 + title.count("\n") for title in row) for row in rows]


def set_ticks(axis: Axis, most: int, integer: bool = False) -> None:
    """Put few round numbers at an axis, as short as they can be."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=most, steps=[1, 2, 4, 5, 10], integer=integer))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 10)))
