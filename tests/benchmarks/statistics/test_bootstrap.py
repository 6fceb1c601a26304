import numpy as np
import pytest

from capbench.benchmarks.statistics.bootstrap import bootstrap, bootstrap_value
from capbench.benchmarks.statistics.contract import RatedScores, Statistic, UndefinedStatistic
from capbench.benchmarks.statistics.correlation import KendallB, KendallC, Pearson
from capbench.benchmarks.statistics.sample_kendall import SampleKendall

pytestmark = pytest.mark.costly


def correlated_rows(generator, images=100, rows_per_image=1, correlation=0.6):
    noise = generator.normal(size=(2, images))
    human = noise[0]
    scores = correlation * human + np.sqrt(1 - correlation**2) * noise[1]
    return RatedScores(
        np.repeat(scores, rows_per_image),
        np.repeat(human, rows_per_image),
        np.repeat(np.arange(images), rows_per_image),
    )


def mean_of(scores):
    return lambda weights: float(weights @ scores / weights.sum())


def test_the_same_seed_gives_the_same_interval():
    rated = correlated_rows(np.random.default_rng(0))
    first, second, other = (
        bootstrap({"kendall_b": KendallB()}, [rated], resamples=50, seed=seed) for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


def test_an_interval_does_not_depend_on_what_else_is_asked():
    rated = correlated_rows(np.random.default_rng(0))
    alone = bootstrap({"tau": KendallB()}, [rated], resamples=50)["tau"]
    among = bootstrap({"r": Pearson(), "c": KendallC(), "tau": KendallB()}, [rated], resamples=50)["tau"]
    assert alone == among


def test_interval_covers_the_true_correlation_about_as_often_as_its_level_says():
    # 200 samples of 100 rows with r = 0.6: the binomial standard error of a share of 0.9 is 0.021.
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        rated = correlated_rows(generator)
        interval = bootstrap({"r": Pearson()}, [rated], resamples=200, level=0.9)["r"]
        covered += interval.low <= 0.6 <= interval.high
    assert 0.83 <= covered / 200 <= 0.95


def test_standard_error_of_a_mean_equals_the_formula():
    # Of a mean of n values: their (population) standard deviation over sqrt(n).
    scores = np.random.default_rng(0).normal(size=400)
    interval = bootstrap_value(mean_of(scores), np.arange(400), resamples=2000)
    assert interval.stderr == pytest.approx(scores.std() / 20, rel=0.05)
    assert interval.low < scores.mean() < interval.high


def test_copied_rows_of_an_image_add_no_certainty():
    single = correlated_rows(np.random.default_rng(0), rows_per_image=1)
    tripled = correlated_rows(np.random.default_rng(0), rows_per_image=3)
    as_if_independent = RatedScores(tripled.scores, tripled.human, np.arange(len(tripled)))
    stderr = [
        bootstrap({"r": Pearson()}, [rated], resamples=500)["r"].stderr
        for rated in (single, tripled, as_if_independent)
    ]
    assert stderr[1] == pytest.approx(stderr[0], rel=1e-9)
    assert stderr[2] == pytest.approx(stderr[0] / np.sqrt(3), rel=0.15)


def test_several_raters_are_averaged_on_the_same_draws():
    generator = np.random.default_rng(0)
    first, second = correlated_rows(generator), correlated_rows(generator)
    seen = []

    def mean_of_both(weights):
        seen.append((Pearson().value(first, weights) + Pearson().value(second, weights)) / 2)
        return seen[-1]

    expected = bootstrap_value(mean_of_both, first.groups, resamples=100)
    both = bootstrap({"r": Pearson()}, [first, second], resamples=100)["r"]
    assert (both.low, both.high, both.stderr) == pytest.approx((expected.low, expected.high, expected.stderr))


def test_raters_who_rated_different_images_share_the_draws_of_an_image():
    # The second rater rated the last 50 images only; a resample draws an image for both raters or neither.
    rated = correlated_rows(np.random.default_rng(0))
    half = RatedScores(rated.scores[50:], rated.human[50:], rated.groups[50:])
    drawn: dict[str, list[list[float]]] = {"all": [], "both": []}

    class Remember(Statistic):
        label = "remember"

        def __init__(self, name: str) -> None:
            self.name = name

        def value(self, rated: RatedScores, weights: np.ndarray) -> float:
            drawn[self.name].append(weights[rated.groups >= 50].tolist())
            return 0.0

    bootstrap({"first": Remember("all")}, [rated], resamples=5)
    bootstrap({"both": Remember("both")}, [rated, half], resamples=5)
    assert drawn["both"] == drawn["all"] * 2


def test_an_image_drawn_twice_counts_twice_in_sample_tau():
    rated = RatedScores(np.array([1.0, 2, 3, 1, 2, 3]), np.array([1.0, 2, 3, 3, 2, 1]), np.array([0, 0, 0, 1, 1, 1]))
    # Image 0 has tau 1, image 1 has -1: the resamples give 1, 0 or -1.
    interval = bootstrap({"tau": SampleKendall()}, [rated], resamples=400)["tau"]
    assert (interval.low, interval.high) == (-1, 1)
    assert interval.stderr == pytest.approx(np.sqrt(0.5), rel=0.1)


def test_undefined_resamples_are_left_out_and_counted():
    # Image 0 alone has another rating; a resample without it (36.6 %) has no tau.
    rated = RatedScores(np.arange(100.0), np.array([1.0] + [0.0] * 99), np.arange(100))
    interval = bootstrap({"tau": KendallB()}, [rated], resamples=500)["tau"]
    assert (interval.low, interval.high, interval.stderr) == (None, None, None)
    assert interval.resamples == pytest.approx(0.634 * 500, abs=40)
    assert "all ratings are equal" in interval.reason


def test_a_few_undefined_resamples_keep_the_interval():
    # Four of 100 images have another rating: exp(-4), about 1.8 %, of the resamples miss them all.
    human = np.array([1.0] * 4 + [0.0] * 96)
    rated = RatedScores(np.arange(100.0), human, np.arange(100))
    interval = bootstrap({"tau": KendallB()}, [rated], resamples=500)["tau"]
    assert interval.low is not None
    assert 470 <= interval.resamples < 500
    assert interval.reason == ""


def test_one_image_has_no_interval():
    rated = RatedScores(np.arange(5.0), np.arange(5.0), np.zeros(5, int))
    interval = bootstrap({"tau": KendallB()}, [rated], resamples=20)["tau"]
    assert interval.low is None
    assert "fewer than 2 images" in interval.reason
    assert bootstrap_value(mean_of(rated.scores), rated.groups, resamples=20).low is None


def test_a_value_that_raises_undefined_has_no_interval():
    def value(weights):
        raise UndefinedStatistic("nothing to average")

    interval = bootstrap_value(value, np.arange(10), resamples=20)
    assert "undefined on 20 of 20 resamples (nothing to average)" in interval.reason


def test_a_value_that_is_not_finite_or_fails_has_no_interval():
    def fail(weights):
        raise ZeroDivisionError("no weights")

    interval = bootstrap_value(lambda weights: np.inf, np.arange(10), resamples=20)
    assert "on 20 of 20 resamples (the statistic returned no finite number)" in interval.reason
    interval = bootstrap_value(fail, np.arange(10), resamples=20)
    assert "on 20 of 20 resamples (the statistic raised ZeroDivisionError: no weights)" in interval.reason


def test_a_statistic_that_fails_on_resamples_costs_its_own_interval():
    class Fragile(Pearson):
        def value(self, rated, weights):
            return 1 / float(weights.max() == 1)

    rated = correlated_rows(np.random.default_rng(0))
    found = bootstrap({"fragile": Fragile(), "r": Pearson()}, [rated], resamples=20)
    assert found["fragile"].reason == (
        "undefined on 20 of 20 resamples (the statistic raised ZeroDivisionError: float division by zero)"
    )
    assert found["r"] == bootstrap({"r": Pearson()}, [rated], resamples=20)["r"]


def test_no_resamples_give_no_intervals():
    rated = correlated_rows(np.random.default_rng(0))
    assert bootstrap({"r": Pearson()}, [rated], resamples=0) == {}
    assert bootstrap_value(mean_of(rated.scores), rated.groups, resamples=0) is None


@pytest.mark.parametrize("options", [{"resamples": -1}, {"level": 95}])
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match="must"):
        bootstrap({"r": Pearson()}, [correlated_rows(np.random.default_rng(0))], **options)


def test_progress_counts_to_the_end():
    seen = []
    rated = correlated_rows(np.random.default_rng(0))
    bootstrap({"r": Pearson()}, [rated, rated], resamples=3, progress=lambda *numbers: seen.append(numbers))
    assert seen == [(done, 6) for done in range(1, 7)]
