"""One number of samples against another, as points of a drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .samples import RunSamples

WIDTH, HEIGHT = 600, 440
LEFT, RIGHT, TOP, BOTTOM = 74, 14, 12, 58
MOST = 2_000
"""Points that a drawing has; of more samples an even share is drawn."""
_FEW_LEVELS = 12
_FAR = 10
_SEED = 1234


@dataclass(frozen=True)
class Tick:
    """A number beside an axis, and where it stands in the drawing."""

    place: float
    label: str


@dataclass(frozen=True)
class Scatter:
    """A drawing of samples.

    Attributes:
        points: Number of each sample that is drawn, and where, from the left and from the top.
        across: Numbers along the lower edge.
        up: Numbers along the left edge.
        total: Samples that have both numbers.
        spread: Whether points stand beside their place from left to right, as many share it.
        far: Samples whose ranks by the two numbers differ most, the greatest difference first.
    """

    points: Sequence[tuple[int, float, float]]
    across: Sequence[Tick]
    up: Sequence[Tick]
    total: int
    spread: bool
    far: Sequence[int]


def scatter(samples: RunSamples, x: str, y: str) -> Scatter:
    """Return the samples of a run as points.

    Args:
        samples: The samples.
        x: A metric, or a column of ratings, from left to right.
        y: The same from the bottom to the top.
    """
    across, up = samples.numbers(x), samples.numbers(y)
    rows = np.flatnonzero(np.isfinite(across) & np.isfinite(up))
    if not rows.size:
        return Scatter((), (), (), 0, False, ())
    far = rows[np.argsort(-np.abs(standing(across[rows]) - standing(up[rows])), kind="stable")[:_FAR]]
    random = np.random.default_rng(_SEED)
    drawn = rows if rows.size <= MOST else np.sort(random.choice(rows, MOST, replace=False))
    left, right = _ends(across[rows])
    low, high = _ends(up[rows])

    def x_of(values: Any) -> Any:
        return LEFT + (values - left) / (right - left) * (WIDTH - LEFT - RIGHT)

    def y_of(values: Any) -> Any:
        return HEIGHT - BOTTOM - (values - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    spread = len(np.unique(across[rows])) <= _FEW_LEVELS < len(rows)
    xs, ys = x_of(across[drawn]), y_of(up[drawn])
    if spread:
        xs = xs + random.uniform(-10, 10, len(drawn))
    return Scatter(
        list(zip(drawn.tolist(), xs.round(1).tolist(), ys.round(1).tolist(), strict=True)),
        [Tick(x_of(one), _short(one)) for one in _steps(left, right)],
        [Tick(y_of(one), _short(one)) for one in _steps(low, high)],
        int(rows.size),
        spread,
        far.tolist(),
    )


def standing(values: np.ndarray) -> np.ndarray:
    """Return where each value stands among all of them, 0 for the lowest and 1 for the highest; ties share a place."""
    levels, level_of, counts = np.unique(values, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts
    if len(values) < 2 or len(levels) < 2:
        return np.full(len(values), 0.5)
    return ((below + (counts - 1) / 2) / (len(values) - 1))[level_of]


def _ends(values: np.ndarray) -> tuple[float, float]:
    """Return the ends of an axis: of the values, with some room."""
    low, high = float(values.min()), float(values.max())
    room = (high - low) * 0.04 or max(abs(low) * 0.1, 0.5)
    return low - room, high + room


def _steps(low: float, high: float) -> list[float]:
    """Return round numbers between two others, four to nine of them."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in (1, 2, 5, 10) if one * power >= rough)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _short(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")
