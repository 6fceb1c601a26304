"""McNemar's test: are two metrics right equally often on the same pairs?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contract import UndefinedStatistic


@dataclass(frozen=True)
class McNemarTest:
    """Outcome of the test.

    Attributes:
        first_better: Pairs on which the first metric has more credit.
        second_better: Pairs on which the second has.
        p: Exact, two-sided. Never too small, and a little too large where few pairs differ.
        mid_p: The same with half the probability of what was seen; closer to the level that it states.
    """

    first_better: int
    second_better: int
    p: float
    mid_p: float


def mcnemar_test(first: np.ndarray, second: np.ndarray) -> McNemarTest:
    """Test whether two metrics are right equally often.

    Only pairs whose credits differ count. If the metrics are equally good, each of these differences could
    as well have the other sign. Where no metric ties, all differences are 1 and the number of those
    with a positive sign is binomial with probability 1/2: McNemar's exact test (McNemar 1947). A tie earns half
    a credit, so differences of 1/2 occur; the same argument about signs then gives the distribution of the sum
    of all differences, a sum of two binomials, of which the exact test is the case without halves.
    ``p`` is the probability of a sum as far from 0 as the one seen, or farther; ``mid_p`` counts
    those equally far by half (Lancaster 1961; recommended by Fagerland, Lydersen & Laake 2013).

    **It supposes independent pairs**; pairs of one image are not quite.

    Args:
        first: ``[n]`` credits of 0 (wrong), 0.5 (tie) or 1 (right).
        second: ``[n]`` those of the other metric on the same pairs.

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
    return McNemarTest(
        int(np.count_nonzero(differences > 0)),
        int(np.count_nonzero(differences < 0)),
        min(1.0, beyond + at),
        min(1.0, beyond + at / 2),
    )


def _fair_coins(tosses: int) -> np.ndarray:
    """Return the probability of each number of heads, ``[tosses + 1]``."""
    from scipy.special import gammaln  # pyright: ignore[reportMissingTypeStubs]

    heads = np.arange(tosses + 1)
    ways = gammaln(tosses + 1) - gammaln(heads + 1) - gammaln(tosses - heads + 1)
    return np.exp(ways - tosses * np.log(2))
