"""When two scores count as equal: one rule, which is transitive."""

from __future__ import annotations

import numpy as np

DIGITS = 12
"""Significant digits to which scores are rounded before they are compared exactly. The same caption scored twice, in
another order of sums, may differ in the last two or three of some sixteen."""


def rounded(scores: np.ndarray) -> np.ndarray:
    """Return scores rounded to :data:`DIGITS` significant digits; what is not finite stays as it is.

    A tolerance instead would not be transitive: a = b and b = c, but a < c.

    Args:
        scores: ``[...]`` float64.
    """
    return np.array([float(f"{one:.{DIGITS - 1}e}") for one in scores.ravel().tolist()]).reshape(scores.shape)
