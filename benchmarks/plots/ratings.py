"""Distributions of scores by human rating: a row a rating, as in a ridge plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..records.record import Record
from .histograms import ScoresBy, scores_by
from .small_multiples import grid_shape, panel_titles, set_ticks, shared_task, title_heights
from .style import BLUE, ORANGE, PALE, Width, describe, distinct_numbers, new_figure, number, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 0.86
"""Height of the highest bar of each rating, in rows."""


def ratings_figure(
    records: Sequence[Record], *, metrics: Sequence[str] = (), width: Width = "single", notes: list[str] | None = None
) -> Figure:
    """Plot how the scores of captions are distributed at each human rating: a panel a metric.

    Each row is the histogram of one rating (or of one bin of ratings), scaled so that its highest bar is as high
    as that of any other, with the median as a line. At the right is the number of captions; one counts once
    for each of its ratings.

    Args:
        records: Runs of protocol ``agreement``; of the same metric of a task, the newest.
        metrics: Names of the metrics to show; empty for all.
        width: ``single`` (3.3 in) or ``double`` (6.9 in).
        notes: Is given a text for every task that is left out.

    Raises:
        DataError: No run has histograms by rating.
        UsageError: No run has one of the metrics; matplotlib is missing.
    """
    panels = scores_by(records, "by_rating", metrics, [] if notes is None else notes)
    with style():
        return _drawn(panels, width)


def _drawn(panels: Sequence[ScoresBy], width: Width) -> Figure:
    rows, columns = grid_shape(len(panels), width)
    most = [max(len(panel.steps) for panel in panels[row * columns :][:columns]) for row in range(rows)]
    heights = [max(1.0, 0.19 * ratings) for ratings in most]
    titles = panel_titles(panels, columns)
    figure = new_figure(width, sum(heights) + sum(title_heights(titles, columns)) + 0.32 * rows + 0.5)
    grid = figure.add_gridspec(rows, columns, height_ratios=heights)
    axes = [figure.add_subplot(grid[divmod(place, columns)]) for place in range(len(panels))]
    for one, panel, title in zip(axes, panels, titles, strict=True):
        _draw_panel(one, panel)
        set_ticks(one.xaxis, 3 if columns > 1 else 5)
        one.set_title(title)
    figure.suptitle(shared_task(panels))
    figure.supxlabel("score (line: median)", fontsize=8)
    figure.supylabel("human rating", fontsize=8)
    describe(figure, "Distribution of scores by human rating", [_sentence(panel) for panel in panels])
    return figure


def _draw_panel(axes: Axes, panel: ScoresBy) -> None:
    n = panel.n
    heights = panel.counts * (_HEIGHT / np.maximum(panel.counts.max(axis=1), 1))[:, None]
    beside = axes.get_yaxis_transform()
    for row, (bars, median) in enumerate(zip(heights, panel.quantile(0.5), strict=True)):
        axes.stairs(row + bars, panel.edges, baseline=row, fill=True, facecolor=PALE, edgecolor=BLUE, linewidth=0.7)
        if n[row]:
            axes.vlines(median, row, row + _HEIGHT, color=ORANGE, linewidth=1.2)
        axes.text(1.02, row + 0.1, f"{n[row]:,}", transform=beside, fontsize=7)
    axes.text(1.02, 1.0, "n", transform=axes.transAxes, fontsize=7, va="top")
    axes.set_yticks([row + 0.3 for row in range(len(n))], distinct_numbers(panel.steps.tolist()))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.12, len(n) + 0.2)
    axes.set_xlim(panel.edges[0], panel.edges[-1])
    axes.spines["left"].set_visible(False)


def _sentence(panel: ScoresBy) -> str:
    said = ", ".join(
        f"{number(rating)}: {number(median)} (n = {n:,})" if n else f"{number(rating)}: none"
        for rating, median, n in zip(panel.steps, panel.quantile(0.5), panel.n, strict=True)
    )
    return f"{panel.task}, {panel.label}, median score by rating: {said}."
