"""Draw what runs cost against their captions, measured and modelled, from the figures that ship: docs/scale.svg.

Run by hand::

    python speed/growth.py
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from capbench.benchmarks.costs.estimate import Demand, Estimate, Workers, estimate
from capbench.benchmarks.costs.table import SHIPPED, CostTable, Measured, Origin, read_costs
from capbench.benchmarks.inputs.metric_names import read_metric
from capbench.benchmarks.plots.files import write_figure
from capbench.benchmarks.plots.style import BLACK, BLUE, GREY, ORANGE, describe, new_figure, number, style
from capbench.benchmarks.protocols.job import SHARD_OF_IMAGES
from capbench.benchmarks.running.planned_metrics import plan_metric

_METRICS = ("bleu_4", "cider", "rouge_l", "meteor")
_ROWS = [10**power for power in range(3, 10)]
_MANY = 64

Line = tuple[str, str, Sequence[float]]
"""Its name, its colour, and its value at each number of captions."""


def estimates(table: CostTable, origin: Origin, workers: int) -> list[Estimate]:
    """Return what runs of a captioner's recorded captions cost."""
    metrics = [plan_metric(read_metric(name), frozenset({"references"})) for name in _METRICS]
    places = {"cpu": Workers(workers)}
    demands = [
        Demand(rows, metrics, shard=SHARD_OF_IMAGES, workers=places, is_elsewhere=workers > 1)
        for rows in _ROWS
    ]
    return [estimate(demand, table, origin) for demand in demands]


def drawn(table: CostTable, origin: Origin) -> Figure:
    """Return three panels: core-seconds, wall time, memory."""
    one, many = estimates(table, origin, 1), estimates(table, origin, _MANY)
    panels: list[tuple[str, Sequence[Line], Callable[[Measured], float]]] = [
        ("core-seconds", [("one process", BLUE, _totals(one, "core_seconds"))], lambda run: run.core_seconds),
        (
            "seconds, start to end",
            [
                ("one process", BLUE, _totals(one, "wall_seconds")),
                (f"{_MANY} workers", ORANGE, _totals(many, "wall_seconds")),
            ],
            lambda run: run.wall_seconds,
        ),
        (
            "GB of memory",
            [
                ("driver", BLUE, [found.driver_bytes / 1e9 for found in one]),
                ("a worker", ORANGE, [found.worker_bytes / 1e9 for found in many]),
            ],
            lambda run: run.peak_bytes / 1e9,
        ),
    ]
    with style():
        figure = new_figure("double", 2.4)
        for axes, (title, lines, measured) in zip(figure.subplots(1, len(panels)), panels, strict=True):
            _draw(axes, title, lines, [(run.rows, measured(run)) for run in table.growth])
        last = table.growth[-1].rows
        sentences = [
            f"{title}: measured {', '.join(f'{number(measured(run))} at {run.rows:,}' for run in table.growth)}; "
            f"modelled {', '.join(f'{number(values[-1])} ({name})' for name, _, values in lines)} at {_ROWS[-1]:,}."
            for title, lines, measured in panels
        ]
        describe(figure, f"What runs cost, measured up to {last:,} captions", sentences)
    return figure


def _totals(found: Sequence[Estimate], name: str) -> list[float]:
    return [one.total(name) or 0.0 for one in found]  # type: ignore[arg-type]


def _draw(axes: Axes, title: str, lines: Sequence[Line], measured: Sequence[tuple[int, float]]) -> None:
    axes.axvline(measured[-1][0], color=GREY, linewidth=0.6, zorder=0)
    for name, colour, values in lines:
        axes.plot(_ROWS, values, "--", color=colour, linewidth=1, label=f"modelled, {name}")
    axes.plot(*zip(*measured, strict=True), "o", color=BLACK, markersize=3.6, label="measured, one process")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=4))
    axes.yaxis.set_major_locator(LogLocator(numticks=6))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: _power(value)))
    axes.minorticks_off()
    # Room for what the lines are.
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.4)
    axes.set_title(title, loc="left")
    axes.set_xlabel("captions")
    axes.legend(loc="upper left", fontsize=6)


def _power(value: float) -> str:
    """Return a power of ten as it is written."""
    power = round(math.log10(value))
    return "10" + f"{power}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(__file__).parents[1] / "docs" / "scale.svg"
    parser.add_argument(
        "--output", type=Path, default=default, metavar="FILE", help="docs/scale.svg unless given"
    )
    options = parser.parse_args()
    table, _, origin = read_costs(SHIPPED)
    write_figure(drawn(table, origin), options.output)


if __name__ == "__main__":
    main()
