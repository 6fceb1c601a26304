"""Time the bootstrap of τ-b and τ-c against a loop of ``scipy.stats.kendalltau``, and against influence functions.

Run by hand, on synthetic rows shaped like the data sets::

    python speed/bootstrap.py
"""

import time

import numpy as np
from scipy.stats import kendalltau

from capbench.benchmarks.statistics import Draws
from capbench.benchmarks.statistics.bootstrap import resample_all
from capbench.benchmarks.statistics.contract import RatedScores
from capbench.benchmarks.statistics.correlation import KendallB, KendallC
from capbench.benchmarks.statistics.influence import spreads_of_all

RESAMPLES = 1000
SCIPY_RESAMPLES = 30
MANY = 300_000
"""Rows on which both ways of making intervals are timed."""


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
    resample_all({"": ({"kendall_b": KendallB(), "kendall_c": KendallC()}, [rated])}, Draws(RESAMPLES))
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


def many(n: int, images: int, generator: np.random.Generator) -> RatedScores:
    """Return rows of images that differ in quality, rated with five levels."""
    image = generator.integers(images, size=n)
    quality = generator.normal(size=images)[image]
    human = np.digitize(quality + generator.normal(size=n), [-1.5, -0.5, 0.5, 1.5]).astype(float)
    return RatedScores(quality + generator.normal(size=n), human, image)


def compare_ways() -> None:
    """Print standard error and core-seconds of both ways on many rows."""
    rated = many(MANY, 60_000, np.random.default_rng(0))
    errors, seconds = [], []
    for way in ("bootstrap", "influence"):
        start = time.process_time()
        found = spreads_of_all({"": ({"b": KendallB()}, [rated])}, Draws(RESAMPLES, intervals=way, processes=1))
        errors.append(found[""]["b"].interval().stderr or 0.0)
        seconds.append(time.process_time() - start)
        rated = RatedScores(rated.scores, rated.human, rated.groups)
    print(
        f"{MANY:,} rows, standard error of tau-b: {errors[0]:.6f} by {RESAMPLES:,} resamples in {seconds[0]:.1f} s, "
        f"{errors[1]:.6f} by its influence function in {seconds[1]:.2f} s"
    )


def main() -> None:
    """Print a line for each shape of data."""
    for make in (expert, crowd_flower, continuous):
        rated = make()
        ours, scipy = time_ours(rated), time_scipy(rated)
        print(
            f"{make.__name__:13} {len(rated):6} rows, {len(np.unique(rated.human)):5} levels, a resample: "
            f"{1000 * ours:5.2f} ms, scipy {1000 * scipy:6.2f} ms, {scipy / ours:4.1f} times as fast"
        )
    compare_ways()


if __name__ == "__main__":
    main()
