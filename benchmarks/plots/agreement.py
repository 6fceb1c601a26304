"""Agreement with human judgement by metric: dots, confidence intervals, published values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..records.record import Record
from .estimates import Estimate, Panel, agreement_panels
from .style import BLACK, BLUE, GREY, Width, describe, folded, new_figure, number, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 0.19
"""Inches of a line of text with the space around it."""


def agreement_figure(
    records: Sequence[Record],
    *,
    statistic: str = "",
    metrics: Sequence[str] = (),
    width: Width = "single",
    notes: list[str] | None = None,
) -> Figure:
    """Plot how far metrics agree with human judgement: a panel a task, the best metric on top.

    A dot is the measured value on the scale of the task's tables, its line the confidence interval, a hollow
    diamond the published value. Letters at the right are those of the record's ``significance``: metrics that
    share one do not differ; they are shown where all metrics of a panel are of one run.

    Args:
        records: Runs of protocols ``agreement`` and ``preference``; of the same metric of a task, the newest.
        statistic: Name of the statistic (``kendall_c``, ``accuracy``, ``accuracy.HM``); empty for each task's
            first, and for accuracy over all categories.
        metrics: Names of the metrics to show; empty for all.
        width: ``single`` (3.3 in) or ``double`` (6.9 in, two panels beside each other).
        notes: Is given a text for every task that is left out.

    Raises:
        DataError: No run is of such a protocol.
        UsageError: No run has the statistic or one of the metrics; matplotlib is missing.
    """
    panels = agreement_panels(records, statistic, metrics, [] if notes is None else notes)
    with style():
        return _drawn(panels, width)


def _drawn(panels: Sequence[Panel], width: Width) -> Figure:
    columns = min(len(panels), 2 if width == "double" else 1)
    letters = 18 if width == "single" or columns == 2 else 40
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    labels = {id(one): folded(one.label, letters) for panel in panels for one in panel.estimates}
    heights = [
        max(_ROW * sum(labels[id(one)].count("\n") + 1.2 for one in panel.estimates) for panel in row)
        for row in rows
    ]
    figure = new_figure(width, sum(heights) + 0.72 * len(rows) + 0.3)
    grid = figure.add_gridspec(len(rows), columns, height_ratios=[height + 0.2 for height in heights])
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        axes = figure.add_subplot(grid[row, column])
        _draw_panel(axes, panel, [labels[id(one)] for one in panel.estimates])
        # Panels beside each other keep their metrics at the same distance.
        axes.set_ylim(max(len(one.estimates) for one in rows[row]) - 0.4, -0.6)
    _add_legend(figure, panels)
    describe(
        figure,
        "Agreement with human judgement by metric",
        [_sentence(panel) for panel in panels],
    )
    return figure


def _draw_panel(axes: Axes, panel: Panel, labels: Sequence[str]) -> None:
    scale = panel.scale
    places = range(len(panel.estimates))
    for place, one in zip(places, panel.estimates, strict=True):
        if one.low is not None and one.high is not None:
            axes.hlines(place, one.low * scale, one.high * scale, color=BLUE, linewidth=1.4, gid="interval")
        if one.value is None and one.published is None:
            axes.text(
                0.5, place, "undefined", transform=axes.get_yaxis_transform(), color=GREY, ha="center",
                va="center_baseline",
            )  # fmt: skip
    measured = [
        (one.value * scale, place) for place, one in enumerate(panel.estimates) if one.value is not None
    ]
    printed = [
        (one.published * scale, place)
        for place, one in enumerate(panel.estimates)
        if one.published is not None
    ]
    for points, marker, size, face, edge, name in (
        (printed, "D", 6.5, "none", BLACK, "published"),
        (measured, "o", 3.6, BLUE, BLUE, "measured"),
    ):
        if points:
            x, y = zip(*points, strict=True)
            axes.plot(
                x, y, marker, markersize=size, markerfacecolor=face, markeredgecolor=edge, markeredgewidth=0.7,
                label=name,
            )  # fmt: skip
    _set_scale(axes, panel)
    axes.set_yticks(list(places), labels)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#E4E4E4", linewidth=0.5)
    axes.spines["left"].set_visible(False)
    for place, one in zip(places, panel.estimates, strict=True):
        if one.group:
            axes.text(1.02, place, one.group, transform=axes.get_yaxis_transform(), va="center_baseline")
    axes.set_title(folded(panel.title, 40, 3), loc="left")
    axes.set_xlabel(f"{panel.axis}  ({panel.counts})")


def _set_scale(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    if not panel.shown:
        axes.set_xticks([])
        return
    if panel.logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=5))
        axes.minorticks_off()
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10], min_n_ticks=2))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 10)))
    axes.margins(x=0.08)
    low, high = axes.get_xlim()
    if low < 0 < high:
        axes.axvline(0, color=GREY, linewidth=0.6, zorder=0)


def _add_legend(figure: Figure, panels: Sequence[Panel]) -> None:
    from matplotlib.lines import Line2D

    estimates = [one for panel in panels for one in panel.estimates]
    line = "-" if any(one.low is not None for one in estimates) else "none"
    levels = sorted({panel.level for panel in panels if any(one.low is not None for one in panel.estimates)})
    interval = ", " + "/".join(f"{level * 100:g}%" for level in levels) + " CI" if levels else ""
    handles = [
        Line2D([], [], color=BLUE, linestyle=line, linewidth=1.4, marker="o", markersize=3.6,
               label="measured" + interval)
    ]  # fmt: skip
    if any(one.published is not None for one in estimates):
        handles.append(
            Line2D([], [], linestyle="none", marker="D", markersize=6.5, markerfacecolor="none",
                   markeredgecolor=BLACK, markeredgewidth=0.7, label="published")
        )  # fmt: skip
    alphas = sorted({panel.alpha for panel in panels if panel.alpha is not None})
    title = None
    if alphas:
        title = (
            f"Metrics that share a letter do not differ (α = {'/'.join(f'{alpha:g}' for alpha in alphas)})."
        )
    figure.legend(
        handles=handles, loc="outside lower center", ncols=2, title=title, title_fontsize=7, borderaxespad=0.2
    )


def _sentence(panel: Panel) -> str:
    said = ", ".join(_said(one, panel) for one in panel.estimates)
    return f"{panel.title}, {panel.axis}, {panel.counts}: {said}."


def _said(one: Estimate, panel: Panel) -> str:
    text = f"{one.label} {'undefined' if one.value is None else _fixed(one.value, panel)}"
    notes = []
    if one.low is not None and one.high is not None:
        low, high = _fixed(one.low, panel), _fixed(one.high, panel)
        notes.append(f"{panel.level * 100:g}% CI {low} to {high}")
    if one.published is not None:
        notes.append(f"published {one.printed}")
    if one.group:
        notes.append(f"group {one.group}")
    return f"{text} ({'; '.join(notes)})" if notes else text


def _fixed(value: float, panel: Panel) -> str:
    return f"{value * panel.scale:.{panel.decimals}f}".replace("-", "−")
