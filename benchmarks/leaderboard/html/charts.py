"""Charts of single captions' scores, from the histograms that records hold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...records.histograms import By, Histogram
from .names import ident

WIDTH, HEIGHT = 340, 230
LEFT, RIGHT, TOP, BOTTOM = 62, 8, 12, 38
FLOOR = HEIGHT - BOTTOM
ACROSS, DOWN = WIDTH - LEFT - RIGHT, FLOOR - TOP
_APART = 26
"""The least distance between two numbers below one another's axis."""


@dataclass(frozen=True)
class Tick:
    """A number beside an axis, and where it stands in the drawing."""

    x: float
    y: float
    anchor: str
    label: str


@dataclass(frozen=True)
class Chart:
    """A drawing, and the table that says the same.

    Attributes:
        id: What its ids begin with, unique in the page.
        label: What it is of.
        summary: What it shows, in words.
        below: What stands along its lower edge.
        beside: What stands along its left edge.
        ticks: Numbers beside the axes.
        columns: Path of columns; empty where there are none.
        grid: Path of lines behind circles.
        circles: Where, and how large.
        mean: Path through the means.
        knots: Where the means are.
        caption: That of the table.
        heads: Above its columns.
        rows: Its rows.
    """

    id: str
    label: str
    summary: str
    below: str
    beside: str
    ticks: Sequence[Tick]
    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    columns: str = ""
    grid: str = ""
    circles: Sequence[tuple[str, str, str]] = field(default_factory=tuple)
    mean: str = ""
    knots: Sequence[tuple[str, str]] = field(default_factory=tuple)


def score_histogram(label: str, one: Histogram, name: str) -> Chart:
    """Return a drawing of how many captions have which score.

    Args:
        label: Name of the metric.
        one: Its histogram.
        name: What the drawing's ids begin with, unique in the page.
    """
    most = max(*one.counts, 1)
    step = ACROSS / len(one.counts)
    columns = "".join(
        f"M{LEFT + place * step + 0.5:.1f} {FLOOR}V{FLOOR - count / most * DOWN:.1f}"
        f"H{LEFT + (place + 1) * step - 0.5:.1f}V{FLOOR}z"
        for place, count in enumerate(one.counts)
        if count
    )
    total, mean = sum(one.counts), _short(one.mean(one.counts))
    ends = (one.edges[0], (one.edges[0] + one.edges[-1]) / 2, one.edges[-1])
    ticks = [
        Tick(LEFT + share * ACROSS, FLOOR + 15, anchor, _short(end))
        for share, anchor, end in zip((0, 0.5, 1), ("start", "middle", "end"), ends, strict=True)
    ]
    ticks.append(Tick(LEFT - 6, TOP + 4, "end", _compact(most)))
    return Chart(
        ident(name),
        label,
        f"{total:,} captions, mean about {mean}, most in one bin {most:,}",
        "score",
        "captions",
        ticks,
        f"Scores of {label}",
        ("Score", "Captions"),
        [
            (f"{_short(low)} to {_short(high)}", f"{count:,}")
            for low, high, count in zip(one.edges, one.edges[1:], one.counts, strict=False)
        ],
        columns=columns,
    )


@dataclass(frozen=True)
class _Groups:
    """What scores are drawn against.

    Attributes:
        unit: What the groups are, in words.
        names: Of each group, in tables.
        places: Of each group on its axis, rising.
        counts: ``[groups][bins]`` captions.
    """

    unit: str
    names: Sequence[str]
    places: Sequence[float]
    counts: Sequence[Sequence[int]]

    @classmethod
    def of(cls, one: Histogram, by: By) -> _Groups:
        """Return the ratings of a histogram, or its numbers of words."""
        if by == "by_rating":
            names = [_short(round(rating, 2)) for rating in one.ratings]
            return cls("human rating", names, one.ratings, one.rating_counts)
        ends = list(itertools.pairwise(one.words))
        names = [f"{low}–{high - 1}" if high - low > 1 else str(low) for low, high in ends]
        return cls("words", names, [(low + high) / 2 for low, high in ends], one.word_counts)

    @property
    def across(self) -> list[float]:
        """Where each group stands in the drawing, from the left."""
        low, high = min(self.places), max(self.places)
        # Room for half a circle at either side.
        pad = ACROSS / (len(self.places) + 1) / 2
        shares = ((place - low) / (high - low) if high > low else 0.5 for place in self.places)
        return [LEFT + pad + share * (ACROSS - 2 * pad) for share in shares]


