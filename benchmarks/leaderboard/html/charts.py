"""Charts of single captions' scores, from the histograms that records hold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...records.histograms import By, Histogram
from .markup import ident, text

WIDTH, HEIGHT = 280, 190
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 10, 36
DROP = HEIGHT - TOP - BOTTOM


def score_histogram(label: str, one: Histogram, name: str) -> str:
    """Return a figure of how many captions have which score.

    Args:
        label: Name of the metric.
        one: Its histogram.
        name: What the figure's ids begin with, unique in the page.
    """
    most = max(*one.counts, 1)
    bins = len(one.counts)
    step = (WIDTH - LEFT - RIGHT) / bins
    columns = "".join(
        f'<path class="column" d="M{LEFT + place * step + 0.5:.1f} {HEIGHT - BOTTOM}'
        f"V{HEIGHT - BOTTOM - count / most * (HEIGHT - TOP - BOTTOM):.1f}"
        f'H{LEFT + (place + 1) * step - 0.5:.1f}V{HEIGHT - BOTTOM}z"/>'
        for place, count in enumerate(one.counts)
        if count
    )
    mean = one.mean(one.counts)
    summary = f"{sum(one.counts):,} captions, mean about {_short(mean)}, most in one bin {most:,}"
    side = f'<text x="{LEFT - 5}" y="{TOP + 4}" text-anchor="end">{_compact(most)}</text>'
    rows = [
        (f"{_short(low)} to {_short(high)}", f"{count:,}")
        for low, high, count in zip(one.edges, one.edges[1:], one.counts, strict=False)
    ]
    table = _table(f"Scores of {label}", ("Score", "Captions"), rows)
    return _figure(label, f"{columns}{side}", one, summary, name, table, "score")


@dataclass(frozen=True)
class _Rows:
    """What scores are drawn against.

    Attributes:
        unit: What the rows are, in words.
        names: Of each row, in tables.
        places: Of each row on its axis, rising.
        counts: ``[rows][bins]`` captions.
    """

    unit: str
    names: Sequence[str]
    places: Sequence[float]
    counts: Sequence[Sequence[int]]

    @classmethod
    def of(cls, one: Histogram, by: By) -> _Rows:
        """Return the ratings of a histogram, or its numbers of words."""
        if by == "by_rating":
            names = [_short(round(rating, 2)) for rating in one.ratings]
            return cls("human rating", names, one.ratings, one.rating_counts)
        ends = list(itertools.pairwise(one.words))
        names = [f"{low}–{high - 1}" if high - low > 1 else str(low) for low, high in ends]
        return cls("words", names, [(low + high) / 2 for low, high in ends], one.word_counts)

    @property
    def heights(self) -> list[float]:
        """Where each row stands in the drawing."""
        low, high = min(self.places), max(self.places)
        # Room for half a circle above and below.
        pad = DROP / (len(self.places) + 1) / 2
        shares = ((place - low) / (high - low) if high > low else 0.5 for place in self.places)
        return [HEIGHT - BOTTOM - pad - share * (DROP - 2 * pad) for share in shares]


def bubbles(
    label: str, one: Histogram, name: str, by: By = "by_rating", remark: str = "", full: bool = False
) -> str:
    """Return a figure of scores against ratings or lengths: circles whose area is the number of captions.

    Args:
        label: Name of the metric.
        one: Its histogram.
        name: What the figure's ids begin with, unique in the page.
        by: What the scores are drawn against.
        remark: Shown below the label.
        full: Whether the table below has every count rather than a summary a row.
    """
    rows = _Rows.of(one, by)
    means = [mean for mean in map(one.mean, rows.counts) if mean is not None]
    summary = f"{sum(map(sum, rows.counts)):,} captions by {rows.unit}"
    if means:
        summary += f"; mean score about {_short(means[0])} at the lowest, {_short(means[-1])} at the highest"
    inside = f"{_circles(one, rows)}{_means(one, rows)}{_row_names(rows)}"
    table = (_all_counts if full else _summaries)(label, one, rows)
    return _figure(label, inside, one, summary, name, table, "score", remark, rows.unit)


def _circles(one: Histogram, rows: _Rows) -> str:
    """Return a line a row, and a circle a count."""
    most = max((count for row in rows.counts for count in row), default=0) or 1
    largest = max(min((WIDTH - LEFT - RIGHT) / len(one.counts), DROP / len(rows.counts)) * 0.62, 5)
    drawn = lines = ""
    for height, row in zip(rows.heights, rows.counts, strict=True):
        lines += f"M{LEFT} {height:.1f}H{WIDTH - RIGHT}"
        for centre, count in zip(one.centres, row, strict=True):
            if count:
                radius = max(largest * math.sqrt(count / most), 0.6)
                drawn += f'<circle cx="{_x(one, centre):.1f}" cy="{height:.1f}" r="{radius:.1f}"/>'
    return f'<path class="grid" d="{lines}"/><g class="dot">{drawn}</g>'


def _means(one: Histogram, rows: _Rows) -> str:
    """Return the mean of each row as a knot, joined by a line."""
    knots = [
        (_x(one, mean), height)
        for height, row in zip(rows.heights, rows.counts, strict=True)
        if (mean := one.mean(row)) is not None
    ]
    path = "L".join(f"{x:.1f} {at:.1f}" for x, at in knots)
    line = f'<path class="mean" d="M{path}"/>' if len(knots) > 1 else ""
    dots = "".join(f'<circle cx="{x:.1f}" cy="{at:.1f}" r="2.4"/>' for x, at in knots)
    return f'{line}<g class="knot">{dots}</g>'


def _row_names(rows: _Rows) -> str:
    shown: list[int] = []
    heights = rows.heights
    for place, height in enumerate(heights):
        # Ratings need not stand at equal distances; names that would run into each other are left out.
        if not shown or heights[shown[-1]] - height >= 12:
            shown.append(place)
    # Of a bin its lower end, since both would run into the axis' name.
    return "".join(
        f'<text x="{LEFT - 5}" y="{heights[place] + 3.5:.1f}" text-anchor="end">'
        f"{rows.names[place].partition('–')[0]}</text>"
        for place in shown
    )


def _all_counts(label: str, one: Histogram, rows: _Rows) -> str:
    heads = (rows.unit.capitalize(), *(_short(centre) for centre in one.centres))
    cells = [
        (name, *(f"{count:,}" for count in row)) for name, row in zip(rows.names, rows.counts, strict=True)
    ]
    return _table(f"{label}: captions by {rows.unit} and by the middle of the score's bin", heads, cells)


def _summaries(label: str, one: Histogram, rows: _Rows) -> str:
    heads = (rows.unit.capitalize(), "Captions", "Mean score, about")
    cells = [
        (name, f"{sum(row):,}", _short(one.mean(row)))
        for name, row in zip(rows.names, rows.counts, strict=True)
    ]
    return _table(f"{label} by {rows.unit}", heads, cells)


def _figure(
    label: str,
    drawn: str,
    one: Histogram,
    summary: str,
    name: str,
    table: str,
    below: str,
    remark: str = "",
    beside: str = "captions",
) -> str:
    name = ident(name)
    floor = HEIGHT - BOTTOM
    ends = (one.edges[0], (one.edges[0] + one.edges[-1]) / 2, one.edges[-1])
    anchors = ("start", "middle", "end")
    ticks = "".join(
        f'<text x="{_x(one, end):.1f}" y="{floor + 14}" text-anchor="{anchor}">{_short(end)}</text>'
        for end, anchor in zip(ends, anchors, strict=True)
    )
    names = (
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" y="{HEIGHT - 5}" text-anchor="middle">{below}</text>'
        f'<text x="10" y="{(TOP + floor) / 2:.1f}" text-anchor="middle" '
        f'transform="rotate(-90 10 {(TOP + floor) / 2:.1f})">{beside}</text>'
    )
    title = f"{label}: {below} and {beside}"
    small = f'<br><span class="muted small">{text(remark)}</span>' if remark else ""
    return (
        f'<figure><figcaption>{text(label)}{small}</figcaption><svg class="chart" role="img" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" aria-labelledby="{name}-t {name}-d"><title id="{name}-t">'
        f'{text(title)}</title><desc id="{name}-d">{text(summary)}.</desc>{drawn}<path class="axis" '
        f'd="M{LEFT} {floor}H{WIDTH - RIGHT}"/>{ticks}{names}</svg><details><summary>As a table'
        f'<span class="hidden-text">: {text(title)}</span></summary>{table}</details></figure>\n'
    )


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col"{_side(place)}>{text(head)}</th>' for place, head in enumerate(heads))
    body = "".join(
        f'<tr><th scope="row">{text(row[0])}</th>'
        f"{''.join(f'<td{_side(1)}>{text(cell)}</td>' for cell in row[1:])}</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}"><table>'
        f"<caption>{text(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _side(place: int) -> str:
    return ' class="number"' if place else ""


def _x(one: Histogram, score: float) -> float:
    low, high = one.edges[0], one.edges[-1]
    share = (score - low) / (high - low) if high > low else 0.5
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _short(value: float | None) -> str:
    if value is None:
        return "–"
    # What rounding leaves of a zero is no end of a range that a reader wants to see.
    return "0" if abs(value) < 1e-9 else f"{value:.3g}".replace("-", "−")


def _compact(count: int) -> str:
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"
