"""Results of metrics as dots with confidence intervals: agreement with human judgement, shares of changed captions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import DataError, UsageError, did_you_mean
from ..protocols import names_where
from ..protocols.job import Result
from ..records.entries import PublishedValue
from ..records.record import Record
from ..tables.text import decimals_for
from .histograms import grid_shape
from .runs import PlottedMetric, by_task, choose, limit_note, require_metrics
from .style import BLACK, BLUE, GREY, ORANGE, Width, describe, folded, new_figure, number, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..protocols.contract import Protocol

_ROW = 0.19
"""Inches of a line of text with the space around it."""
_LOOK: dict[str, dict[str, Any]] = {
    "measured": {"color": BLUE, "marker": "o", "markersize": 3.6, "markeredgewidth": 0.7},
    "published": {
        "marker": "D", "markersize": 6.5, "markerfacecolor": "none", "markeredgecolor": BLACK, "markeredgewidth": 0.7,
    },
}  # fmt: skip


def agreement_figure(
    records: Sequence[Record],
    *,
    statistic: str = "",
    metrics: Sequence[str] = (),
    width: Width = "single",
    notes: list[str] | None = None,
) -> Figure:
    """Plot the agreement of metrics with human judgement: a panel a task, the best metric on top.

    A dot is the measured value on the scale of the task's tables, its line the confidence interval, a hollow
    diamond the published value. Letters at the right are those of the record's ``significance``: metrics with a letter
    in common are not significantly different (p ≥ 0.05). They are shown where all metrics of a panel are of one run.

    Args:
        records: Runs of protocols ``agreement`` and ``preference``; of the same metric of a task, the newest.
        statistic: Name of the statistic (``kendall_c``, ``accuracy``, ``accuracy.HM``); empty for each task's
            first, and for accuracy over all categories.
        metrics: Names of the metrics to show; empty for all.
        width: ``single`` (3.3 in) or ``double`` (6.9 in, two panels in a row).
        notes: Receives a text for every task that is left out.

    Raises:
        DataError: No run is of such a protocol.
        UsageError: No run has the statistic or one of the metrics; matplotlib is missing.
    """
    panels = agreement_panels(records, statistic, metrics, [] if notes is None else notes)
    with style():
        columns = min(len(panels), 2 if width == "double" else 1)
        letters = 18 if width == "single" or columns == 2 else 40
        rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
        labels = {id(estimate): folded(estimate.label, letters) for panel in panels for estimate in panel.estimates}
        heights = [
            max(_ROW * sum(labels[id(estimate)].count("\n") + 1.2 for estimate in panel.estimates) for panel in row)
            for row in rows
        ]
        figure = new_figure(width, sum(heights) + 0.72 * len(rows) + 0.3)
        grid = figure.add_gridspec(len(rows), columns, height_ratios=[height + 0.2 for height in heights])
        for place, panel in enumerate(panels):
            row, column = divmod(place, columns)
            axes = figure.add_subplot(grid[row, column])
            _draw_panel(axes, panel, [labels[id(estimate)] for estimate in panel.estimates])
            # Panels of one row have the same distance between metrics.
            axes.set_ylim(max(len(estimate.estimates) for estimate in rows[row]) - 0.4, -0.6)
        _add_legend(figure, panels)
        describe(figure, "Agreement with human judgement by metric", [_sentence(panel) for panel in panels])
        return figure


def _draw_panel(axes: Axes, panel: Panel, labels: Sequence[str]) -> None:
    scale = panel.scale
    for place, estimate in enumerate(panel.estimates):
        if estimate.interval:
            low, high = estimate.interval
            axes.hlines(place, low * scale, high * scale, color=BLUE, linewidth=1.4, gid="interval")
        if estimate.result.value is None and estimate.published is None:
            axes.text(
                0.5, place, "undefined", transform=axes.get_yaxis_transform(), color=GREY, ha="center",
                va="center_baseline",
            )  # fmt: skip
        if estimate.group:
            axes.text(1.02, place, estimate.group, transform=axes.get_yaxis_transform(), va="center_baseline")
    for name, values in (
        ("published", [estimate.published.value if estimate.published else None for estimate in panel.estimates]),
        ("measured", [estimate.result.value for estimate in panel.estimates]),
    ):
        points = [(value * scale, place) for place, value in enumerate(values) if value is not None]
        if points:
            axes.plot(*zip(*points, strict=True), linestyle="none", label=name, **_LOOK[name])
    _set_scale(axes, panel)
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#E4E4E4", linewidth=0.5)
    axes.spines["left"].set_visible(False)
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

    levels = sorted({panel.level for panel in panels if any(estimate.interval for estimate in panel.estimates)})
    interval = ", " + "/".join(f"{level * 100:g}%" for level in levels) + " CI" if levels else ""
    line = "-" if levels else "none"
    handles = [Line2D([], [], linestyle=line, linewidth=1.4, label=f"measured{interval}", **_LOOK["measured"])]
    if any(estimate.published for panel in panels for estimate in panel.estimates):
        handles.append(Line2D([], [], linestyle="none", label="published", **_LOOK["published"]))
    alphas = "/".join(f"{alpha:g}" for alpha in sorted({panel.alpha for panel in panels if panel.alpha is not None}))
    title = f"Same letter: no significant difference (α = {alphas})." if alphas else None
    figure.legend(
        handles=handles, loc="outside lower center", ncols=2, title=title, title_fontsize=7, borderaxespad=0.2
    )


def _sentence(panel: Panel) -> str:
    values = ", ".join(_value_text(estimate, panel) for estimate in panel.estimates)
    return f"{panel.title}, {panel.axis}, {panel.counts}: {values}."


def _value_text(estimate: AgreementEstimate, panel: Panel) -> str:
    text = f"{estimate.label} {'undefined' if estimate.result.value is None else _fixed(estimate.result.value, panel)}"
    ends = " to ".join(_fixed(end, panel) for end in estimate.interval or ())
    notes = [f"{panel.level * 100:g}% CI {ends}"] if ends else []
    notes += [f"published {estimate.published.printed}"] if estimate.published else []
    notes += [f"group {estimate.group}"] if estimate.group else []
    return f"{text} ({'; '.join(notes)})" if notes else text


def _fixed(value: float, panel: Panel) -> str:
    # As in tables.
    decimals = decimals_for(panel.scale, [estimate.result.value for estimate in panel.estimates])
    return f"{value * panel.scale:.{decimals}f}".replace("-", "−")


@dataclass(frozen=True)
class AgreementEstimate:
    """The agreement of a metric with human judgement, unscaled.

    Attributes:
        label: Name of the metric in the plot.
        result: The measured result.
        published: The published value; None where there is none.
        group: Significance letters; empty where there are none.
    """

    label: str
    result: Result
    published: PublishedValue | None
    group: str

    @property
    def interval(self) -> tuple[float, float] | None:
        """The confidence interval; None where there is none."""
        return self.result.interval.ends if self.result.interval else None


@dataclass(frozen=True)
class Panel:
    """One task.

    Attributes:
        title: The task.
        statistic: The statistic as papers print it.
        scale: Values are shown times this.
        level: Coverage of the intervals.
        alpha: Level of the significance letters; None where there are none.
        estimates: The metrics, best first; those without a value last.
    """

    title: str
    statistic: str
    scale: float
    level: float
    alpha: float | None
    estimates: Sequence[AgreementEstimate]

    @property
    def axis(self) -> str:
        """Label of the axis."""
        return self.statistic if self.scale == 1 else f"{self.statistic} × {self.scale:g}"

    @property
    def counts(self) -> str:
        """Number of rows of the values, as text."""
        counts = sorted({estimate.result.n for estimate in self.estimates})
        return f"n = {counts[0]:,}" if len(counts) == 1 else f"n = {counts[0]:,}–{counts[-1]:,}"

    @property
    def shown(self) -> list[float]:
        """All numbers in the panel."""
        numbers: list[float | None] = []
        for estimate in self.estimates:
            printed = estimate.published.value if estimate.published else None
            numbers += [*(estimate.interval or ()), estimate.result.value, printed]
        return [value for value in numbers if value is not None]

    @property
    def logarithmic(self) -> bool:
        """Whether values are positive and too far apart for a linear axis (1-R² can be 1 or 10,000,000)."""
        return bool(self.shown) and min(self.shown) > 0 and max(self.shown) > 200 * min(self.shown)


def agreement_panels(
    records: Sequence[Record], statistic: str, metrics: Sequence[str], notes: list[str]
) -> list[Panel]:
    """Return a panel a task.

    Args:
        records: Runs.
        statistic: Name of the statistic; empty for each task's own.
        metrics: Names of metrics; empty for all.
        notes: Receives a text for every task that is left out.

    Raises:
        DataError: No run is of a protocol that measures agreement.
        UsageError: No run has the statistic, or one of the metrics.
    """
    fitting = [record for record in records if _measures_agreement(record.protocol) and record.results]
    if not fitting:
        first, known = records[0], " or ".join(names_where(_measures_agreement))
        raise DataError(
            f"no run measures agreement with human judgement: task '{first.task}' has protocol {first.output_type}",
            f"Plot runs of tasks with protocol {known}: bench ls tasks --tag agreement",
        )
    for title, _ in by_task([record for record in records if record not in fitting]):
        notes.append(f"{title} is left out: it has no agreement with human judgement")
    known = list(dict.fromkeys(name for record in fitting for _, name in _statistics(record)))
    if statistic and statistic not in known:
        raise UsageError(
            f"no run has statistic '{statistic}'.{did_you_mean(statistic, known)}",
            f"Available: {', '.join(known)}. To compute others, list them under 'statistics' in the task.",
        )
    require_metrics(metrics, (metric for record in fitting for metric in record.metrics))
    panels = []
    for title, group in by_task(fitting):
        # The protocol's, over all categories where there are any, or the task's first.
        names, own = [name for _, name in _statistics(group[0])], group[0].protocol.statistic
        name = statistic or (own if own in names else names[0])
        chosen = choose(group, partial(_metrics_with, name), metrics)
        if chosen:
            panels.append(_panel(title, chosen, name))
        else:
            lacking = f"statistic {name}" if not metrics else f"statistic {name} of {', '.join(metrics)}"
            notes.append(f"{title} is left out: it has no {lacking}")
    if not panels:
        raise UsageError(f"no run has statistic '{statistic}' for {', '.join(metrics)}")
    return panels


def _measures_agreement(protocol: Protocol[Any] | type[Protocol[Any]]) -> bool:
    return protocol.subject == "metric" and not protocol.by_rule


def _statistics(record: Record) -> list[tuple[str, str]]:
    """Return metric and statistic of each result, the latter with its category: ``cider`` and ``accuracy.HM``."""
    return [(result.metric, key.removeprefix(result.metric + ".")) for key, result in record.results.items()]


def _metrics_with(name: str, record: Record) -> list[str]:
    return [metric for metric, statistic in _statistics(record) if statistic == name]


def _panel(title: str, chosen: Sequence[PlottedMetric], statistic: str) -> Panel:
    record = chosen[0].record
    # Letters are comparable within a run only.
    one_run = all(plotted.record is record for plotted in chosen)
    estimates: list[AgreementEstimate] = []
    for plotted in chosen:
        key = f"{plotted.metric}.{statistic}"
        result, published = plotted.record.results[key], plotted.record.published.get(key)
        group = plotted.record.letters(result) if one_run else ""
        estimates.append(AgreementEstimate(plotted.label, result, published, group))
    first = record.results[f"{chosen[0].metric}.{statistic}"]
    significance = record.significance.get(first.statistic)
    sign = -1.0 if first.higher_is_better else 1.0
    return Panel(
        title=title + limit_note(plotted.record for plotted in chosen),
        statistic=first.label[1],
        scale=first.scale,
        level=record.settings.level,
        alpha=significance.alpha if significance and any(estimate.group for estimate in estimates) else None,
        estimates=sorted(
            estimates, key=lambda estimate: math.inf if estimate.result.value is None else sign * estimate.result.value
        ),
    )


_RULE = 0.17
"""Height of a rule in inches."""


_RulePanel = tuple[str, Sequence[Result]]
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
    panels: list[_RulePanel] = []
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
        figure = new_figure(width, rows * (_RULE * len(labels) + 0.55) + 0.4)
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for place, axes in enumerate(grid.flat):
            if place < len(panels):
                _draw_rules(axes, panels[place], labels)
            else:
                axes.set_visible(False)
        grid[0, 0].set_xlim(-0.03, 1.03)
        grid[0, 0].set_ylim(len(labels) - 0.4, -0.6)
        figure.suptitle(folded(task, 60))
        figure.supxlabel("share of changed captions", fontsize=8)
        describe(figure, f"{task}: how often metrics do what is expected", [_shares(panel) for panel in panels])
        return figure


def _draw_rules(axes: Axes, panel: _RulePanel, labels: Sequence[str]) -> None:
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


def _shares(panel: _RulePanel) -> str:
    title, results = panel
    shares = (
        f"{result.label[1]} {'undefined' if result.value is None else number(result.value)}" for result in results
    )
    return f"{title}: {', '.join(shares)}."
