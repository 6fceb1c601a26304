"""The report on a loop: a table of all metrics by turn, and the curve of one metric."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from ...atomic_files import write_whole
from ...benchmarks.tables.results import result_rows
from ...errors import UsageError
from ..training.judging import JudgedRun, Row, differences, markdown_table, with_interval
from .schema import LoadedLoop

_OF_RESULT = ("task", "metric", "statistic", "n", "value", "low", "high")
REPORT, CURVE = "report", "loop.svg"


@dataclass(frozen=True)
class LoopTurn:
    """A finished turn.

    Attributes:
        number: From 0, which is the start captioner.
        rows: The number of training rows; 0 for turn 0.
        runs: The runs of the evaluation tasks.
        remarks: Optional steps that failed, and why.
    """

    number: int
    rows: int
    runs: Sequence[JudgedRun]
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class Point:
    """A turn's value of a metric.

    Attributes:
        turn: The turn.
        value: Of the metric.
        low: Lower end of its 95 % interval; None for none.
        high: Upper end.
    """

    turn: int
    value: float
    low: float | None = None
    high: float | None = None


def rows_of(turns: Sequence[LoopTurn]) -> list[Row]:
    """Return a row per turn and result.

    Keys are ``turn``, ``rows``, ``task``, ``metric``, ``label``, ``scale`` (what tables multiply it by), ``statistic``,
    ``n``, ``value`` with its 95 % interval ``low`` and ``high``, and ``difference`` to turn 0 on the same documents,
    with the same three keys (None for turn 0).
    """
    table: list[Row] = []
    for turn in turns:
        for (_, first), (_, run) in zip(turns[0].runs, turn.runs, strict=True):
            rose = differences(first, run) if turn.number else {}
            for row in result_rows([run]):
                table.append(
                    {
                        "turn": turn.number,
                        "rows": turn.rows,
                        "label": run.record.metric_label(row["metric"]),
                        "scale": run.record.scale_of(row["metric"], row["statistic"]),
                        **{key: row[key] for key in _OF_RESULT},
                        "difference": rose.get(row["metric"]),
                    }
                )
    return table


def curve_of(rows: Sequence[Row]) -> tuple[str, list[Point]]:
    """Return the label of the first metric, and its value by turn.

    Args:
        rows: As of :func:`rows_of`.
    """
    first = rows[0]
    same = [row for row in rows if all(row[key] == first[key] for key in ("task", "metric", "statistic"))]
    points = [Point(row["turn"], row["value"], row["low"], row["high"]) for row in same if row["value"] is not None]
    return f"{first['label']} of {first['task']}", points


def draw_curves(path: Path, label: str, curves: Mapping[str, Sequence[Point]]) -> None:
    """Draw a metric by turn.

    Args:
        path: The figure.
        label: What the values are.
        curves: Name to the points of a loop; the name of a single one is not shown.

    Raises:
        UsageError: matplotlib is not installed, or the file cannot be written.
    """
    from ...benchmarks.plots.style import BLACK, BLUE, ORANGE, describe, folded, new_figure, number, style, write_figure

    with style():
        figure = new_figure("single", 2.2)
        axes = figure.subplots()
        looks = zip(cycle((BLUE, ORANGE, BLACK)), cycle("os^Dv"), strict=True)
        for (name, points), (colour, marker) in zip(curves.items(), looks, strict=False):
            axes.errorbar(
                [point.turn for point in points], [point.value for point in points], yerr=_errors(points),
                color=colour, marker=marker, markersize=3, linewidth=0.8, capsize=2, label=name,
            )  # fmt: skip
        axes.set_xticks(sorted({point.turn for points in curves.values() for point in points}))
        axes.set_xlabel("turn")
        axes.set_ylabel(folded(label, 28))
        if len(curves) > 1:
            axes.legend()
        texts = [f"{name}: {', '.join(number(point.value) for point in points)}." for name, points in curves.items()]
        describe(figure, f"{label} by turn", texts)
        write_figure(figure, path)


def _errors(points: Sequence[Point]) -> list[list[float]]:
    """Return the lengths of the error bars below and above the values."""
    return [
        [0.0 if point.low is None else point.value - point.low for point in points],
        [0.0 if point.high is None else point.high - point.value for point in points],
    ]


def write_report(loaded: LoadedLoop, turns: Sequence[LoopTurn], folder: Path) -> None:
    """Write ``report.json``, ``report.md`` and ``loop.svg``."""
    rows = rows_of(turns)
    remarks = [f"turn {turn.number}: {remark}" for turn in turns for remark in turn.remarks]
    label, points = curve_of(rows)
    try:
        draw_curves(folder / CURVE, label, {loaded.loop.loop: points})
    except UsageError as error:
        remarks.append(f"no curve: {error.in_one_line}")
    values = {"loop": loaded.loop.model_dump(mode="json"), "turns": rows, "remarks": remarks}
    write_whole(folder / f"{REPORT}.json", json.dumps(values, indent=1, ensure_ascii=False) + "\n")
    write_whole(folder / f"{REPORT}.md", _markdown(loaded, rows, remarks))


def _markdown(loaded: LoadedLoop, rows: Sequence[Row], remarks: Sequence[str]) -> str:
    loop = loaded.loop
    lines = [f"# {loop.loop}", "", loop.description, "", f"    {loaded.command('loop')}", ""]
    lines += [f"- **Method**: {loop.paper}"] if loop.paper else []
    lines += [
        f"- **Each turn**: {loop.make.recipe} makes data from {loop.make.data} with the previous captioner; "
        f"{loop.train.recipe} trains its own start model on them. Turn 0 is {loop.captioner}. Seed {loop.seed}.",
        "",
    ]
    cells: list[list[str]] = []
    # Sorted by metric, then by turn.
    names = list(dict.fromkeys((row["task"], row["metric"], row["statistic"]) for row in rows))
    for row in sorted(rows, key=lambda row: names.index((row["task"], row["metric"], row["statistic"]))):
        trained_on = f"{row['rows']:,}" if row["turn"] else "–"
        change = with_interval(row["difference"], "+", 4) if row["difference"] else "–"
        cells.append([row["task"], row["metric"], str(row["turn"]), trained_on, with_interval(row, digits=4), change])
    lines += [
        *markdown_table(["task", "metric", "turn", "rows", "value", "vs. turn 0"], cells),
        "",
        "Values have unpaired 95 % intervals. Differences are paired by document (paired bootstrap).",
    ]
    lines += ["", *(f"- {remark}" for remark in remarks)] if remarks else []
    return "\n".join([*lines, "", *loaded.choices()]).rstrip() + "\n"
