"""Gaussians of features: moments that shards add up exactly, and distances that no batch can change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

STEP = 2.0**-30
"""Features are rounded to multiples of it: finer than float32 from 2**-6 up, that is, in all that has weight."""

# A product of two numbers of 15 bits, summed over so many rows, is a whole number that float64 holds.
_HALF = 15
_ROWS = 8192


def fixed(features: np.ndarray) -> np.ndarray:
    """Return features of norm 1 as int32 multiples of ``STEP``."""
    return np.rint(features.astype(np.float64) / STEP).astype(np.int32)


def moments(features: np.ndarray) -> dict[str, np.ndarray]:
    """Return what a mean and a covariance are made of, exactly; for different rows it adds up.

    Args:
        features: ``[n, d]`` int32 multiples of ``STEP``, of norm 1; n is less than 2**32.

    Returns:
        ``count [1]``, ``sums [d]`` and ``products [3, d, d]``, int64: with each feature cut into a high and a low half
        of 15 bits, high times high, high times low, low times low.
    """
    d = features.shape[1]
    products = np.zeros((3, d, d), dtype=np.int64)
    for start in range(0, len(features), _ROWS):
        rows = features[start : start + _ROWS]
        high, low = (half.astype(np.float64) for half in _halves(rows))
        for product, one, other in zip(products, (high, high, low), (high, low, low), strict=True):
            product += (one.T @ other).astype(np.int64)
    return {
        "count": np.array([len(features)], dtype=np.int64),
        "sums": features.sum(axis=0, dtype=np.int64),
        "products": products,
    }


def add_moments(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the moments of all parts, of which those of nothing are left out."""
    filled = [part for part in parts if part["count"][0]] or parts[:1]
    return {name: np.sum([part[name] for part in filled], axis=0) for name in ("count", "sums", "products")}


def mean_and_covariance(of: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean ``[d]`` and the covariance ``[d, d]`` over ``n - 1`` of moments; zeros of fewer than two rows."""
    n = int(of["count"][0])
    if n < 2:
        return np.zeros(len(of["sums"])), np.zeros(of["products"].shape[1:])
    # About the multiple of STEP that is nearest to the mean, still in whole numbers, so that nothing cancels after
    # rounding.
    centre = (2 * of["sums"] + n) // (2 * n)
    rest = of["sums"] - n * centre
    high, low = _halves(centre)
    hundreds, tens, ones = of["products"]
    hundreds = hundreds - n * np.outer(high, high)
    tens = tens + tens.T - n * (np.outer(high, low) + np.outer(low, high))
    ones = ones - n * np.outer(low, low) - np.outer(centre, rest) - np.outer(rest, centre)
    tens += ones >> _HALF
    hundreds += tens >> _HALF
    small = (_halves(tens)[1] << _HALF) + _halves(ones)[1]
    scatter = hundreds * 2.0 ** (2 * _HALF) + small - np.outer(rest, rest / n)
    return (centre + rest / n) * STEP, scatter * (STEP**2 / (n - 1))


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian of ``d`` numbers.

    Attributes:
        mean: ``[d]``.
        whitening: ``[d, d]``; the squared norm of a difference from the mean, times it, is the Mahalanobis distance².
        log_determinant: Of the covariance.
        rank: Of the covariance; below ``d`` it has no inverse, and the other numbers mean nothing.
    """

    mean: np.ndarray
    whitening: np.ndarray
    log_determinant: float
    rank: int


def gaussian(mean: np.ndarray, covariance: np.ndarray, eps: float) -> Gaussian:
    """Return the Gaussian of a mean and a covariance, to whose diagonal ``eps`` is added for distances alone."""
    spread, directions = np.linalg.eigh(covariance)
    # As numpy.linalg.matrix_rank has it: what lies below is rounding, whose logarithm means nothing.
    real = spread > np.abs(spread).max() * len(spread) * np.finfo(np.float64).eps
    if not real.all():
        return Gaussian(mean, np.zeros_like(directions), np.nan, int(np.count_nonzero(real)))
    return Gaussian(mean, directions / np.sqrt(spread + eps), float(np.log(spread).sum()), int(np.count_nonzero(real)))


def distances(features: np.ndarray, mean: np.ndarray, whitening: np.ndarray) -> np.ndarray:
    """Return the squared Mahalanobis distance ``[m]`` of features from a mean.

    A matrix product rounds as its shape and the machine's threads have it. Here it is of whole numbers, two a factor,
    of as many bits as their sums of products leave exact (21 each for 2,048 features): a row has one value, whatever
    stands beside it.

    Args:
        features: ``[m, d]`` float64.
        mean: ``[d]``, of the Gaussian.
        whitening: ``[d, d]``, of the Gaussian.
    """
    bits = (53 - (len(mean) - 1).bit_length()) // 2
    column = _scale(whitening, axis=0)
    high, low = _slices(whitening / column, bits)
    found = np.zeros(len(features))
    for start in range(0, len(features), _ROWS):
        outside = features[start : start + _ROWS] - mean
        row = _scale(outside, axis=1)
        high_row, low_row = _slices(outside / row, bits)
        white = (high_row @ high) * 2.0 ** (-2 * bits)
        white += (high_row @ low + low_row @ high) * 2.0 ** (-3 * bits)
        white *= column * row
        found[start : start + _ROWS] = (white**2).sum(axis=1)
    return found


def _halves(whole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the high part of whole numbers, in units of 2**15, and the low one, from 0 to below that."""
    return whole >> _HALF, whole & ((1 << _HALF) - 1)


def _scale(matrix: np.ndarray, axis: int) -> np.ndarray:
    """Return for each row or column the power of two above its largest number."""
    return np.ldexp(1.0, np.frexp(np.abs(matrix).max(axis=axis, keepdims=True))[1])


def _slices(matrix: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of less than 1 as whole multiples of ``2**-bits``, and of its square what is left."""
    scaled = matrix * 2.0**bits
    high = np.rint(scaled)
    return high, np.rint((scaled - high) * 2.0**bits)
