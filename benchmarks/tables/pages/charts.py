"""Charts of pages, as SVG: histograms and bubbles of scores, scatters, bars of intervals."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...records.histograms import By, Histogram

WIDTH, HEIGHT = 340, 230
LEFT, RIGHT, TOP, BOTTOM = 62, 8, 12, 38
FLOOR = HEIGHT - BOTTOM
ACROSS, DOWN = WIDTH - LEFT - RIGHT, FLOOR - TOP
_APART = 26
"""The least distance between two numbers at an axis."""

BAR_WIDTH, BAR_HEIGHT = 100, 10
_BAR_MARGIN = 3


class Tick(NamedTuple):
    """A number at an axis, and its position in the chart."""

    x: float
    y: float
    anchor: str
    label: str


class Scale(NamedTuple):
    """Maps values from ``low`` to ``high`` to positions from ``start`` to ``start + length``, which may be negative."""

    low: float
    high: float
    start: float = _BAR_MARGIN
    length: float = BAR_WIDTH - 2 * _BAR_MARGIN

    def __call__(self, values: Any) -> Any:
        """Return the positions of values; the middle where all are equal."""
        share = (values - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + share * self.length


Chart = Mapping[str, Any]
"""Template values of a chart and of the table of its data: prefix of its ids (``id``), title (``label``), description
(``summary``), labels of the axes (``below``, ``beside``) and numbers at them (``ticks``); paths of the columns, of
lines behind circles (``grid``) and through the ``mean`` values; position and radius of ``circles``, positions of means
(``knots``); caption, heads and rows of the table."""
_EMPTY: Chart = {"columns": "", "grid": "", "circles": (), "mean": "", "knots": ()}


def score_histogram(label: str, histogram: Histogram, name: str) -> Chart:
    """Return a histogram of scores.

    Args:
        label: Name of the metric.
        histogram: Its histogram.
        name: Prefix of the chart's ids, unique in the page.
    """
    most = max(*histogram.counts, 1)
    step = ACROSS / len(histogram.counts)
    columns = "".join(
        f"M{LEFT + place * step + 0.5:.1f} {FLOOR}V{FLOOR - count / most * DOWN:.1f}"
        f"H{LEFT + (place + 1) * step - 0.5:.1f}V{FLOOR}z"
        for place, count in enumerate(histogram.counts)
        if count
    )
    total, mean = sum(histogram.counts), _short(histogram.mean(histogram.counts))
    ticks = [
        Tick(LEFT + share * ACROSS, FLOOR + 15, anchor, _short(end))
        for share, anchor, end in zip((0, 0.5, 1), ("start", "middle", "end"), _ends_and_middle(histogram), strict=True)
    ]
    ticks.append(Tick(LEFT - 6, TOP + 4, "end", str(most) if most < 10_000 else f"{most / 1000:.0f}k"))
    return {
        **_EMPTY,
        **{"id": name, "label": label, "below": "score", "beside": "captions", "ticks": ticks, "columns": columns},
        "summary": f"{total:,} captions, mean about {mean}, most in one bin {most:,}",
        "caption": f"Scores of {label}",
        "heads": ("Score", "Captions"),
        "rows": [
            (f"{_short(low)} to {_short(high)}", f"{count:,}")
            for low, high, count in zip(histogram.edges, histogram.edges[1:], histogram.counts, strict=False)
        ],
    }


def _groups(histogram: Histogram, by: By) -> tuple[str, list[str], Sequence[float], Sequence[Sequence[int]]]:
    """Return the unit of the groups on the x axis, their names and values, and ``[groups][bins]`` captions."""
    values, counts = histogram.grouped(by)
    if by == "by_rating":
        return "human rating", [_short(round(rating, 2)) for rating in values], values, counts
    ends = list(itertools.pairwise(values))
    names = [f"{low}–{high - 1}" if high - low > 1 else str(low) for low, high in ends]
    return "words", names, [(low + high) / 2 for low, high in ends], counts


def bubbles(label: str, histogram: Histogram, name: str, by: By = "by_rating") -> Chart:
    """Return a chart of scores over ratings or lengths: circles whose area is the number of captions.

    Args:
        label: Name of the metric.
        histogram: Its histogram.
        name: Prefix of the chart's ids, unique in the page.
        by: The x axis.
    """
    unit, names, values, counts_of = _groups(histogram, by)
    # Room for half a circle at either side.
    pad = ACROSS / (len(values) + 1) / 2
    across = list(map(Scale(min(values), max(values), LEFT + pad, ACROSS - 2 * pad), values))
    up = Scale(histogram.edges[0], histogram.edges[-1], FLOOR, -DOWN)
    means = list(map(histogram.mean, counts_of))
    known = [mean for mean in means if mean is not None]
    summary = f"{sum(map(sum, counts_of)):,} captions by {unit}"
    if known:
        summary += f"; mean score about {_short(known[0])} at the lowest, {_short(known[-1])} at the highest"
    knots = [(f"{x:.1f}", f"{up(mean):.1f}") for x, mean in zip(across, means, strict=True) if mean is not None]
    ends = zip(_ends_and_middle(histogram), (0, 4, 8), strict=True)
    most = max((count for counts in counts_of for count in counts), default=0) or 1
    largest = max(min(DOWN / len(histogram.counts), ACROSS / len(values)) * 0.62, 5)
    marks = [Tick(LEFT - 6, up(end) + at, "end", _short(end)) for end, at in ends]
    return {
        **_EMPTY,
        **{"id": name, "label": label, "summary": summary, "below": unit, "beside": "score"},
        "caption": f"{label}: captions by {unit} and by the middle of the score's bin",
        "ticks": marks + _ticks_of_groups(across, names),
        "heads": (unit.capitalize(), *map(_short, histogram.centres)),
        "rows": [(name, *(f"{count:,}" for count in counts)) for name, counts in zip(names, counts_of, strict=True)],
        "grid": "".join(f"M{x:.1f} {TOP}V{FLOOR}" for x in across),
        "circles": [
            (f"{x:.1f}", f"{up(centre):.1f}", f"{max(largest * math.sqrt(count / most), 0.6):.1f}")
            for x, counts in zip(across, counts_of, strict=True)
            for centre, count in zip(histogram.centres, counts, strict=True)
            if count
        ],
        "mean": "M" + "L".join(" ".join(knot) for knot in knots) if len(knots) > 1 else "",
        "knots": knots,
    }


def _ticks_of_groups(across: Sequence[float], names: Sequence[str]) -> list[Tick]:
    shown: list[Tick] = []
    for x, name in zip(across, names, strict=True):
        # Ratings may be unevenly spaced; names that would overlap are left out.
        if not shown or x - shown[-1].x >= _APART:
            # A bin is named by its lower end, as both ends would overlap with the next one.
            shown.append(Tick(x, FLOOR + 15, "middle", name.partition("–")[0]))
    return shown


def _ends_and_middle(histogram: Histogram) -> tuple[float, float, float]:
    return histogram.edges[0], (histogram.edges[0] + histogram.edges[-1]) / 2, histogram.edges[-1]


def _short(value: float | None) -> str:
    if value is None:
        return "–"
    # A zero with rounding errors is shown as zero.
    return "0" if abs(value) < 1e-9 else f"{value:.3g}".replace("-", "−")


def interval_bar(
    scale: Scale, value: float | None, interval: tuple[float, float] | None, printed: float | None
) -> dict[str, Any]:
    """Return the positions of a measured value (``dot``), its interval (``line``) and the published one (``tick``)."""

    def at(value: float) -> str:
        return f"{scale(value):.1f}".removesuffix(".0")

    return {
        "line": interval and (at(interval[0]), at(interval[1])),
        "tick": None if printed is None else at(printed),
        "dot": None if value is None else at(value),
    }


SCATTER_WIDTH, SCATTER_HEIGHT = 600, 440
SCATTER_LEFT, SCATTER_RIGHT, SCATTER_TOP, SCATTER_FLOOR = 74, 586, 12, 382
MOST_POINTS = 2_000
"""Greatest number of points of a scatter; more samples are subsampled at random."""
_FEW_LEVELS = 12
_SEED = 1234


@dataclass(frozen=True)
class Scatter:
    """One number of samples against another.

    Attributes:
        points: Number, x and y of each sample that is drawn.
        ticks: Numbers at the axes.
        grid: Path of the lines behind the points.
        total: Samples that have both numbers.
        spread: Whether x is jittered, as there are few distinct values.
    """

    points: Sequence[tuple[int, float, float]] = ()
    ticks: Sequence[Tick] = ()
    grid: str = ""
    total: int = 0
    spread: bool = False


def scatter(x: np.ndarray, y: np.ndarray) -> Scatter:
    """Return samples as points.

    Args:
        x: ``[n]`` numbers; NaN where a sample has none.
        y: ``[n]`` numbers; NaN where a sample has none.
    """
    rows = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if not rows.size:
        return Scatter()
    random = np.random.default_rng(_SEED)
    drawn = rows if rows.size <= MOST_POINTS else np.sort(random.choice(rows, MOST_POINTS, replace=False))
    across = Scale(*_ends(x[rows]), SCATTER_LEFT, SCATTER_RIGHT - SCATTER_LEFT)
    up = Scale(*_ends(y[rows]), SCATTER_FLOOR, SCATTER_TOP - SCATTER_FLOOR)
    spread = len(np.unique(x[rows])) <= _FEW_LEVELS < len(rows)
    xs, ys = across(x[drawn]), up(y[drawn])
    if spread:
        xs = xs + random.uniform(-10, 10, len(drawn))
    columns, lines = _round_numbers(across), _round_numbers(up)
    return Scatter(
        list(zip(drawn.tolist(), xs.round(1).tolist(), ys.round(1).tolist(), strict=True)),
        [Tick(across(value), SCATTER_FLOOR + 22, "middle", f"{value:.6g}".replace("-", "−")) for value in columns]
        + [Tick(SCATTER_LEFT - 7, up(value) + 4, "end", f"{value:.6g}".replace("-", "−")) for value in lines],
        "".join(f"M{across(value):.1f} {SCATTER_TOP}V{SCATTER_FLOOR}" for value in columns)
        + "".join(f"M{SCATTER_LEFT} {up(value):.1f}H{SCATTER_RIGHT}" for value in lines),
        int(rows.size),
        spread,
    )


def _ends(values: np.ndarray) -> tuple[float, float]:
    """Return the ends of an axis: of the values, with some room."""
    low, high = float(values.min()), float(values.max())
    room = (high - low) * 0.04 or max(abs(low) * 0.1, 0.5)
    return low - room, high + room


def round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least a number above 0."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def _round_numbers(scale: Scale) -> list[float]:
    """Return round numbers of a scale, four to nine of them."""
    step = round_step((scale.high - scale.low) / 6)
    first = math.ceil(scale.low / step)
    return [number * step for number in range(first, math.floor(scale.high / step) + 1)]