def bubbles(label: str, one: Histogram, name: str, by: By = "by_rating", full: bool = False) -> Chart:
    """Return a drawing of scores over ratings or lengths: circles whose area is the number of captions.

    Args:
        label: Name of the metric.
        one: Its histogram.
        name: What the drawing's ids begin with, unique in the page.
        by: What stands along the lower edge.
        full: Whether the table below has every count rather than a summary a group.
    """
    groups = _Groups.of(one, by)
    means = [mean for mean in map(one.mean, groups.counts) if mean is not None]
    summary = f"{sum(map(sum, groups.counts)):,} captions by {groups.unit}"
    if means:
        summary += f"; mean score about {_short(means[0])} at the lowest, {_short(means[-1])} at the highest"
    knots = [
        (f"{x:.1f}", f"{_height(one, mean):.1f}")
        for x, counts in zip(groups.across, groups.counts, strict=True)
        if (mean := one.mean(counts)) is not None
    ]
    caption, heads, rows = (_all_counts if full else _summaries)(label, one, groups)
    return Chart(
        ident(name),
        label,
        summary,
        groups.unit,
        "score",
        [*_ticks_of_scores(one), *_ticks_of_groups(groups)],
        caption,
        heads,
        rows,
        grid="".join(f"M{x:.1f} {TOP}V{FLOOR}" for x in groups.across),
        circles=list(_circles(one, groups)),
        mean="M" + "L".join(" ".join(knot) for knot in knots) if len(knots) > 1 else "",
        knots=knots,
    )


def _circles(one: Histogram, groups: _Groups) -> Iterator[tuple[str, str, str]]:
    most = max((count for counts in groups.counts for count in counts), default=0) or 1
    largest = max(min(DOWN / len(one.counts), ACROSS / len(groups.counts)) * 0.62, 5)
    for x, counts in zip(groups.across, groups.counts, strict=True):
        for centre, count in zip(one.centres, counts, strict=True):
            if count:
                radius = max(largest * math.sqrt(count / most), 0.6)
                yield f"{x:.1f}", f"{_height(one, centre):.1f}", f"{radius:.1f}"


def _ticks_of_scores(one: Histogram) -> list[Tick]:
    ends = (one.edges[0], (one.edges[0] + one.edges[-1]) / 2, one.edges[-1])
    return [
        Tick(LEFT - 6, _height(one, end) + lower, "end", _short(end))
        for end, lower in zip(ends, (0, 4, 8), strict=True)
    ]


def _ticks_of_groups(groups: _Groups) -> list[Tick]:
    shown: list[Tick] = []
    for x, name in zip(groups.across, groups.names, strict=True):
        # Ratings need not stand at equal distances; names that would run into each other are left out.
        if not shown or x - shown[-1].x >= _APART:
            # Of a bin its lower end, since both would run into the next one.
            shown.append(Tick(x, FLOOR + 15, "middle", name.partition("–")[0]))
    return shown


_Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]


def _all_counts(label: str, one: Histogram, groups: _Groups) -> _Table:
    heads = (groups.unit.capitalize(), *(_short(centre) for centre in one.centres))
    rows = [
        (name, *(f"{count:,}" for count in counts))
        for name, counts in zip(groups.names, groups.counts, strict=True)
    ]
    return f"{label}: captions by {groups.unit} and by the middle of the score's bin", heads, rows


def _summaries(label: str, one: Histogram, groups: _Groups) -> _Table:
    heads = (groups.unit.capitalize(), "Captions", "Mean score, about")
    rows = [
        (name, f"{sum(counts):,}", _short(one.mean(counts)))
        for name, counts in zip(groups.names, groups.counts, strict=True)
    ]
    return f"{label} by {groups.unit}", heads, rows


def _height(one: Histogram, score: float) -> float:
    low, high = one.edges[0], one.edges[-1]
    share = (score - low) / (high - low) if high > low else 0.5
    return FLOOR - share * DOWN


def _short(value: float | None) -> str:
    if value is None:
        return "–"
    # What rounding leaves of a zero is no end of a range that a reader wants to see.
    return "0" if abs(value) < 1e-9 else f"{value:.3g}".replace("-", "−")


def _compact(count: int) -> str:
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"
