"""Intervals cover what they say, also near 0 and 1, of few images, and where resampling biases a statistic."""

import math

import numpy as np
import pytest
from scipy import stats

from capbench.benchmarks.statistics import Draws
from capbench.benchmarks.statistics.bootstrap import (
    Resamples,
    bias_corrected,
    least_p,
    p_of_few,
    resample_values,
    resamples_for,
)
from capbench.benchmarks.statistics.contract import Interval, RatedScores
from capbench.benchmarks.statistics.influence import Influence, Spread, spreads_of_all
from capbench.benchmarks.statistics.intervals import share_within, t_quantile, wilson
from capbench.benchmarks.statistics.paired import paired_means
from capbench.benchmarks.statistics.significance import rank
from capbench.benchmarks.statistics.systems.correlation import SystemPearson


def ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def share_of(right: np.ndarray, **draws: object) -> Resamples:
    """Resamples of the share of rows that are right, an image a row."""

    def share(weights: np.ndarray) -> float:
        return float((weights * right).sum() / weights.sum())

    return resample_values({"": share}, np.arange(len(right)), Draws(**{"resamples": 400, **draws}))[""]


@pytest.mark.parametrize("images", [5, 30, 200])
def test_a_share_of_all_has_wilsons_interval_of_the_images(images: int):
    # At 1, Wilson's lower end is n / (n + t²).
    square = stats.t.ppf(0.975, images - 1) ** 2
    low, high = ends(share_of(np.ones(images)).interval(is_share=True))
    assert low == pytest.approx(images / (images + square)) and high == 1.0
    none = Influence(0.0, np.zeros(images)).interval(is_share=True)
    assert ends(none) == pytest.approx((0.0, square / (images + square))) and none.method == "wilson"


def test_wilsons_interval_counts_effective_observations():
    # With many images it is the textbook interval of as many observations as share (1 - share) / stderr².
    share, observations = 0.9, 40
    stderr = math.sqrt(share * (1 - share) / observations)
    textbook = stats.binomtest(36, observations).proportion_ci(method="wilson")
    assert wilson(share, stderr, 10**9, 0.95).ends == pytest.approx((textbook.low, textbook.high), abs=1e-6)
    # Twice the standard error, as of rows of an image that are all alike, are a quarter of the observations.
    assert wilson(share, 2 * stderr, 10**9, 0.95).ends == pytest.approx(
        tuple(stats.binomtest(9, 10).proportion_ci(method="wilson")), abs=1e-6
    )


@pytest.mark.parametrize(("wrong", "is_coarse"), [(0, True), (3, True), (4, False)])
def test_a_share_of_few_errors_has_a_caution(wrong: int, is_coarse: bool):
    right = np.ones(100)
    right[:wrong] = 0.0
    influence = Influence(float(right.mean()), (right - right.mean()) / 100)
    assert bool(influence.interval(is_share=True).caution) == is_coarse


def test_shares_near_one_are_covered():
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        right = (generator.random(30) < 0.95).astype(float)
        low, high = ends(share_of(right, resamples=100).interval(is_share=True))
        covered += low <= 0.95 <= high
    assert covered / 200 >= 0.93  # 0.78 with plain percentiles


def test_means_of_ten_images_are_covered():
    generator = np.random.default_rng(0)
    covered = percentiles = 0
    for _ in range(400):
        values = generator.beta(2, 5, 10)
        drawn = generator.choice(values, (400, 10)).mean(axis=1)
        low, high = bias_corrected(drawn, float(values.mean()), 10, 0.95)
        covered += low <= 2 / 7 <= high
        low, high = np.quantile(drawn, [0.025, 0.975])
        percentiles += low <= 2 / 7 <= high
    assert percentiles / 400 < 0.92 < 0.93 <= covered / 400 <= 0.97


def test_the_interval_of_a_mean_is_as_wide_as_by_students_t():
    values = np.random.default_rng(1).normal(size=12)
    drawn = np.random.default_rng(2).choice(values, (100_000, 12)).mean(axis=1)
    low, high = bias_corrected(drawn, float(values.mean()), 12, 0.95)
    width = 2 * stats.t.ppf(0.975, 11) * values.std(ddof=1) / math.sqrt(12)
    assert high - low == pytest.approx(width, rel=0.03)


