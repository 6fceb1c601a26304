"""Intervals from what each image adds to a number, held against the bootstrap that they stand in for."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from capbench.benchmarks.statistics import Draws, statistics
from capbench.benchmarks.statistics import bootstrap as bootstrap_module
from capbench.benchmarks.statistics.bootstrap import Resamples, resample_values
from capbench.benchmarks.statistics.contract import FunctionStatistic, RatedScores, Statistic, UndefinedStatistic
from capbench.benchmarks.statistics.correlation import KendallB, KendallC, OneMinusR2, Pearson, Spearman
from capbench.benchmarks.statistics.influence import (
    Influence,
    Spread,
    influence_of_mean,
    influence_of_sums,
    spread_of_difference,
    spreads_of_all,
    spreads_of_values,
)
from capbench.benchmarks.statistics.paired import difference, paired_bootstrap, paired_means
from capbench.benchmarks.statistics.sample_kendall import SampleKendall

OF_ROWS = (Pearson(), Spearman(), KendallB(), KendallC(), OneMinusR2())


def rated(n: int, images: int, seed: int = 0, levels: int | None = 4, decimals: int = 1) -> RatedScores:
    """Return rows whose images differ in quality, so that rows of one image are alike."""
    generator = np.random.default_rng(seed)
    image = generator.integers(images, size=n)
    quality = generator.normal(size=images)[image]
    scores = np.round(quality + generator.normal(size=n), decimals)
    human = quality + generator.normal(size=n) / 2
    if levels:
        human = np.digitize(human, np.linspace(-1, 1, levels - 1)).astype(float)
    return RatedScores(scores, human, image)


def spreads(known: Mapping[str, Statistic], *raters: RatedScores, **draws: Any) -> dict[str, Spread]:
    return spreads_of_all({"": (known, raters)}, Draws(**{"intervals": "influence", "resamples": 0, **draws}))[""]


@pytest.mark.parametrize("statistic", OF_ROWS, ids=lambda statistic: statistic.label)
@pytest.mark.parametrize("levels", [2, 4, None])
def test_influence_is_the_derivative_by_the_weight_of_a_row(statistic: Statistic, levels: int | None):
    rows = rated(40, 10, levels=levels)
    influence = statistic.influence(rows)
    for row in range(len(rows)):
        more, fewer = np.full((2, len(rows)), 1000.0)
        more[row], fewer[row] = 1010, 990
        slope = (statistic.value(rows, more) - statistic.value(rows, fewer)) / 0.02
        # What 1,000 equal rows of each tie among themselves costs tau-b a thousandth.
        assert influence[row] == pytest.approx(slope, rel=1e-4, abs=2e-6)


def test_influences_of_a_statistic_add_up_to_nothing():
    # All of them scale weights alike, which moves none of the statistics.
    for statistic in (*OF_ROWS, SampleKendall()):
        influence = statistic.influence(rated(200, 30))
        assert influence is not None and abs(influence.sum()) < 1e-12


@pytest.mark.parametrize("name", [name for name in statistics if statistics[name].influence is not Statistic.influence])
def test_standard_error_is_that_of_the_bootstrap_of_images(name: str):
    rows = rated(3000, 300, levels=5)
    statistic = statistics[name]()
    (spread,) = spreads({name: statistic}, rows).values()
    assert isinstance(spread, Influence) and len(spread.of_image) == 300
    assert spread.value == statistic.value(rows, np.ones(len(rows)))
    resampled = spreads({name: statistic}, rows, intervals="bootstrap", resamples=500, seed=3)[name].interval()
    interval = spread.interval()
    assert interval.method == "influence" and interval.resamples == 0 and not interval.reason
    # The bootstrap's own error is 1 / sqrt(2 · 500) = 3.2 %.
    assert interval.stderr == pytest.approx(resampled.stderr, rel=0.1)
    # Its quantiles, and twice the bias that it corrects, scatter by a tenth of the standard error each.
    assert interval.low == pytest.approx(resampled.low, abs=0.6 * interval.stderr)
    assert interval.high == pytest.approx(resampled.high, abs=0.6 * interval.stderr)


def test_mean_over_images_of_tau_leaves_out_what_the_value_leaves_out():
    rows = RatedScores(
        np.array([1.0, 2, 3, 1, 1, 5, 1, 2]), np.array([1.0, 2, 2, 1, 2, 3, 2, 1]), np.array([0, 0, 0, 1, 1, 2, 3, 3])
    )  # fmt: skip
    # Image 1 has equal scores and image 2 a single row; taus of 0 and 3 are 0.8165 and -1, their mean -0.0918.
    influence = SampleKendall().influence(rows)
    by_image = np.bincount(rows.groups, influence)
    assert by_image == pytest.approx([(0.8164966 + 0.0917517) / 2, 0, 0, (-1 + 0.0917517) / 2])
    as_zero = np.bincount(rows.groups, SampleKendall(undefined="zero").influence(rows))
    assert as_zero[1] == pytest.approx((0 + 0.0611678) / 3) and as_zero[2] == 0


def test_several_raters_are_averaged_over_the_same_images():
    rows = [rated(500, 50, seed) for seed in (1, 2)]
    together = spreads({"r": Pearson()}, *rows)["r"]
    alone = [spreads({"r": Pearson()}, rater)["r"] for rater in rows]
    assert together.value == pytest.approx(np.mean([spread.value for spread in alone]))
    assert together.of_image == pytest.approx(np.mean([spread.of_image for spread in alone], axis=0))


def test_auto_resamples_few_rows_and_takes_influences_of_many(monkeypatch: pytest.MonkeyPatch):
    rows = rated(300, 30)
    plain = FunctionStatistic(lambda scores, human, groups: float(np.mean(scores)))
    known: dict[str, Statistic] = {"plain": plain, "r": Pearson()}

    def ways(**options: Any) -> dict[str, str]:
        spread_of = spreads(known, rows, resamples=20, **options)
        assert list(spread_of) == list(known)
        return {name: spread.interval().method for name, spread in spread_of.items()}

    assert set(ways(intervals="auto").values()) == {"bootstrap"}
    assert bootstrap_module.INFLUENCE_ROWS == 1_000_000
    monkeypatch.setattr(bootstrap_module, "INFLUENCE_ROWS", 300)
    # A statistic of which no influence function is known keeps the bootstrap, whatever is asked for.
    assert ways(intervals="auto") == ways(intervals="influence") == {"plain": "bootstrap", "r": "influence"}
    assert set(ways(intervals="bootstrap").values()) == {"bootstrap"}


def mean_of(values: np.ndarray) -> Callable[[np.ndarray], float]:
    return lambda weights: float(np.average(values, weights=weights))


def test_interval_of_a_mean_is_that_of_the_bootstrap():
    rows = rated(4000, 400)
    known = partial(influence_of_mean, rows.scores, np.ones(len(rows)))
    values = {"known": (mean_of(rows.scores), known), "unknown": (mean_of(rows.scores), None)}
    spreads_ = spreads_of_values(values, rows.groups + 7, Draws(9, intervals="influence"))
    interval = spreads_["known"].interval()
    resampled = resample_values({"": mean_of(rows.scores)}, rows.groups, Draws())[""].interval()
    assert interval.method == "influence"
    assert interval.stderr == pytest.approx(resampled.stderr, rel=0.07)
    assert isinstance(spreads_["unknown"], Resamples) and list(spreads_) == list(values)


def test_influence_on_a_weighted_mean_is_that_of_the_rows_it_is_of():
    values, weights = np.array([1.0, 2.0, 6.0, np.nan]), np.array([2.0, 1.0, 1.0, 0.0])
    # The mean is 2.5: a row counted twice moves it by (v - 2.5) / 4 for each time.
    assert influence_of_mean(values, weights) == pytest.approx([2 * -1.5 / 4, -0.5 / 4, 3.5 / 4, 0])
    assert influence_of_mean(values[:3], np.ones(3)) == pytest.approx((values[:3] - 3) / 3)


def test_value_of_sums_scatters_as_its_bootstrap():
    # Shaped like BLEU: a geometric mean of two precisions, and a penalty where the candidates are short.
    generator = np.random.default_rng(5)
    length = generator.integers(5, 15, 3000)
    parts = np.stack(
        [generator.binomial(length, 0.6), generator.binomial(length, 0.2), length, length + 1, length * 0], axis=1
    ).astype(float)  # fmt: skip
    weights = generator.integers(1, 4, 3000).astype(float)
    image = generator.integers(500, size=3000)

    def value(sums: np.ndarray) -> float:
        right, pairs, tokens, wanted, none = sums
        return float(np.sqrt(right * pairs) / tokens * np.exp(1 - wanted / tokens) + np.sqrt(none))

    terms = weights[:, None] * parts
    of_rows = influence_of_sums(value, terms.sum(axis=0), [terms])
    assert not of_rows.reason
    whole = Influence.of_rows(of_rows.value, of_rows.of_image, image, 500)
    resampled = resample_values({"": lambda drawn: value((drawn * weights) @ parts)}, image, Draws())[""].interval()
    assert whole.interval().stderr == pytest.approx(resampled.stderr, rel=0.07)
    in_pieces = influence_of_sums(value, terms.sum(axis=0), np.split(terms, [7, 1000, 2999]))
    assert (in_pieces.of_image == of_rows.of_image).all()

    def undefined(sums: np.ndarray) -> float:
        raise UndefinedStatistic("nothing was scored")

    assert influence_of_sums(undefined, terms.sum(axis=0), [terms]).interval().reason == "nothing was scored"


def test_influence_on_a_value_of_sums_is_its_derivative():
    terms = np.random.default_rng(3).uniform(1, 2, (50, 3)) * [1.0, 1e-6, 1e6]
    totals = terms.sum(axis=0)
    influence = influence_of_sums(lambda sums: float(sums[0] ** 3 * sums[1] / sums[2]), totals, [terms])
    relative = 3 * terms[:, 0] / totals[0] + terms[:, 1] / totals[1] - terms[:, 2] / totals[2]
    assert influence.value == totals[0] ** 3 * totals[1] / totals[2]
    np.testing.assert_allclose(influence.of_image, influence.value * relative, rtol=1e-8)


def two_metrics() -> dict[str, list[RatedScores]]:
    rows = rated(4000, 400, levels=5)
    noise = np.random.default_rng(9).normal(size=4000)
    return {"first": [rows], "second": [RatedScores(rows.scores + 0.35 * noise, rows.human, rows.groups)]}


def test_difference_of_two_metrics_has_the_interval_and_p_of_the_paired_bootstrap():
    ways = [paired_bootstrap(KendallB(), two_metrics(), Draws(intervals=way)) for way in ("bootstrap", "influence")]
    by_resamples, by_influence = (difference(way["first"], way["second"]) for way in ways)
    assert by_influence.value == by_resamples.value
    assert by_influence.interval.method == "influence"
    assert by_influence.interval.stderr == pytest.approx(by_resamples.interval.stderr, rel=0.08)
    # What an image does to both cancels: the difference scatters far less than each.
    single = ways[1]["first"].interval().stderr
    assert by_influence.interval.stderr < single / 2
    with pytest.raises(ValueError, match="different methods"):
        difference(ways[0]["first"], ways[1]["second"])


def test_p_of_a_difference_is_that_of_students_t():
    # 3.182446 standard errors of four images, three degrees of freedom: p = 0.05; equal metrics have p 1 and never 0.
    images = np.array([1.0, -1.0, 1.0, -1.0])
    stderr = np.sqrt(4 / 3 * 4)
    for value in (3.182446 * stderr, -3.182446 * stderr):
        difference_of_metrics = Influence(value, images)
        assert difference_of_metrics.stderr == pytest.approx(stderr)
        assert difference_of_metrics.p_of(0.0) == pytest.approx(0.05, abs=1e-6)
    assert Influence(1e-13, images).p_of(1e-12) == 1.0
    assert Influence(0.5, np.zeros(4)).p_of(1e-12) == 0.0
    values = np.random.default_rng(0).random(50)
    spread_of = paired_means({"a": values, "b": values}, np.arange(50), Draws(intervals="influence"))
    assert difference(spread_of["a"], spread_of["b"]).p == 1.0


def test_interval_of_a_correlation_stays_between_minus_one_and_one():
    images = np.random.default_rng(0).normal(size=20) / 200
    plain, fisher = Influence(0.95, images), Influence(0.95, images, is_correlation=True)
    high = plain.interval().high
    assert high is not None and high > 0.97
    low, high = fisher.interval().low, fisher.interval().high
    assert low is not None and high is not None and 0 < low < 0.95 < high < 1
    # Of one so close to 1 the lower end is farther away.
    assert 0.95 - low > 1.5 * (high - 0.95)
    wide = Influence(0.9, images * 20)
    assert wide.interval().high > 1 > Influence(0.9, images * 20, is_correlation=True).interval().high
    # At 1 there is no z.
    assert Influence(1.0, np.zeros(3), is_correlation=True).interval().low == 1.0
    # Student's t of 19 degrees of freedom for the level.
    ends = Influence(0.0, images).interval(0.9)
    assert ends.stderr is not None and ends.high == pytest.approx(1.729133 * ends.stderr)


def test_interval_that_cannot_be_made_says_why():
    assert Influence(0.3, np.zeros(1)).interval().reason == "fewer than 2 images to draw from"
    bad = Influence.of_rows(0.3, np.array([np.inf, 1.0]), np.array([0, 1]), 2)
    assert bad.interval().reason == "the influence of a row is not finite"
    assert (Influence(0.1, np.zeros(2)) - bad).fault() == bad.reason
    equal = RatedScores(np.ones(4), np.arange(4.0), np.arange(4))
    interval = spreads({"r": Pearson()}, equal)["r"].interval()
    assert interval.low is None and "scores are equal" in interval.reason

    class Raises(Pearson):
        def influence(self, rated: RatedScores) -> np.ndarray:
            raise ZeroDivisionError("by zero")

    interval = spreads({"r": Raises()}, rated(9, 3))["r"].interval()
    assert interval.reason == "the influence function raised ZeroDivisionError: by zero"
    assert spread_of_difference(bad, bad).fault() == bad.reason
