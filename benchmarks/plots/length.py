"""Scores against the length of captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..records.record import Record
from .histograms import ScoresBy, scores_by
from .small_multiples import grid_shape, panel_titles, set_ticks, shared_task, title_heights
from .style import BLUE, GREY, PALE, Width, describe, new_figure, number, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW = 10
"""Captions that a point stands for at least, where there are so many."""

_LEAST_BINS = 6
"""The axis of scores shows at least so many bins, lest what happens within one fill it."""


def length_figure(
    records: Sequence[Record], *, metrics: Sequence[str] = (), width: Width = "single", notes: list[str] | None = None
) -> Figure:
    """Plot the scores of captions against their number of words: a panel a metric.

    The line is the median of the captions of so many words, the band reaches from the first to the third
    quartile, and the bars below are the number of captions. Neighbouring lengths are joined until a point
    stands for 10 captions, at their mean length. Quartiles are read from the record's 20 bins of scores, whose
    edges are the small ticks: they are exact to the width of one.

    Args:
        records: Runs whose captions were scored one by one; of the same metric of a task, the newest.
        metrics: Names of the metrics to show; empty for all.
        width: ``single`` (3.3 in) or ``double`` (6.9 in).
        notes: Is given a text for every task that is left out.

    Raises:
        DataError: No run has histograms by words.
        UsageError: No run has one of the metrics; matplotlib is missing.
    """
    panels = scores_by(records, "by_words", metrics, [] if notes is None else notes)
    with style():
        return _drawn(panels, width)


def _drawn(panels: Sequence[ScoresBy], width: Width) -> Figure:
    rows, columns = grid_shape(len(panels), width)
    titles = panel_titles(panels, columns)
    figure = new_figure(width, 1.64 * rows + sum(title_heights(titles, columns)) + 0.5)
    grid = figure.add_gridspec(rows, columns)
    for place, (panel, title) in enumerate(zip(panels, titles, strict=True)):
        inner = grid[divmod(place, columns)].subgridspec(2, 1, height_ratios=(4, 1))
        axes = figure.add_subplot(inner[0])
        strip = figure.add_subplot(inner[1], sharex=axes)
        _draw_scores(axes, panel)
        _draw_counts(strip, panel)
        axes.set_title(title)
    figure.suptitle(shared_task(panels))
    figure.supxlabel("words in the caption (bars: number of captions)", fontsize=8)
    figure.supylabel("score (median, quartiles)", fontsize=8)
    describe(figure, "Scores by length of the caption", [_sentence(panel) for panel in panels])
    return figure


def _draw_scores(axes: Axes, panel: ScoresBy) -> None:
    words, joined = _joined(panel)
    low, median, high = (joined.quantile(share) for share in (0.25, 0.5, 0.75))
    if len(words) > 1:
        axes.fill_between(words, low, high, facecolor=PALE, edgecolor="none")
    else:
        axes.vlines(words, low, high, color=BLUE, linewidth=0.7)
    axes.plot(words, median, "o-", color=BLUE, markersize=2.6, linewidth=1.0)
    axes.set_ylim(*_score_limits(panel, np.concatenate([low, high])))
    set_ticks(axes.yaxis, 4)
    # The small ticks are the edges of bins, which is how exact quartiles are.
    axes.set_yticks([edge for edge in panel.edges if axes.get_ylim()[0] <= edge <= axes.get_ylim()[1]], minor=True)
    axes.tick_params(axis="y", which="minor", length=1.2)
    axes.tick_params(axis="x", labelbottom=False)
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.5)


def _joined(panel: ScoresBy) -> tuple[np.ndarray, ScoresBy]:
    """Return mean numbers of words, and the counts of neighbouring bins joined until each holds enough captions."""
    # A bin of words holds its first whole number, and not the next bin's.
    centres = (panel.steps[:-1] + panel.steps[1:] - 1) / 2
    starts = [0]
    for end in range(1, len(centres)):
        if panel.n[starts[-1] : end].sum() >= FEW and panel.n[end:].sum() >= FEW:
            starts.append(end)
    counts = np.add.reduceat(panel.counts, starts)
    words = np.add.reduceat(panel.n * centres, starts) / counts.sum(axis=1)
    return words, replace(panel, steps=panel.steps[[*starts, -1]], counts=counts)


def _score_limits(panel: ScoresBy, shown: np.ndarray) -> tuple[float, float]:
    """Return edges of bins around what is shown."""
    last = len(panel.edges) - 1
    first = max(int(np.searchsorted(panel.edges, shown.min(), side="right")) - 1, 0)
    end = min(int(np.searchsorted(panel.edges, shown.max(), side="left")), last)
    end = min(max(end, first + _LEAST_BINS), last)
    first = max(min(first, end - _LEAST_BINS), 0)
    return float(panel.edges[first]), float(panel.edges[end])


def _draw_counts(strip: Axes, panel: ScoresBy) -> None:
    most = int(panel.n.max())
    used = np.flatnonzero(panel.n)
    strip.stairs(panel.n, panel.steps - 0.5, fill=True, color=GREY)
    set_ticks(strip.xaxis, 5, integer=True)
    strip.set_yticks([0, most], ["0", f"{most:,}"], fontsize=7)
    strip.set_xlim(float(panel.steps[used[0]]) - 0.5, float(panel.steps[used[-1] + 1]) - 0.5)


def _sentence(panel: ScoresBy) -> str:
    first, last = panel.steps[:-1], panel.steps[1:] - 1
    said = ", ".join(
        f"{number(a) if a == b else f'{number(a)} to {number(b)}'}: {number(median)} (n = {n:,})"
        for a, b, median, n in zip(first, last, panel.quantile(0.5), panel.n, strict=True)
        if n
    )
    return f"{panel.task}, {panel.label}, median score by words: {said}."
