"""The paired bootstrap: rows with a known truth, and calculations by hand."""

import itertools

import numpy as np
import pytest
from scipy import stats

from capbench.benchmarks.statistics import Draws
from capbench.benchmarks.statistics.bootstrap import Resamples, resample_all
from capbench.benchmarks.statistics.classical import williams_test
from capbench.benchmarks.statistics.contract import RatedScores, UndefinedStatistic
from capbench.benchmarks.statistics.correlation import KendallB, KendallC, Pearson
from capbench.benchmarks.statistics.paired import (
    difference,
    p_of_mean_differences,
    paired_bootstrap,
    paired_means,
    paired_values,
)
from capbench.benchmarks.statistics.sample_kendall import SampleKendall

pytestmark = pytest.mark.costly


def two_metrics(generator, images=50, rows_per_image=4, worse=0.0):
    """Return ratings and two metrics that follow them alike, but for the ``worse`` noise of the second.

    Half the variance of everything belongs to the image, so that rows of an image are far from independent.
    """
    groups = np.repeat(np.arange(images), rows_per_image)

    def noise():
        return np.sqrt(0.5) * (generator.normal(size=images)[groups] + generator.normal(size=len(groups)))

    human, shared = noise(), noise()
    first = human + 0.7 * shared + noise()
    second = human + 0.7 * shared + (1 + worse) * noise()
    return {"first": [RatedScores(first, human, groups)], "second": [RatedScores(second, human, groups)]}


def p_of(statistic, rated, seed=0, resamples=199):
    estimate_of = paired_bootstrap(statistic, rated, Draws(resamples, seed))
    return difference(estimate_of["first"], estimate_of["second"]).p


def test_equally_good_metrics_are_told_apart_in_about_5_percent_of_samples_and_williams_in_far_more():
    # 400 samples: the binomial standard error of a share of 0.05 is 0.011. Over 1,000 samples of 100 images
    # it is 0.046 (tau-b 0.040), of 30 images 0.053 (0.056); Williams, blind to images, gives 0.13 in all.
    generator = np.random.default_rng(1)
    bootstrapped = by_williams = 0
    for sample in range(400):
        rated = two_metrics(generator)
        bootstrapped += p_of(Pearson(), rated, seed=sample, resamples=39) <= 0.05
        human, first, other = rated["first"][0].human, rated["first"][0].scores, rated["second"][0].scores
        r = np.corrcoef([human, first, other])
        by_williams += williams_test(r[0, 1], r[0, 2], r[1, 2], len(human))[1] <= 0.05
    assert 0.03 <= bootstrapped / 400 <= 0.07
    assert by_williams / 400 > 0.09


def test_p_is_the_share_of_resamples_as_far_from_the_difference_as_it_is_from_none():
    # Differences of 0.1 to 0.5 around 0.2: |d* - 0.2| = 0.1, 0, 0.1, 0.2, 0.3; two reach 0.2. (1 + 2) / (1 + 5).
    many = 10**9
    zeros = Resamples(np.zeros(5), 0.0, many)
    first = Resamples(np.array([0.1, 0.2, 0.3, 0.4, 0.5]), 0.2, many)
    assert difference(first, zeros).p == pytest.approx(3 / 6)
    assert difference(zeros, first).p == pytest.approx(3 / 6)


def test_p_is_never_below_one_over_the_resamples_and_one():
    estimate_of = paired_means({"first": np.arange(9.0), "second": np.arange(9.0) - 5}, np.arange(9), Draws(99))
    # 1 in 100, a z of 2.575829, is a t of that by the root of 8/9 with 8 degrees of freedom.
    assert difference(estimate_of["first"], estimate_of["second"]).p == pytest.approx(
        2 * stats.t.sf(2.575829 * (8 / 9) ** 0.5, 8)
    )


def test_values_and_intervals_are_those_of_the_unpaired_bootstrap():
    rated = two_metrics(np.random.default_rng(0))
    estimate_of = paired_bootstrap(KendallC(), rated, Draws(50, 7))
    for name, rows in rated.items():
        alone = resample_all({"": ({"tau": KendallC()}, rows)}, Draws(50, 7))[""]["tau"]
        assert estimate_of[name].interval() == alone.interval()


def test_the_difference_of_means_has_the_standard_error_of_the_paired_formula():
    # Of n paired differences: their standard deviation over sqrt(n), however much the values themselves vary.
    generator = np.random.default_rng(0)
    shared = 10 * generator.normal(size=400)
    values = {"first": shared + generator.normal(size=400), "second": shared + generator.normal(size=400)}
    estimate_of = paired_means(values, np.arange(400), Draws(1000))
    result = difference(estimate_of["first"], estimate_of["second"])
    distances = values["first"] - values["second"]
    assert result.value == pytest.approx(distances.mean())
    assert result.interval.stderr == pytest.approx(distances.std() / 20, rel=0.08)


def test_statistics_within_images_are_compared_too():
    assert p_of(SampleKendall(), two_metrics(np.random.default_rng(0), worse=4.0)) < 0.05


def test_metrics_on_other_rows_are_refused():
    generator = np.random.default_rng(0)
    rated = {"first": two_metrics(generator)["first"], "second": two_metrics(generator)["second"]}
    with pytest.raises(ValueError, match="the same rows"):
        paired_bootstrap(Pearson(), rated, Draws(10))


