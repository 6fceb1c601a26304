"""Sums of floats without rounding: they do not depend on the order of the addends, nor on how they are split."""

import math

import numpy as np

_BITS = 21
_LOWEST = -1074  # 2.0**-1074 is the least float64 above 0
LIMBS = (1024 - _LOWEST) // _BITS + 1
"""How many whole numbers hold a sum: limb i counts multiples of ``2**(21 * i - 1074)``."""

# Chunks of sums fit into the processor's cache.
_ROWS = 4096
_HEAVIEST = 2.0 ** (53 - _BITS)


def exact_sums(columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted sums of columns, exactly; those of two parts of the rows add up to those of both.

    Each value is cut into pieces of 21 bits at places that are the same for all values. A piece is a whole
    number, so that products with weights, and their sums, are exact in float64.

    Args:
        columns: ``[n, k]`` finite float64.
        weights: ``[n]`` whole numbers of at least 0; less than 2**32 in 4,096 rows, and than 2**42 in all that is
            added up.

    Returns:
        ``[k, LIMBS]`` int64.

    Raises:
        ValueError: A value is not finite, or a weight is no such number.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if not np.isfinite(columns).all():
        raise ValueError("exact sums need finite values")
    if ((weights < 0) | (weights != np.floor(weights))).any():
        raise ValueError("exact sums need whole numbers as weights")
    limbs = np.zeros((columns.shape[1], LIMBS), dtype=np.int64)
    for start in range(0, len(columns), _ROWS):
        if weights[start : start + _ROWS].sum() >= _HEAVIEST:
            raise ValueError(f"exact sums are of rows that weigh less than {_HEAVIEST:,.0f} together")
        for column, sums in zip(columns[start : start + _ROWS].T, limbs, strict=True):
            _add(sums, column.copy(), weights[start : start + _ROWS])
    return limbs


def totals(limbs: np.ndarray) -> np.ndarray:
    """Return sums ``[k]`` as the float64 nearest to each.

    Args:
        limbs: ``[k, LIMBS]`` of :func:`exact_sums`, or sums of such arrays.
    """
    # A quotient of two integers is rounded once.
    return np.array(
        [sum(int(limb) << (_BITS * i) for i, limb in enumerate(sums) if limb) / (1 << -_LOWEST) for sums in limbs],
        dtype=np.float64,
    )


def _add(sums: np.ndarray, rest: np.ndarray, weights: np.ndarray) -> None:
    """Add a column, which is used up, to its limbs."""
    limb = (math.frexp(float(np.abs(rest).max(initial=0.0)))[1] - _LOWEST) // _BITS
    while rest.any():
        unit = math.ldexp(1.0, _BITS * limb + _LOWEST)
        piece = np.trunc(rest / unit)
        sums[limb] += int(weights @ piece)
        rest -= piece * unit
        limb -= 1
