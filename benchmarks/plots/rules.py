"""Scores of changed captions, rule by rule: a panel a metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import DataError
from ..protocols import names_where
from ..protocols.job import Result
from ..records.record import Record
from .histograms import grid_shape
from .runs import by_task, choose, limit_note, require_metrics
from .style import BLUE, GREY, ORANGE, Width, describe, folded, new_figure, number, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 0.17
"""Height of a rule in inches."""


_Panel = tuple[str, Sequence[Result]]
"""The label of a metric, and the first result of each rule that gives a share."""


def rules_figure(
    records: Sequence[Record], *, metrics: Sequence[str] = (), width: Width = "double", notes: list[str] | None = None
) -> Figure:
    """Plot the share of changed captions whose score changes as expected.

    A dot is the share of captions that the metric scores lower (degrading changes, filled), or equally (changes that
    keep the meaning, hollow); its line is the confidence interval. Results of gaming rules are not shares, and are in
    tables alone.

    Args:
        records: Runs of one task of a protocol with rules; runs of other tasks are left out.
        metrics: Names of the metrics to show; empty for all.
        width: ``single`` (3.3 in, two panels in a row) or ``double`` (6.9 in, three).
        notes: Receives a text for every task that is left out.

    Raises:
        DataError: No run is of such a protocol.
        UsageError: No run has one of the metrics; matplotlib is missing.
    """
    fitting = [record for record in records if record.protocol.by_rule and record.results]
    if not fitting:
        known = " or ".join(names_where(lambda protocol: protocol.by_rule))
        raise DataError(
            f"no run scores changed captions: task '{records[0].task}' has protocol {records[0].output_type}",
            f"Plot runs of tasks with protocol {known}: bench ls tasks --tag checklist",
        )
    (task, group), *others = by_task(fitting)
    if notes is not None:
        left_out = [title for title, _ in (*others, *by_task([record for record in records if record not in fitting]))]
        notes += [f"{title} is left out: a figure has one task of changed captions" for title in left_out]
    require_metrics(metrics, (metric for record in group for metric in record.metrics))
    panels: list[_Panel] = []
    for plotted in choose(group, lambda record: record.metrics, metrics):
        first: dict[str, Result] = {}
        for result in plotted.record.results.values():
            if result.metric == plotted.metric:
                first.setdefault(result.category, result)
        panels.append((plotted.label, [result for result in first.values() if result.statistic in ("falls", "equal")]))
    task += limit_note(group)
    with style():
        rows, columns = grid_shape(len(panels), width)
        # All panels have all rules; a failed metric has no values.
        labels = list(dict.fromkeys(result.label[1] for _, results in panels for result in results))
        figure = new_figure(width, rows * (_ROW * len(labels) + 0.55) + 0.4)
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for place, axes in enumerate(grid.flat):
            if place < len(panels):
                _draw(axes, panels[place], labels)
            else:
                axes.set_visible(False)
        grid[0, 0].set_xlim(-0.03, 1.03)
        grid[0, 0].set_ylim(len(labels) - 0.4, -0.6)
        figure.suptitle(folded(task, 60))
        figure.supxlabel("share of changed captions", fontsize=8)
        describe(figure, f"{task}: how often metrics do what is expected", [_sentence(panel) for panel in panels])
        return figure


def _draw(axes: Axes, panel: _Panel, labels: Sequence[str]) -> None:
    title, results = panel
    for result in results:
        place, colour = labels.index(result.label[1]), BLUE if result.statistic == "falls" else ORANGE
        if result.value is None:
            axes.text(0.5, place, "undefined", color=GREY, ha="center", va="center_baseline")
            continue
        if result.interval and result.interval.ends:
            axes.hlines(place, *result.interval.ends, color=colour, linewidth=1.4)
        face = colour if result.statistic == "falls" else "white"
        axes.plot(
            result.value, place, "o", markersize=3.6, markerfacecolor=face, markeredgecolor=colour, markeredgewidth=0.8
        )
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#E4E4E4", linewidth=0.5)
    axes.spines["left"].set_visible(False)
    axes.set_title(folded(title, 20), loc="left")


def _sentence(panel: _Panel) -> str:
    title, results = panel
    shares = (
        f"{result.label[1]} {'undefined' if result.value is None else number(result.value)}" for result in results
    )
    return f"{title}: {', '.join(shares)}."