def test_where_resampling_moves_a_statistic_its_interval_moves_back_and_holds_the_value():
    drawn = np.random.default_rng(0).normal(-1.0, 1.0, 2000)
    low, high = bias_corrected(drawn, 0.0, 10**6, 0.95)
    plain_low, plain_high = np.quantile(drawn, [0.025, 0.975])
    assert low > plain_low + 0.8 and high > plain_high
    # All resamples below it: percentiles never reach the value.
    assert bias_corrected(drawn - 50.0, 0.0, 10**6, 0.95)[1] == 0.0


def test_five_systems_have_a_caution_and_their_correlation_lies_in_its_interval():
    generator, true = np.random.default_rng(3), np.array([0.0, 0.25, 0.5, 0.8, 1.0])
    images, systems = np.repeat(np.arange(30), 5), np.tile(np.arange(5), 30)
    inside = 0
    for _ in range(20):
        scores, human = (true[systems] + generator.normal(size=150) for _ in range(2))
        statistic = SystemPearson()
        rated = {"": ({"r": statistic}, [RatedScores(scores, human, images, systems)])}
        resamples = spreads_of_all(rated, Draws(100))[""]["r"]
        low, high = ends(resamples.interval())
        assert isinstance(resamples, Resamples)
        inside += low <= resamples.value <= high
    assert inside == 20 and SystemPearson.caution


def test_ps_of_few_images_are_those_of_students_t():
    for p in (1.0, 0.05, 0.001):
        assert p_of_few(p, 10**9) == pytest.approx(p, rel=1e-6)
        assert p_of_few(p, 10) == pytest.approx(2 * stats.t.sf(stats.norm.isf(p / 2) * math.sqrt(0.9), 9))
    assert p_of_few(0.05, 10) > 0.09
    needed = resamples_for(0.01, 10)
    assert needed and least_p(needed, 10) < 0.01 < least_p(needed - 2, 10)
    assert resamples_for(0.01, 2) is None


@pytest.mark.parametrize("images", [2, 3, 4, 5, 10, 11, 300, 20_001])
def test_students_t_is_scipys(images: int):
    for t in (0.0, 0.3, 2.0, 9.0):
        assert share_within(t, images) == pytest.approx(1 - 2 * stats.t.sf(t, images - 1), abs=1e-12)
    assert all(0.999 < share_within(10.0**power, images) <= 1 for power in range(4, 9))
    for level in (0.5, 0.95, 0.999):
        assert t_quantile(level, images) == pytest.approx(stats.t.ppf((1 + level) / 2, images - 1), rel=1e-9)
        assert t_quantile(level, 10**7) == pytest.approx(stats.norm.ppf((1 + level) / 2), rel=1e-9)


@pytest.mark.parametrize(("images", "letters"), [(9, ["", ""]), (10, ["a", "b"])])
@pytest.mark.parametrize("way", ["bootstrap", "influence"])
def test_fewer_than_ten_images_have_no_letters(images: int, letters: list[str], way: str):
    values = {"good": np.arange(images) / 100 + 5.0, "poor": np.arange(images) / 100}
    values["poor"][0] += 0.1
    estimates = paired_means(values, np.arange(images), Draws(intervals=way))
    ranking = rank(estimates, higher_is_better=True)
    assert ranking.groups == dict(zip(["good", "poor"], letters, strict=True)) and len(ranking.differences) == 1


@pytest.mark.parametrize("way", ["bootstrap", "influence"])
def test_below_twenty_images_intervals_have_a_caution(way: str):
    def spread(images: int) -> Spread:
        values = {"": np.arange(float(images))}
        return paired_means(values, np.arange(images), Draws(50, intervals=way))[""]

    assert spread(19).interval().caution == "interval over only 19 images"
    assert spread(19).interval(is_share=True).caution and not spread(20).interval().caution
