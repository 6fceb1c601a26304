from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from capbench.metrics.vectors.gaussians import (
    STEP,
    add_moments,
    distances,
    fixed,
    gaussian,
    mean_and_covariance,
    moments,
)


def unit(n: int, d: int, about: float = 0.0) -> np.ndarray:
    """Return features of norm 1, most of which is along the first axis where ``about`` is large."""
    rows = np.random.default_rng(d).normal(size=(n, d))
    rows[:, 0] += about
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_features_are_rounded_to_the_nearest_multiple():
    found = fixed(np.array([[1.0, -1.0, 0.6 * STEP, -0.4 * STEP]]))
    assert found.dtype == np.int32
    assert found.tolist() == [[2**30, -(2**30), 1, 0]]


def test_moments_are_exact_however_the_rows_are_split(monkeypatch: pytest.MonkeyPatch):
    rows = fixed(unit(50, 4, about=9))
    # The ends of what a feature can be.
    rows[:4] = [[2**30, 0, 0, -(2**30)], [-(2**30), 2**14, -(2**14), 1], [2**15 - 1, -(2**15), 0, 0], [0, 0, 0, 0]]
    whole = moments(rows)
    monkeypatch.setattr("capbench.metrics.vectors.gaussians._ROWS", 8)
    nothing = moments(np.zeros((0, 0), dtype=np.int32))
    parts = add_moments([nothing, moments(rows[30:]), moments(rows[:30])])
    for name, array in whole.items():
        assert array.dtype == parts[name].dtype == np.int64
        np.testing.assert_array_equal(parts[name], array)
    high, cross, low = whole["products"].astype(object)
    exact = rows.astype(object)
    assert (exact.T @ exact == high * 2**30 + (cross + cross.T) * 2**15 + low).all()
    assert (whole["sums"] == exact.sum(axis=0)).all()


@pytest.mark.parametrize("about", [0.0, 1e3])
def test_mean_and_covariance_are_the_true_ones_rounded(about: float):
    rows = fixed(unit(40, 3, about))
    mean, covariance = mean_and_covariance(moments(rows))
    exact = [[Fraction(value) * Fraction(STEP) for value in row] for row in rows.tolist()]
    true_mean = [sum(column) / 40 for column in zip(*exact, strict=True)]
    np.testing.assert_allclose(mean, np.array(true_mean, dtype=float), rtol=1e-15)
    for i in range(3):
        for j in range(3):
            true = sum((row[i] - true_mean[i]) * (row[j] - true_mean[j]) for row in exact) / 39
            # The features of norm 1 about one axis vary by a millionth of their size: nothing of it is lost.
            assert covariance[i, j] == pytest.approx(float(true), rel=1e-14, abs=0)


def test_rows_that_are_all_alike_have_no_covariance_at_all():
    rows = np.repeat(fixed(unit(1, 5)), 30, axis=0)
    mean, covariance = mean_and_covariance(moments(rows))
    assert not covariance.any()
    assert (mean == rows[0] * STEP).all()
    assert gaussian(mean, covariance, 0.0).rank == 0
    assert not mean_and_covariance(moments(rows[:1]))[1].any()
    assert mean_and_covariance(moments(fixed(unit(2, 5))))[1].any()


@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_distances_are_those_of_mahalanobis(eps: float):
    rows = unit(300, 24, about=2).astype(np.float64)
    mean, covariance = rows.mean(axis=0), np.cov(rows.T)
    found = gaussian(mean, covariance, eps)
    outside = rows - mean
    expected = np.einsum("ij,ji->i", outside, np.linalg.solve(covariance + eps * np.eye(24), outside.T))
    np.testing.assert_allclose(distances(rows, mean, found.whitening), expected, rtol=1e-11)
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(covariance)[1], rel=1e-12)
    assert found.rank == 24


@pytest.mark.parametrize(("n", "d"), [(1100, 5), (600, 130), (600, 512)])
def test_distance_of_a_row_does_not_depend_on_those_beside_it(n, d, monkeypatch):
    rows = unit(n, d, about=2).astype(np.float64)
    found = gaussian(*mean_and_covariance(moments(fixed(rows))), 0.0)
    whole = distances(rows, found.mean, found.whitening)
    sequence = np.random.default_rng(0).permutation(n)
    for which in (sequence[:1], sequence[1:4], sequence[4:100], sequence[100:]):
        np.testing.assert_array_equal(distances(rows[which], found.mean, found.whitening), whole[which])
    monkeypatch.setattr("capbench.metrics.vectors.gaussians._ROWS", 37)
    np.testing.assert_array_equal(distances(rows, found.mean, found.whitening), whole)
    assert distances(rows[:0], found.mean, found.whitening).shape == (0,)
