"""Rounding that makes near ties ties, for all statistics and protocols.

Scores that differ by rounding alone, as sums of the same numbers in another order do, are the same score. A tolerance
would not be transitive (a ties with b, and b with c, but not a with c), which no rank statistic survives; so scores are
rounded to :data:`SIGNIFICANT_DIGITS` first, and then compared exactly.
"""

import numpy as np

SIGNIFICANT_DIGITS = 12
"""A double has between 15 and 17, so that hundreds of roundings are forgiven."""

_POWERS = np.array([float(f"1e{power}") for power in range(-300, 309)])


def settle(values: np.ndarray) -> np.ndarray:
    """Return numbers rounded to :data:`SIGNIFICANT_DIGITS` decimal digits, so that near ties are ties.

    Args:
        values: Numbers, of any shape; non-finite ones, below 1e-285 or above 1e300 are unchanged.

    Returns:
        Float64 of the same shape; numbers that were settled stay what they are.
    """
    values = np.asarray(values, np.float64)
    size = np.abs(values)
    known = (size > 1e-285) & (size < 1e300)
    size = np.where(known, size, 1.0)
    # The decade by logarithm may be that of a neighbour next to a power of ten, on some machines.
    decade = np.floor(np.log10(size)).astype(np.int64)
    decade += size >= _POWERS[decade + 301]
    decade -= size < _POWERS[decade + 300]
    digits = SIGNIFICANT_DIGITS - 1 - decade
    # Powers of ten up to 1e22 are exact, their reciprocals are not: the one divides where the other would multiply.
    factor = _POWERS[np.abs(digits) + 300]
    up, down = np.where(digits >= 0, factor, 1.0), np.where(digits < 0, factor, 1.0)
    whole = np.rint(np.where(known, values, 0.0) * up / down)
    return np.where(known, whole / up * down, values)