def test_a_metric_of_one_value_is_named():
    rated = two_metrics(np.random.default_rng(0))
    (scores,) = rated["first"]
    rated["second"] = [RatedScores(np.ones(len(scores)), scores.human, scores.groups)]
    with pytest.raises(UndefinedStatistic, match="'second': all scores are equal"):
        paired_bootstrap(Pearson(), rated, Draws(10))


def test_a_metric_on_which_the_statistic_fails_is_named():
    class Fragile(Pearson):
        def value(self, rated, weights):
            raise KeyError("no such rater")

    with pytest.raises(UndefinedStatistic, match="'first': the statistic raised KeyError: 'no such rater'"):
        paired_bootstrap(Fragile(), two_metrics(np.random.default_rng(0)), Draws(10))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_means_of_what_is_not_finite_are_undefined(bad):
    values = {"first": np.ones(3), "second": np.array([1.0, bad, 1.0])}
    with pytest.raises(UndefinedStatistic, match=f"1 of 3 values of 'second' are not finite: {bad}"):
        paired_means(values, np.arange(3), Draws(10))
    with pytest.raises(UndefinedStatistic, match=f"1 of 6 scores are not finite: {bad}"):
        p_of_mean_differences(np.stack([*values.values()]))


@pytest.mark.parametrize("intervals", ["bootstrap", "influence"])
def test_value_that_is_undefined_is_not_compared(intervals):
    values = {"first": (lambda weights: np.nan, lambda: np.zeros(3))}
    with pytest.raises(UndefinedStatistic, match="no finite number"):
        paired_values(values, np.arange(3), Draws(10, intervals=intervals))


@pytest.mark.parametrize(("size", "p"), [(1e6, 1.0), (1.0, 1 / 21)])
def test_difference_by_rounding_of_the_greater_number_is_none(size: float, p: float):
    first = Resamples(np.full(20, size + 1e-7), size + 1e-7, 10**9)
    second = Resamples(np.full(20, size), size, 10**9)
    assert difference(first, second).p == pytest.approx(p)


def test_there_is_no_p_where_too_many_resamples_have_no_value():
    # One image of ten scores differently; (1 - 1/10)^10 = 35 % of the resamples miss it.
    human, groups = np.arange(10.0), np.arange(10)
    scores = (groups == 0).astype(float)
    rated = {"first": [RatedScores(scores, human, groups)], "second": [RatedScores(human, human, groups)]}
    estimate_of = paired_bootstrap(KendallB(), rated, Draws(200))
    result = difference(estimate_of["first"], estimate_of["second"])
    assert result.p is None
    assert "all scores are equal" in result.interval.reason


def test_progress_counts_all_metrics_to_the_end():
    seen = []
    rated = two_metrics(np.random.default_rng(0), images=5)
    paired_bootstrap(Pearson(), rated, Draws(3, progress=lambda *numbers: seen.append(numbers)))
    assert seen == [(n, 6) for n in (2, 4, 6)]


def test_p_of_mean_differences_is_that_of_the_paired_t_test():
    values = np.random.default_rng(1).random((14, 60)) + np.array([0.0, 0.02, 0.1, 0.3] + [0.0] * 10)[:, None]
    ps = p_of_mean_differences(values)
    assert np.array_equal(ps, ps.T) and np.all(np.diag(ps) == 1)
    for row, other in itertools.combinations(range(14), 2):
        assert ps[row, other] == pytest.approx(stats.ttest_rel(values[row], values[other]).pvalue, rel=1e-4)


@pytest.mark.parametrize("rows", [2, 13])
def test_equal_rows_do_not_differ_and_those_that_always_do_by_the_same_are_different(rows: int):
    scores = np.random.default_rng(3).random(30)
    assert np.all(p_of_mean_differences(np.stack([scores] * rows)) == 1)
    assert np.all(p_of_mean_differences(np.zeros((rows, 30))) == 1)
    assert p_of_mean_differences(scores + np.arange(rows)[:, None])[0, 1] < 0.01


def test_two_captions_can_tell_rows_apart_and_one_cannot():
    apart = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert p_of_mean_differences(apart)[0, 1] == 0
    assert np.all(p_of_mean_differences(apart[:, :1]) == 1)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_p_does_not_depend_on_the_scale_of_scores(scale: float):
    values = np.random.default_rng(5).normal(size=(3, 40))
    assert p_of_mean_differences(scale * values) == pytest.approx(p_of_mean_differences(values))


def test_p_does_not_depend_on_the_order_of_sums():
    values = np.random.default_rng(5).random((3, 101))
    assert np.array_equal(p_of_mean_differences(values), p_of_mean_differences(np.asfortranarray(values)))


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_the_same_scores_in_another_order_do_not_differ(seed: int):
    # As floats, sums of the same numbers in another order may differ by their last bits.
    generator = np.random.default_rng(seed)
    scores = generator.random(25) * 10.0 ** generator.integers(-3, 1, 25)
    assert p_of_mean_differences(np.stack([scores, generator.permutation(scores)]))[0, 1] == 1
