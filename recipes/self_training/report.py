"""The report on a loop: a table of all metrics by turn, and the curve of one metric."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np

from ...atomic_files import write_whole
from ...benchmarks.tables.results import result_rows
from ...errors import UsageError
from ..training.judging import ENDS, JudgedRun, Row, differences, markdown_table, with_interval
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
                        "difference": None if row["category"] else rose.get((row["metric"], row["statistic"])),
                    }
                )
    return table


def curve_of(rows: Sequence[Row]) -> tuple[str, list[Row]]:
    """Return the label of the first metric, and its rows with a value, by turn.

    Args:
        rows: As of :func:`rows_of`.
    """
    first = rows[0]
    same = [row for row in rows if all(row[key] == first[key] for key in ("task", "metric", "statistic"))]
    return f"{first['label']} of {first['task']}", [row for row in same if row["value"] is not None]


def draw_curves(path: Path, label: str, curves: Mapping[str, Sequence[Row]]) -> None:
    """Draw a metric by turn.

    Args:
        path: The figure.
        label: What the values are.
        curves: Name to the rows of :func:`curve_of` of a loop; the name of a single one is not shown.

    Raises:
        UsageError: matplotlib is not installed, or the file cannot be written.
    """
    from ...benchmarks.plots.style import BLACK, BLUE, ORANGE, describe, folded, new_figure, number, style, write_figure

    with style():
        figure = new_figure("single", 2.2)
        axes = figure.subplots()
        looks = zip(cycle((BLUE, ORANGE, BLACK)), cycle("os^Dv"), strict=True)
        for (name, rows), (colour, marker) in zip(curves.items(), looks, strict=False):
            values, low, high = (np.array([row[key] for row in rows], dtype=float) for key in ENDS)
            axes.errorbar(
                [row["turn"] for row in rows], values, yerr=[values - low, high - values],
                color=colour, marker=marker, markersize=3, linewidth=0.8, capsize=2, label=name,
            )  # fmt: skip
        axes.set_xticks(sorted({row["turn"] for rows in curves.values() for row in rows}))
        axes.set_xlabel("turn")
        axes.set_ylabel(folded(label, 28))
        if len(curves) > 1:
            axes.legend()
        texts = [f"{name}: {', '.join(number(row['value']) for row in rows)}." for name, rows in curves.items()]
        describe(figure, f"{label} by turn", texts)
        write_figure(figure, path)


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
