"""Binned scores of single captions, by human rating (a row a rating, as in a ridge plot) and by length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...errors import DataError
from ..protocols import names_where
from ..records.histograms import By
from ..records.record import Record
from .runs import by_task, choose, limit_note, require_metrics
from .style import BLUE, GREY, ORANGE, PALE, Width, describe, distinct_numbers, folded, new_figure, number, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec


@dataclass(frozen=True)
class ScoresBy:
    """Scores of a metric, counted in bins, for every human rating or every length of caption.

    Attributes:
        task: The task, as titles name it.
        label: Name of the metric in the plot.
        edges: ``[bins + 1]`` of the scores, rising.
        steps: ``[k]`` ratings; or ``[k + 1]`` edges of bins of words.
        counts: ``[k, bins]`` captions.
    """

    task: str
    label: str
    edges: np.ndarray
    steps: np.ndarray
    counts: np.ndarray

    @property
    def n(self) -> np.ndarray:
        """``[k]`` captions of each rating or length."""
        return self.counts.sum(axis=1)

    def quantile(self, share: float) -> np.ndarray:
        """Return ``[k]`` the score that this share of the captions is below; NaN where there are none.

        Captions are taken to be spread evenly within a bin, so it is exact to the width of one.
        """
        result = np.full(len(self.counts), np.nan)
        for row, counts in enumerate(self.counts):
            if total := counts.sum():
                result[row] = np.interp(share, np.concatenate([[0], np.cumsum(counts)]) / total, self.edges)
        return result


def scores_by(records: Sequence[Record], by: By, metrics: Sequence[str], notes: list[str]) -> list[ScoresBy]:
    """Return the binned scores of the metrics, by task.

    Args:
        records: Runs.
        by: Rating or number of words.
        metrics: Names of metrics; empty for all.
        notes: Receives a text for every task that is left out.

    Raises:
        DataError: No run has such counts.
        UsageError: No run has one of the metrics.
    """
    fitting = [record for record in records if record.binned_by(by)]
    if not fitting:
        raise DataError(*_why_none(records, by))
    for title, group in by_task([record for record in records if record not in fitting]):
        notes.append(f"{title} is left out: {_why_none(group, by)[0]}")
    require_metrics(metrics, (name for record in fitting for name in record.binned_by(by)))
    panels = []
    for title, group in by_task(fitting):
        for plotted in choose(group, lambda record: record.binned_by(by), metrics):
            histogram = plotted.record.histograms[plotted.metric]
            task, arrays = title + limit_note([plotted.record]), (histogram.edges, *histogram.grouped(by))
            panels.append(ScoresBy(task, plotted.label, *map(np.asarray, arrays)))
    return panels


def _why_none(records: Sequence[Record], by: By) -> tuple[str, str]:
    task, protocol = records[0].task, records[0].output_type
    if by == "by_rating" and not records[0].protocol.rated:
        rated = " or ".join(names_where(lambda protocol: protocol.rated))
        return (
            f"the captions of task '{task}' (protocol {protocol}) have no human ratings",
            f"Plot runs of tasks with protocol {rated}: bench ls tasks --tag agreement",
        )
    single = " or ".join(names_where(lambda protocol: protocol.sample == "caption"))
    return (
        f"the run of task '{task}' (protocol {protocol}) has no scores of single captions",
        f"Plot runs of tasks with protocol {single} and a metric that scores single captions.",
    )


def grid_shape(panels: int, width: Width) -> tuple[int, int]:
    """Return the number of rows and columns of panels."""
    columns = min(panels, 3) if width == "double" else (2 if panels > 2 else 1)
    return math.ceil(panels / columns), columns


def titles_of(panels: Sequence[ScoresBy], columns: int) -> tuple[str, list[str], float]:
    """Return the common task of several panels (else empty), the title of each panel, and the height of all in inches.

    A title is the metric, with the task where panels are of several tasks.
    """
    letters = 42 if columns == 1 else 20
    shared = len(panels) > 1 and len({panel.task for panel in panels}) == 1
    titles = [
        "\n".join(folded(name, letters) for name in ([] if shared else [panel.task]) + [panel.label])
        for panel in panels
    ]
    rows = [titles[start : start + columns] for start in range(0, len(titles), columns)]
    height = sum(0.16 * max(1 + title.count("\n") for title in row) for row in rows)
    return folded(panels[0].task, 50) if shared else "", titles, height


def set_ticks(axis: Axis, most: int, integer: bool = False) -> None:
    """Set few round numbers as ticks of an axis."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=most, steps=[1, 2, 4, 5, 10], integer=integer))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 10)))


_HEIGHT = 0.86
"""Height of the highest bar of each rating, in rows."""


