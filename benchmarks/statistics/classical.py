"""Classical tests of two metrics on the same data: Williams' for correlations, McNemar's for accuracies.

Both assume independent rows, which captions of one image are not: they are printed next to the bootstrap's p.
"""

import math

import numpy as np

from .contract import UndefinedStatistic


def williams_test(first: float, second: float, between: float, n: int) -> tuple[float, float]:
    r"""Test whether two Pearson correlations with a variable in common are equal.

    With ``r12`` and ``r13`` the correlations of two metrics with the ratings, ``r23`` that of the metrics with
    one another, ``r = (r12 + r13) / 2`` and ``|R| = 1 - r12² - r13² - r23² + 2 r12 r13 r23``::

        t = (r12 - r13) sqrt((n - 1)(1 + r23) / (2 (n - 1)/(n - 3) |R| + r² (1 - r23)³))

    is Student's t with ``n - 3`` degrees of freedom (Williams 1959, *The comparison of regression variables*,
    J. R. Stat. Soc. B 21; in this form Steiger 1980, *Tests for comparing elements of a correlation
    matrix*, eq. 7, who recommends it). Metrics for text are compared so since Graham & Baldwin 2014.

    **It assumes independent rows.** Several captions of an image, or several ratings of a caption, are not:
    the test's p is then too small.

    Args:
        first: ``r12``.
        second: ``r13``.
        between: ``r23``.
        n: Number of rows.

    Returns:
        ``t``, positive where the first correlation is greater, and the two-sided p.

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
        return 0.0, 1.0
    if spread <= 0:
        return math.copysign(math.inf, distance), 0.0
    t = distance / math.sqrt(spread)
    # The module alone: scipy.stats takes a second to load.
    from scipy.special import stdtr

    return t, float(2 * stdtr(n - 3, -abs(t)))


def mcnemar_test(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Test whether two metrics are right equally often.

    Only pairs whose credits differ count. If the metrics are equally good, each of these differences could
    as well have the other sign. Where no metric ties, all differences are 1 and the number of those
    with a positive sign is binomial with probability 1/2: McNemar's exact test (McNemar 1947). A tie earns half
    a credit, so differences of 1/2 occur; the same argument about signs then gives the distribution of the sum
    of all differences, a sum of two binomials, of which the exact test is the case without halves.
    ``p`` is the probability of a sum as far from 0 as the one seen, or farther; ``mid_p`` counts
    those equally far by half (Lancaster 1961; recommended by Fagerland, Lydersen & Laake 2013).

    **It assumes independent pairs**; pairs of one image are not quite.

    Args:
        first: ``[n]`` credits of 0 (wrong), 0.5 (tie) or 1 (right).
        second: ``[n]`` those of the other metric on the same pairs.

    Returns:
        The exact two-sided p, a little too large where few pairs differ, and the mid-p, closer to the nominal level.

    Raises:
        UndefinedStatistic: Credits are other numbers.
    """
    halves = 2 * np.stack([np.asarray(first, float), np.asarray(second, float)])
    if not np.isin(halves, (0, 1, 2)).all():
        raise UndefinedStatistic("McNemar's test needs credits of 0, 0.5 and 1")
    differences = halves[0] - halves[1]
    by_one = int(np.count_nonzero(np.abs(differences) == 2))
    by_half = int(np.count_nonzero(np.abs(differences) == 1))
    # Position k of the distribution is the sum 2 * (2 wins - by_one) + (2 wins - by_half), in halves.
    ones = np.zeros(2 * by_one + 1)
    ones[::2] = _fair_coins(by_one)
    chances = np.convolve(ones, _fair_coins(by_half))
    sums = np.abs(2 * np.arange(len(chances)) - (2 * by_one + by_half))
    seen = abs(int(differences.sum()))
    beyond, at = float(chances[sums > seen].sum()), float(chances[sums == seen].sum())
    return min(1.0, beyond + at), min(1.0, beyond + at / 2)


def _fair_coins(tosses: int) -> np.ndarray:
    """Return the probability of each number of heads, ``[tosses + 1]``."""
    from scipy.special import gammaln

    heads = np.arange(tosses + 1)
    ways = gammaln(tosses + 1) - gammaln(heads + 1) - gammaln(tosses - heads + 1)
    return np.exp(ways - tosses * np.log(2))
