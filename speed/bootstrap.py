"""Time the bootstrap of τ-b and τ-c against a loop of ``scipy.stats.kendalltau`` in the same run.

Run by hand, on synthetic rows shaped like the data sets::

    python speed/bootstrap.py
"""

from __future__ import annotations

import time

import numpy as np
from scipy.stats import kendalltau

from capbench.benchmarks.statistics.bootstrap import bootstrap
from capbench.benchmarks.statistics.contract import RatedScores
from capbench.benchmarks.statistics.correlation import KendallB, KendallC

RESAMPLES = 1000
SCIPY_RESAMPLES = 30


def expert() -> RatedScores:
    """Return 16,992 rows like Flickr8k-Expert: 5,664 pairs, each with three ratings of four levels."""
    generator = np.random.default_rng(0)
    quality = np.repeat(generator.normal(size=5664), 3)
    scores = np.repeat(quality[::3] + generator.normal(size=5664), 3)
    human = np.digitize(quality + generator.normal(size=16992) / 2, [0.2, 1.0, 1.8])
    return RatedScores(scores, human.astype(float), np.repeat(generator.integers(1000, size=5664), 3))


def crowd_flower() -> RatedScores:
    """Return 47,830 rows like Flickr8k-CF: shares of yes votes, about 25 levels, most of them 0."""
    generator = np.random.default_rng(0)
    quality = generator.normal(size=47830)
    voters = generator.choice([3, 4, 5, 6, 8, 9], p=[0.7, 0.1, 0.05, 0.1, 0.03, 0.02], size=47830)
    yes = generator.binomial(voters, 1 / (1 + np.exp(2 - 1.5 * quality)))
    scores = quality + generator.normal(size=47830)
    return RatedScores(scores, yes / voters, generator.integers(1000, size=47830))


def continuous() -> RatedScores:
    """Return 47,830 rows without any ties."""
    generator = np.random.default_rng(0)
    human = generator.normal(size=47830)
    return RatedScores(human + generator.normal(size=47830), human, generator.integers(1000, size=47830))


def time_ours(rated: RatedScores) -> float:
    """Return seconds a resample of both taus, sorting included."""
    start = time.perf_counter()
    bootstrap({"kendall_b": KendallB(), "kendall_c": KendallC()}, [rated], resamples=RESAMPLES)
    return (time.perf_counter() - start) / RESAMPLES


def time_scipy(rated: RatedScores) -> float:
    """Return seconds a resample of both taus with two calls of scipy."""
    generator = np.random.default_rng(0)
    names, image = np.unique(rated.groups, return_inverse=True)
    rows_of = np.split(np.argsort(image, kind="stable"), np.cumsum(np.bincount(image))[:-1])
    start = time.perf_counter()
    for _ in range(SCIPY_RESAMPLES):
        rows = np.concatenate([rows_of[one] for one in generator.integers(len(names), size=len(names))])
        kendalltau(rated.scores[rows], rated.human[rows], variant="b")
        kendalltau(rated.scores[rows], rated.human[rows], variant="c")
    return (time.perf_counter() - start) / SCIPY_RESAMPLES


def main() -> None:
    """Print a line for each shape of data."""
    for make in (expert, crowd_flower, continuous):
        rated = make()
        ours, scipy = time_ours(rated), time_scipy(rated)
        print(
            f"{make.__name__:13} {len(rated):6} rows, {len(np.unique(rated.human)):5} levels, a resample: "
            f"{1000 * ours:5.2f} ms, scipy {1000 * scipy:6.2f} ms, {scipy / ours:4.1f} times as fast"
        )


if __name__ == "__main__":
    main()