def ratings_figure(
    records: Sequence[Record], *, metrics: Sequence[str] = (), width: Width = "single", notes: list[str] | None = None
) -> Figure:
    """Plot the distribution of scores at each human rating: a panel a metric.

    Each row is the histogram of one rating (or of one bin of ratings), scaled to equal height, with the median as a
    line. At the right is the number of captions; one counts once for each of its ratings.

    Args:
        records: Runs of protocol ``agreement``; of the same metric of a task, the newest.
        metrics: Names of the metrics to show; empty for all.
        width: ``single`` (3.3 in) or ``double`` (6.9 in).
        notes: Receives a text for every task that is left out.

    Raises:
        DataError: No run has histograms by rating.
        UsageError: No run has one of the metrics; matplotlib is missing.
    """
    panels = scores_by(records, "by_rating", metrics, [] if notes is None else notes)
    words = "Distribution of scores by human rating", "score (line: median)", "human rating"
    return _figure(panels, width, lambda panel: max(1.0, 0.19 * len(panel.steps)), _draw_ratings, words, _of_ratings)


def _figure(
    panels: Sequence[ScoresBy],
    width: Width,
    height: Callable[[ScoresBy], float],
    draw: Callable[[Figure, SubplotSpec, ScoresBy], Axes],
    words: tuple[str, str, str],
    of_panel: Callable[[ScoresBy], str],
) -> Figure:
    """Return a figure of a panel a metric; ``words`` are what it shows, and the labels of its axes."""
    with style():
        rows, columns = grid_shape(len(panels), width)
        heights = [max(map(height, panels[row * columns :][:columns])) for row in range(rows)]
        task, titles, above = titles_of(panels, columns)
        figure = new_figure(width, sum(heights) + above + 0.32 * rows + 0.5)
        grid = figure.add_gridspec(rows, columns, height_ratios=heights)
        for place, (panel, title) in enumerate(zip(panels, titles, strict=True)):
            draw(figure, grid[divmod(place, columns)], panel).set_title(title)
        figure.suptitle(task)
        figure.supxlabel(words[1], fontsize=8)
        figure.supylabel(words[2], fontsize=8)
        describe(figure, words[0], list(map(of_panel, panels)))
        return figure


def _draw_ratings(figure: Figure, place: SubplotSpec, panel: ScoresBy) -> Axes:
    axes, n = figure.add_subplot(place), panel.n
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
    set_ticks(axes.xaxis, 3 if place.get_gridspec().ncols > 1 else 5)
    return axes


def _of_ratings(panel: ScoresBy) -> str:
    return _medians(panel, "rating", map(number, panel.steps))


def _medians(panel: ScoresBy, by: str, names: Iterable[str]) -> str:
    medians = ", ".join(
        f"{name}: {number(median)} (n = {n:,})" if n else f"{name}: none"
        for name, median, n in zip(names, panel.quantile(0.5), panel.n, strict=True)
        if n or by == "rating"
    )
    return f"{panel.task}, {panel.label}, median score by {by}: {medians}."


FEW = 10
"""Least number of captions of a point, where there are enough captions."""

_LEAST_BINS = 6
"""Least number of bins on the axis of scores, as quartiles are exact to the width of a bin."""


def length_figure(
    records: Sequence[Record], *, metrics: Sequence[str] = (), width: Width = "single", notes: list[str] | None = None
) -> Figure:
    """Plot the scores of captions against their number of words: a panel a metric.

    The line is the median score at a number of words, the band reaches from the first to the third
    quartile, and the bars below are the number of captions. Neighbouring lengths are joined until a point
    stands for 10 captions, at their mean length. Quartiles are read from the record's 20 bins of scores, whose
    edges are the small ticks: they are exact to the width of one.

    Args:
        records: Runs whose captions were scored one by one; of the same metric of a task, the newest.
        metrics: Names of the metrics to show; empty for all.
        width: ``single`` (3.3 in) or ``double`` (6.9 in).
        notes: Receives a text for every task that is left out.

    Raises:
        DataError: No run has histograms by words.
        UsageError: No run has one of the metrics; matplotlib is missing.
    """
    panels = scores_by(records, "by_words", metrics, [] if notes is None else notes)
    axes = "words in the caption (bars: number of captions)", "score (median, quartiles)"
    words = "Scores by length of the caption", *axes
    return _figure(panels, width, lambda panel: 1.32, _draw_lengths, words, _of_lengths)


def _draw_lengths(figure: Figure, place: SubplotSpec, panel: ScoresBy) -> Axes:
    inner = place.subgridspec(2, 1, height_ratios=(4, 1))
    axes = figure.add_subplot(inner[0])
    _draw_scores(axes, panel)
    _draw_counts(figure.add_subplot(inner[1], sharex=axes), panel)
    return axes


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
    # The small ticks are the edges of bins: quartiles are exact to the width of one.
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
    """Return the edges of bins around the plotted scores."""
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


def _of_lengths(panel: ScoresBy) -> str:
    ends = zip(panel.steps[:-1], panel.steps[1:] - 1, strict=True)
    return _medians(panel, "words", (number(a) if a == b else f"{number(a)} to {number(b)}" for a, b in ends))
