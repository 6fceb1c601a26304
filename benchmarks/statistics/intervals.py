"""Student's t without SciPy, and Wilson's interval of shares."""

import math
from functools import lru_cache

import numpy as np

from .contract import Interval, caution_of

_AS_NORMAL = 200_000
"""Degrees of freedom from which on Student's t is the normal distribution, to a part in 10^5 of a quantile."""

FEW_OF_A_KIND = 3.5
"""Below so many effective observations of the rarer outcome, an interval of a share has one, too: Wilson's for true
shares there holds them in 84 to 98 % of samples, whatever the level says, as counts are whole numbers."""
FEWEST_FOR_LETTERS = 10
"""Below it, metrics get no letters: tests of so few images find differences between equal metrics."""


def share_within(t: float, images: int) -> float:
    """Return the probability that Student's t, of ``images - 1`` degrees of freedom, lies between ``-t`` and ``t``.

    By the finite series of Abramowitz & Stegun 1964, 26.7.3 and 26.7.4: SciPy takes longer to import than a run of few
    captions takes.
    """
    free = images - 1
    if free >= _AS_NORMAL:
        return math.erf(t / math.sqrt(2))
    angle = math.atan2(t, math.sqrt(free))
    odd = free % 2
    steps = np.arange(1, max((free - odd) // 2, 1))
    series = 1 + float(np.cumprod((2 * steps - 1 + odd) / (2 * steps + odd) * math.cos(angle) ** 2).sum())
    within = math.sin(angle) * series
    if odd:
        within = 2 / math.pi * (angle + (within * math.cos(angle) if free > 1 else 0.0))
    # Rounding may go beyond, where p would be below 0.
    return min(within, 1.0)


@lru_cache(maxsize=1024)
def t_quantile(level: float, images: int) -> float:
    """Return the ``t`` between whose negative and itself Student's t, of ``images - 1`` free, lies with ``level``."""
    low, high = 0.0, 1.0
    while share_within(high, images) < level:
        high *= 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if share_within(middle, images) < level else (low, middle)
    return middle


def wilson(share: float, stderr: float, images: int, level: float) -> Interval:
    """Return Wilson's interval of a share in a cluster sample; it never ends at 0 or 1 where images could differ.

    The number of observations is the effective one, ``share (1 - share) / stderr²``, and the quantile is Student's t
    (Wilson 1927; for cluster samples Korn & Graubard 1998; Dean & Pagano 2015 compare them). A share of exactly 0 or 1
    has no standard error: there each image counts as one observation.

    Args:
        share: Between 0 and 1.
        stderr: Its standard error over images.
        images: Number of images, at least 2.
        level: Share of samples whose interval holds the truth.
    """
    spread = share * (1 - share)
    observations = spread / stderr**2 if spread > 0 and stderr > 0 else float(images)
    square = t_quantile(level, images) ** 2
    whole = 1 + square / observations
    centre = (share + square / (2 * observations)) / whole
    half = math.sqrt(square * (max(spread, 0.0) / observations + square / (4 * observations**2))) / whole
    low, high = max(min(centre - half, share), 0.0), min(max(centre + half, share), 1.0)
    rarer = min(share, 1 - share) * observations
    caution = caution_of(images) or ("a coarse interval so near 0 or 1" if rarer < FEW_OF_A_KIND else "")
    return Interval(low, high, stderr, 0, method="wilson", caution=caution)
