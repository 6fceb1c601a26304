"""Sums of products."""

from __future__ import annotations

import numpy as np


def dot(first: np.ndarray, second: np.ndarray) -> float:
    """Return ``Σ first · second``.

    Not ``first @ second``: BLAS spreads vectors of this size over threads, which on a busy machine takes ten
    times as long, and rounds differently for another number of threads.
    """
    return float((first * second).sum())
