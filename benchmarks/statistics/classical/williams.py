"""Williams' test: do two metrics correlate equally with the same ratings?"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..contract import UndefinedStatistic


@dataclass(frozen=True)
class WilliamsTest:
    """Outcome of the test.

    Attributes:
        t: The statistic; positive where the first correlation is greater.
        degrees: Its degrees of freedom, ``n - 3``.
        p: Two-sided.
    """

    t: float
    degrees: int
    p: float


def williams_test(first: float, second: float, between: float, n: int) -> WilliamsTest:
    r"""Test whether two Pearson correlations that share one variable are equal.

    With ``r12`` and ``r13`` the correlations of two metrics with the ratings, ``r23`` that of the metrics with
    one another, ``r = (r12 + r13) / 2`` and ``|R| = 1 - r12² - r13² - r23² + 2 r12 r13 r23``::

        t = (r12 - r13) sqrt((n - 1)(1 + r23) / (2 (n - 1)/(n - 3) |R| + r² (1 - r23)³))

    is Student's t with ``n - 3`` degrees of freedom (Williams 1959, *The comparison of regression variables*,
    J. R. Stat. Soc. B 21; in this form Steiger 1980, *Tests for comparing elements of a correlation
    matrix*, eq. 7, who recommends it). Metrics for text are compared so since Graham & Baldwin 2014.

    **It supposes independent rows.** Several captions of an image, or several ratings of a caption, are not:
    the test then finds differences that are not there more often than its p says.

    Args:
        first: ``r12``.
        second: ``r13``.
        between: ``r23``.
        n: Number of rows.

    Raises:
        UndefinedStatistic: Fewer than 4 rows, or a correlation is not finite.
    """
    if not all(map(math.isfinite, (first, second, between))):
        raise UndefinedStatistic("Williams' test needs finite correlations")
    if n < 4:
        raise UndefinedStatistic("Williams' test needs 4 rows or more")
    determinant = 1 - first**2 - second**2 - between**2 + 2 * first * second * between
    mean = (first + second) / 2
    # Rounding can make the determinant of nearly equal metrics negative.
    spread = 2 * (n - 1) / (n - 3) * max(determinant, 0.0) + mean**2 * max(1 - between, 0.0) ** 3
    distance = (first - second) * math.sqrt((n - 1) * (1 + between))
    if abs(first - second) < 1e-12:
        return WilliamsTest(0.0, n - 3, 1.0)
    if spread <= 0:
        return WilliamsTest(math.copysign(math.inf, distance), n - 3, 0.0)
    t = distance / math.sqrt(spread)
    # The module alone: scipy.stats takes a second to load.
    from scipy.special import stdtr  # pyright: ignore[reportMissingTypeStubs]

    return WilliamsTest(t, n - 3, float(2 * stdtr(n - 3, -abs(t))))
