"""Charts of single captions' scores, from the histograms that records hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .markup import ident, text

WIDTH, HEIGHT = 280, 190
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 10, 36


@dataclass(frozen=True)
class Histogram:
    """Scores of a metric's captions.

    Attributes:
        edges: Ends of the bins, one more than bins, rising.
        counts: Captions in each bin.
        ratings: Human ratings, rising; empty where the record has none.
        rating_counts: ``[ratings][bins]`` captions.
        words: Ends of bins of the number of words, one more than bins; empty where there are none.
        word_counts: ``[bins of words][bins]`` captions.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    ratings: tuple[float, ...] = ()
    rating_counts: tuple[tuple[int, ...], ...] = ()
    words: tuple[int, ...] = ()
    word_counts: tuple[tuple[int, ...], ...] = ()

    @property
    def centres(self) -> list[float]:
        """Middle of each bin."""
        return [(low + high) / 2 for low, high in zip(self.edges, self.edges[1:], strict=False)]

    def mean(self, counts: Sequence[int]) -> float | None:
        """Return the mean score of a row of counts, each caption at the middle of its bin."""
        total = sum(counts)
        pairs = zip(self.centres, counts, strict=True)
        return sum(score * count for score, count in pairs) / total if total else None


def histograms(record: Mapping[str, Any]) -> dict[str, Histogram]:
    """Return the histograms of a record by metric; what is not of their shape is left out."""
    found = record.get("histograms")
    result = {}
    for metric, one in found.items() if isinstance(found, Mapping) else ():
        try:
            result[str(metric)] = _histogram(one)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    return result


def _histogram(one: Mapping[str, Any]) -> Histogram:
    edges = _rising(one["edges"])
    counts = _counts(one["counts"], len(edges) - 1)
    by_rating, by_words = one.get("by_rating") or {}, one.get("by_words") or {}
    ratings = _rising(by_rating.get("ratings", ()))
    words = _rising(by_words.get("edges", ()))
    rating_counts = tuple(_counts(row, len(counts)) for row in by_rating.get("counts", ()))
    word_counts = tuple(_counts(row, len(counts)) for row in by_words.get("counts", ()))
    if len(rating_counts) != len(ratings) or len(word_counts) != max(len(words) - 1, 0):
        raise ValueError("rows and their names differ in number")
    return Histogram(edges, counts, ratings, rating_counts, tuple(map(int, words)), word_counts)


def _rising(values: Sequence[Any]) -> tuple[float, ...]:
    result = tuple(float(value) for value in values)
    if not all(map(math.isfinite, result)) or list(result) != sorted(result):
        raise ValueError("not finite and rising")
    return result


def _counts(values: Sequence[Any], length: int) -> tuple[int, ...]:
    result = tuple(int(value) for value in values)
    if len(result) != length or length < 1 or min(result) < 0:
        raise ValueError("not as many counts as bins")
    return result


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


def bubbles(
    label: str, one: Histogram, name: str, by: str = "rating", remark: str = "", full: bool = False
) -> str:
    """Return a figure of scores against ratings or lengths: circles whose area is the number of captions.

    Args:
        label: Name of the metric.
        one: Its histogram.
        name: What the figure's ids begin with, unique in the page.
        by: ``rating``, or ``words``.
        remark: Shown below the label.
        full: Whether the table below has every count rather than a summary a row.
    """
    if by == "rating":
        heights, rows, unit = list(one.ratings), one.rating_counts, "human rating"
        names = [_short(round(rating, 2)) for rating in heights]
    else:
        ends = list(zip(one.words, one.words[1:], strict=False))
        heights, rows, unit = [(low + high) / 2 for low, high in ends], one.word_counts, "words"
        names = [f"{low}–{high - 1}" if high - low > 1 else str(low) for low, high in ends]
    low, high = min(heights), max(heights)
    drop = HEIGHT - TOP - BOTTOM
    # Room for half a circle above and below.
    pad = drop / (len(heights) + 1) / 2

    def y(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return HEIGHT - BOTTOM - pad - share * (drop - 2 * pad)

    most = max((count for row in rows for count in row), default=0) or 1
    largest = max(min((WIDTH - LEFT - RIGHT) / len(one.counts), drop / len(heights)) * 0.62, 5)
    drawn, knots, lines = "", [], ""
    for height, row in zip(heights, rows, strict=True):
        lines += f"M{LEFT} {y(height):.1f}H{WIDTH - RIGHT}"
        for centre, count in zip(one.centres, row, strict=True):
            if count:
                radius = max(largest * math.sqrt(count / most), 0.6)
                drawn += f'<circle cx="{_x(one, centre):.1f}" cy="{y(height):.1f}" r="{radius:.1f}"/>'
        if (mean := one.mean(row)) is not None:
            knots.append((_x(one, mean), y(height)))
    path = "L".join(f"{x:.1f} {at:.1f}" for x, at in knots)
    line = f'<path class="mean" d="M{path}"/>' if len(knots) > 1 else ""
    dots = "".join(f'<circle cx="{x:.1f}" cy="{at:.1f}" r="2.4"/>' for x, at in knots)
    shown: list[int] = []
    for place, height in enumerate(heights):
        # Ratings need not stand at equal distances; names that would run into each other are left out.
        if not shown or y(heights[shown[-1]]) - y(height) >= 12:
            shown.append(place)
    # Of a bin its lower end, since both would run into the axis' name.
    marks = [name_.partition("–")[0] for name_ in names]
    ticks = "".join(
        f'<text x="{LEFT - 5}" y="{y(heights[place]) + 3.5:.1f}" text-anchor="end">{marks[place]}</text>'
        for place in shown
    )
    inside = (
        f'<path class="grid" d="{lines}"/><g class="dot">{drawn}</g>{line}<g class="knot">{dots}</g>{ticks}'
    )
    means = [mean for mean in map(one.mean, rows) if mean is not None]
    summary = f"{sum(map(sum, rows)):,} captions by {unit}"
    if means:
        summary += f"; mean score about {_short(means[0])} at the lowest, {_short(means[-1])} at the highest"
    if full:
        heads = (unit.capitalize(), *(_short(centre) for centre in one.centres))
        cells = [(name_, *(f"{count:,}" for count in row)) for name_, row in zip(names, rows, strict=True)]
        table = _table(f"{label}: captions by {unit} and by the middle of the score's bin", heads, cells)
    else:
        cells = [
            (name_, f"{sum(row):,}", _short(one.mean(row))) for name_, row in zip(names, rows, strict=True)
        ]
        table = _table(f"{label} by {unit}", (unit.capitalize(), "Captions", "Mean score, about"), cells)
    return _figure(label, inside, one, summary, name, table, "score", remark, unit)


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
